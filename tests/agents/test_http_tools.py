"""Tools that call HTTP, where the connection breaks after the request arrived: once, or asked about, never repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bus.journal import Decision, Who, steps_of
from bus.journal.closing import GIVEN_UP
from bus.payloads import ToolResultPayload
from tests.agents import http_tools
from tests.agents.tools.shop_server import Shop, answer, close
from tests.app_harness import AppHarness
from tests.model_server import Call, Turn

DONE = Turn(text="Done.")


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with Shop(behaves=[close, answer]) as shop:
        monkeypatch.setattr(http_tools, "url", shop.url)
        yield shop


def agent(harness: AppHarness, name: str, more: str = "") -> None:
    harness.agent(f"tools: [tests.agents.http_tools:{name}]\n{more}")
    harness.model.script([Turn(calls=[Call(name=name, arguments={"item": "tea"})]), DONE])


def results(harness: AppHarness, handle: Any) -> list[tuple[str, Any]]:
    return [(e.outcome, e.result) for e in harness.events(handle) if isinstance(e, ToolResultPayload)]


def key_of(harness: AppHarness, run_id: str) -> str:
    with harness.runner.journal.database.read() as connection:
        (step,) = [step for step in steps_of(connection, run_id) if step["kind"] == "tool"]
    return str(step["idempotency_key"])


def asked(harness: AppHarness, run_id: str) -> list[dict[str, Any]]:
    """Return the run's questions, once it waits."""
    for line in harness.runner.journal.follow_blocking(run_id, harness.runner.handle(run_id).thread_id, 0):
        if line.type == "approval":
            break
    return harness.runner.handle(run_id).approvals()


def test_a_keyed_call_is_made_again_with_the_same_key(harness: AppHarness, shop: Shop) -> None:
    agent(harness, "order")
    handle = harness.run()

    assert handle.result(30).status == "succeeded"
    assert results(harness, handle) == [("done", "done")]
    assert [headers["idempotency-key"] for headers in shop.arrived] == [key_of(harness, handle.run_id)] * 2
    assert shop.effects == 1


def test_an_unsafe_call_is_not_repeated_and_a_person_is_asked(harness: AppHarness, shop: Shop) -> None:
    agent(harness, "buy")
    handle = harness.run()
    (question,) = asked(harness, handle.run_id)
    assert len(shop.arrived) == 1

    answer = Decision(decision="take_as_done", result="it came by post")
    harness.runner.journal.decide(Who(), handle.run_id, question["approval_id"], answer, by="ann")

    assert handle.result(30).status == "succeeded"
    assert results(harness, handle) == [("done", "it came by post")]
    assert len(shop.arrived) == 1


def test_an_unsafe_call_is_made_again_when_a_person_says_so(harness: AppHarness, shop: Shop) -> None:
    agent(harness, "buy")
    handle = harness.run()
    (question,) = asked(harness, handle.run_id)

    harness.runner.journal.decide(
        Who(), handle.run_id, question["approval_id"], Decision(decision="run_again"), by="ann"
    )

    assert handle.result(30).status == "succeeded"
    assert results(harness, handle) == [("done", "done")]
    assert len(shop.arrived) == 2
    assert shop.effects == 1, "with the key of the first time"


def test_a_run_fails_when_a_person_says_so_and_its_call_has_the_reason(harness: AppHarness, shop: Shop) -> None:
    agent(harness, "buy")
    handle = harness.run()
    (question,) = asked(harness, handle.run_id)

    harness.runner.journal.decide(Who(), handle.run_id, question["approval_id"], Decision(decision="fail"), by="ann")

    assert handle.result(30).status == "failed"
    assert results(harness, handle) == [("unknown", GIVEN_UP)]
    assert len(shop.arrived) == 1


def test_a_run_fails_where_the_agent_asks_no_person(harness: AppHarness, shop: Shop) -> None:
    agent(harness, "buy", "on_unknown: fail")
    handle = harness.run()

    end = handle.result(30)
    assert (end.status, end.reason) == ("failed", "outcome_unknown")
    assert [outcome for outcome, _ in results(harness, handle)] == ["unknown"]
    assert len(shop.arrived) == 1


def test_the_model_gets_the_unknown_outcome_where_it_shall_decide(harness: AppHarness, shop: Shop) -> None:
    agent(harness, "buy", "on_unknown: tell_model")
    handle = harness.run()

    assert handle.result(30).status == "succeeded"
    ((outcome, result),) = results(harness, handle)
    assert outcome == "unknown"
    assert "RemoteDisconnected" in result
    assert len(shop.arrived) == 1
    message = harness.model.requests[-1].body["messages"][-1]
    assert (message["role"], "RemoteDisconnected" in message["content"]) == ("tool", True)
