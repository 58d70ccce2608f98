"""What a run undoes that has failed or was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.testing import AgentKit
from agents.tools.tool import tool
from bus.journal.errors import RUN_CRASHED
from bus.journal.owner import Ending
from bus.journal.run_end import NOT_MADE, end_run
from bus.journal.unowned.transitions import lock_run
from bus.payloads import ErrorPayload
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import answer, chain, events, node, results, states, until
from tests.bus.journal_harness import fire_timers

CALLS: list[str] = []
"""What the tools have done."""
BROKEN: set[str] = set()
"""What cannot be cancelled now."""
CANCEL = {"compensate": {"tool": "cancel", "arguments": {"what": "{{ result.booked }}"}}}


@tool(effect="unsafe")
def book(what: str) -> dict[str, str]:
    """Book something; there is never a room."""
    if what == "room":
        raise ValueError("there is no room")
    CALLS.append(f"book {what}")
    return {"booked": what}


@tool(effect="idempotent", retries=0)
def cancel(what: str) -> str:
    """Cancel something."""
    CALLS.append(f"cancel {what}")
    if what in BROKEN:
        raise ValueError("the office is closed")
    return "cancelled"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    BROKEN.clear()


def booking(what: str, more: dict[str, Any] | None = CANCEL) -> dict[str, Any]:
    return node(what, "FUNCTION", more, tool="book", arguments={"what": what})


TRIP = chain(booking("flight"), booking("hotel"), booking("taxi", None), booking("room"))


def test_what_was_done_is_undone_the_newest_first_and_the_first_error_stays(kit: AgentKit) -> None:
    kit.workflow(tools=[book, cancel], **TRIP)

    handle = kit.start()
    end = handle.result(5)

    assert CALLS == ["book flight", "book hotel", "book taxi", "cancel hotel", "cancel flight"]
    assert (end.status, end.reason) == ("failed", "tool_failed")
    assert [(left["node"], left["tool"]) for left in end.not_undone or []] == [("taxi", "book")]
    assert (states(kit, handle)["hotel"], states(kit, handle)["taxi"]) == ("compensated", "done")


@pytest.mark.parity
@pytest.mark.parametrize("behind", range(14))
def test_an_owner_that_is_lost_between_two_compensations_repeats_none(
    kit: AgentKit, losses: Losses, behind: int
) -> None:
    kit.workflow(tools=[book, cancel], **TRIP)
    losses.begin(kit, frozenset({behind}))

    handle = kit.start()
    end = None
    while end is None:
        if handle.status() == "waiting":  # a booking was cut off
            answer(handle, "run_again")
        elif handle.status() == "failed":
            end = handle.result(5)

    assert end.reason == "tool_failed"
    assert list(dict.fromkeys(CALLS)) == ["book flight", "book hotel", "book taxi", "cancel hotel", "cancel flight"]
    left = [entry["node"] for entry in end.not_undone or []]
    assert len(CALLS) <= 6  # the call that was cut off is made again
    assert not {"planned", "started"} & {status for status, _ in results(kit, handle).values()}
    assert left in (["taxi"], ["taxi", "room"])  # the room may be booked where its call was cut off


def test_a_compensation_that_fails_three_times_is_named_and_the_first_error_stays(kit: AgentKit) -> None:
    BROKEN.add("hotel")
    kit.workflow(tools=[book, cancel], **TRIP)

    handle = kit.start()
    for decision in ("run_again", "run_again", "fail"):
        answer(handle, decision)
    end = handle.result(5)

    assert CALLS[3:] == ["cancel hotel"] * 3 + ["cancel flight"]
    assert [entry["node"] for entry in end.not_undone or []] == ["taxi", "hotel"]
    assert "a person left it so" in (end.not_undone or [])[1]["reason"]
    [error] = [event for event in events(kit, handle) if isinstance(event, ErrorPayload) and event.call_id is None]
    assert "there is no room" in error.message


@pytest.mark.parametrize("decision", ["run_again", "fail"])
def test_a_stop_while_it_is_undone_changes_neither_the_calls_nor_the_error(kit: AgentKit, decision: str) -> None:
    BROKEN.add("hotel")
    kit.workflow(tools=[book, cancel], **TRIP)
    handle = kit.start()
    until(handle, "waiting")

    handle.cancel()
    BROKEN.clear()
    answer(handle, decision)
    end = handle.result(5)

    assert (end.status, end.reason, CALLS[-1]) == ("failed", "tool_failed", "cancel flight")


def test_a_compensation_that_a_policy_guards_waits_for_a_person(kit: AgentKit) -> None:
    kit.workflow(tools=[book, cancel], tool_overrides={"cancel": {"confirm": True}}, **TRIP)
    handle = kit.start()

    answer(handle, "approve", "hotel~compensate")
    answer(handle, "reject", "flight~compensate")
    end = handle.result(5)

    assert CALLS[3:] == ["cancel hotel"]
    assert [entry["node"] for entry in end.not_undone or []] == ["taxi", "flight"]


def test_a_run_whose_compensation_is_gone_waits_for_the_code_and_then_says_what_it_left(kit: AgentKit) -> None:
    kit.workflow(tools=[book, cancel], **chain(booking("flight"), node("w", "WAIT", signal="paid")))
    handle = kit.start()
    until(handle, "waiting")
    kit._tools.pop("cancel")

    handle.cancel()
    until(handle, "waiting")
    fire_timers(kit.runner.journal.database, handle.run_id)
    end = handle.result(5)

    assert (end.status, CALLS) == ("failed", ["book flight"])
    assert [entry["node"] for entry in end.not_undone or []] == ["flight"]


def test_an_unsafe_node_whose_owner_was_lost_is_not_made_again_by_itself(kit: AgentKit, losses: Losses) -> None:
    kit.workflow(tools=[book, cancel], **chain(booking("flight")))
    losses.begin(kit, frozenset({0}))

    handle = kit.start()
    until(handle, "waiting")
    before = list(CALLS)
    answer(handle, "run_again")

    assert (before, handle.result(5).status, CALLS) == ([], "succeeded", ["book flight"])


@pytest.mark.parametrize(("decision", "left"), [("run_again", ["taxi"]), ("fail", ["taxi", "hotel"])])
def test_a_compensation_that_fails_asks_and_the_end_names_what_stays(
    kit: AgentKit, decision: str, left: list[str]
) -> None:
    BROKEN.add("hotel")
    kit.workflow(tools=[book, cancel], **TRIP)

    handle = kit.start()
    until(handle, "waiting")
    BROKEN.clear()
    answer(handle, decision)
    end = handle.result(5)

    assert end.reason == "tool_failed"
    assert CALLS[-1] == "cancel flight"
    assert [entry["node"] for entry in end.not_undone or []] == left


@pytest.mark.parametrize("verdict", ["block", "halt"])
def test_a_compensation_that_the_policy_refuses_is_not_made(verdict: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"rules: [{{name: never, verdict: {verdict}, reason: No., when: {{tools: [cancel]}}}}]")
    with AgentKit(settings={"policy": str(policy)}) as kit:
        kit.workflow(tools=[book, cancel], **chain(booking("flight"), booking("room")))

        end = kit.start().result(5)

    assert (end.reason, CALLS) == ("tool_failed", ["book flight"])
    [left] = end.not_undone or []
    assert left["node"] == "flight"
    assert "the policy's rule 'never'" in left["reason"]


def test_a_stop_undoes_what_was_done_and_the_run_is_cancelled(kit: AgentKit) -> None:
    kit.workflow(tools=[book, cancel], **chain(booking("flight"), node("w", "WAIT", signal="paid")))

    handle = kit.start()
    until(handle, "waiting")
    handle.cancel()
    end = handle.result(5)

    assert (end.status, CALLS) == ("cancelled", ["book flight", "cancel flight"])
    assert not end.not_undone
    assert results(kit, handle)["w"][0] == "cancelled"


def test_an_end_without_an_owner_names_what_was_not_undone(kit: AgentKit) -> None:
    kit.workflow(tools=[book, cancel], **chain(booking("flight"), node("w", "WAIT", signal="paid")))
    handle, journal = kit.start(), kit.runner.journal
    until(handle, "waiting")

    with journal.database.write() as connection:
        row = lock_run(connection, handle.run_id)
        assert row is not None
        written = end_run(connection, row, Ending.failed(RUN_CRASHED(crashes=3, during="")))
    journal.live.publish(written)

    end = handle.result(5)
    assert (end.status, CALLS) == ("failed", ["book flight"])
    assert end.not_undone == [{"node": "flight", "tool": "cancel", "reason": NOT_MADE}]


def test_a_run_that_succeeds_undoes_nothing(kit: AgentKit) -> None:
    kit.workflow(tools=[book, cancel], **chain(booking("flight")))

    end = kit.start().result(5)

    assert (end.status, end.not_undone, CALLS) == ("succeeded", None, ["book flight"])
