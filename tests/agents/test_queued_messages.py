"""Messages for a busy thread, as the agent's file and its routes have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.delegation.queued_text import edit_queued
from agents.testing import AgentKit
from bus.journal.clients import CommitResult, IfBusy
from bus.journal.errors import CONTROL_REFUSED, MESSAGE_TAKEN, THREAD_BUSY
from config.identity.principal import LOCAL, Principal
from tests.raising import raises


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit() as agent_kit:
        agent_kit.agent("refunds")
        agent_kit.agent("desk", router=[{"contains": "refund", "agent": "refunds"}], system_prompt="Help.")
        yield agent_kit


def test_what_an_agents_file_says_of_a_busy_thread_holds_for_requests_that_say_nothing(kit: AgentKit) -> None:
    kit.agent("shy", if_busy="reject")
    kit.run("First", "shy", thread_id="talk", detached=True)

    with raises(THREAD_BUSY):
        kit.run("Second", "shy", thread_id="talk", detached=True)
    assert kit.runner.run("Third", "shy", thread_id="talk", detached=True, if_busy="enqueue").is_new


def edit(kit: AgentKit, run_id: str, text: str) -> CommitResult:
    return edit_queued(kit.runner.journal, kit.runner.registry, LOCAL, "talk", run_id, text)


def texts(kit: AgentKit) -> list[str]:
    return [entry["content"] for entry in kit.runner.journal.clients.queue_of(LOCAL, "talk")[0]]


def test_a_message_that_a_route_took_keeps_its_text_and_is_still_moved_and_removed(kit: AgentKit) -> None:
    kit.run("Hello.", "desk", thread_id="talk", detached=True)
    routed = kit.run("A refund of 5.", "desk", thread_id="talk", detached=True).run_id

    for text in ("A refund of 50.", "Nothing."):
        with raises(CONTROL_REFUSED, match="no message to an agent.*; remove it and send it anew"):
            edit(kit, routed, text)

    clients = kit.runner.journal.clients
    clients.edit_queued(LOCAL, "talk", routed, place="first")
    assert texts(kit) == ["A refund of 5.", "Hello."]
    clients.remove_queued(LOCAL, "talk", routed)
    assert texts(kit) == ["Hello."]


def test_a_message_is_not_edited_to_a_text_that_a_route_of_its_agent_takes(kit: AgentKit) -> None:
    run_id = kit.run("Hello.", "desk", thread_id="talk", detached=True).run_id

    with raises(CONTROL_REFUSED, match="a route of its agent takes this text.*; remove it and send it anew"):
        edit(kit, run_id, "A refund of 5.")
    assert texts(kit) == ["Hello."]
    edit(kit, run_id, "Good morning.")
    assert texts(kit) == ["Good morning."]
    kit.runner.journal.clients.remove_queued(LOCAL, "talk", run_id)
    with raises(MESSAGE_TAKEN, match="the run is cancelled; send another"):
        edit(kit, run_id, "A refund of 5.")


def test_routes_are_judged_by_what_the_runs_own_principal_may_start(kit: AgentKit) -> None:
    kit.agent("weather", tools=["clock"], access={"roles": ["operator"]})
    kit.agent("guide", router=[{"contains": "forecast", "capability": "clock"}], tools=["agent:weather"])
    ana = Principal(id="ana")
    run_id = kit.run("Hello.", "guide", thread_id="talk", detached=True, principal=ana).run_id

    edit(kit, run_id, "A forecast.")

    assert [entry["content"] for entry in kit.runner.journal.clients.queue_of(ana, "talk")[0]] == ["A forecast."]
    own = kit.run("Hello.", "guide", thread_id="own", detached=True).run_id
    with raises(CONTROL_REFUSED):
        edit_queued(kit.runner.journal, kit.runner.registry, LOCAL, "own", own, "A forecast.")


@pytest.mark.parametrize("if_busy", ["merge", "steer"])
def test_a_message_that_a_route_takes_joins_no_other_run(kit: AgentKit, if_busy: IfBusy) -> None:
    kit.run("Hello.", "desk", thread_id="talk", detached=True)

    routed = kit.run("A refund of 5.", "desk", thread_id="talk", detached=True, if_busy=if_busy)

    assert (routed.is_new, routed.delivery.delivered) == (True, "run")
    assert texts(kit) == ["Hello.", "A refund of 5."]


@pytest.mark.parametrize("if_busy", ["merge", "steer"])
def test_no_message_joins_a_run_that_a_route_took(kit: AgentKit, if_busy: IfBusy) -> None:
    kit.run("A refund of 5.", "desk", thread_id="talk", detached=True)

    waits = kit.run("Hello.", "desk", thread_id="talk", detached=True, if_busy=if_busy)

    assert (waits.is_new, texts(kit)) == (True, ["A refund of 5.", "Hello."])
    joined = kit.run("Are you there?", "desk", thread_id="talk", detached=True, if_busy="merge")
    assert (joined.run_id, joined.delivery.delivered) == (waits.run_id, "merged")
    assert texts(kit) == ["A refund of 5.", "Hello.\n\nAre you there?"]


def test_a_route_decides_about_each_message_and_not_about_what_they_are_merged_to(kit: AgentKit) -> None:
    kit.agent("desk", router=[{"matches": r"order\\s+[0-9]+", "agent": "refunds"}], system_prompt="Help.")
    first = kit.run("It is about my order", "desk", thread_id="talk", detached=True)

    joined = kit.run("1042", "desk", thread_id="talk", detached=True, if_busy="merge")

    assert (joined.run_id, texts(kit)) == (first.run_id, ["It is about my order\n\n1042"])
    (row,) = [kit.runner.journal.readers.runs.row(LOCAL, first.run_id)]
    assert row.kind == "agent"
