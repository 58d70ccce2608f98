"""Tools that call HTTP, where the connection breaks after the request arrived: once, or asked about, never repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from bus.journal.approvals import Decision
from bus.journal.readers import steps_of
from bus.journal.run_end import GIVEN_UP
from bus.payloads import ToolPayload, ToolResultPayload
from tests.agents import http_tools
from tests.agents.tools.shop_server import Shop, answer, close

pytestmark = pytest.mark.parity


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with Shop(behaves=[close, answer]) as shop:
        monkeypatch.setattr(http_tools, "url", shop.url)
        yield shop


def begin(kit: AgentKit, tool: Callable[..., Any], **fields: Any) -> RunHandle:
    """Return a run that calls the tool."""
    kit.agent(tools=[tool], **fields)
    kit.model.script(Turn(calls=[Call(name=tool.__name__, arguments={"item": "tea"})]), Turn(text="Done."))
    return kit.run()


def results(handle: RunHandle) -> list[tuple[str, Any]]:
    return [(e.outcome, e.result) for e in handle.events() if isinstance(e, ToolResultPayload)]


def key_of(kit: AgentKit, run_id: str) -> str:
    with kit.runner.journal.database.read() as connection:
        (step,) = [step for step in steps_of(connection, run_id) if step["kind"] == "tool"]
    return str(step["idempotency_key"])


def asked(handle: RunHandle) -> str:
    """Return the id of the run's one question, once it waits."""
    next(event for event in handle.events() if event.event_type == "approval")
    (question,) = handle.approvals()
    return str(question["approval_id"])


def test_a_keyed_call_is_made_again_with_the_same_key(kit: AgentKit, shop: Shop) -> None:
    handle = begin(kit, http_tools.order)

    assert handle.result(30).status == "succeeded"
    assert results(handle) == [("done", "done")]
    assert [headers["idempotency-key"] for headers in shop.arrived] == [key_of(kit, handle.run_id)] * 2
    assert shop.effects == 1


def test_an_unsafe_call_is_not_repeated_and_a_person_is_asked(kit: AgentKit, shop: Shop) -> None:
    handle = begin(kit, http_tools.buy)
    question = asked(handle)
    assert len(shop.arrived) == 1

    handle.decide(question, Decision(decision="take_as_done", result="it came by post"))

    assert handle.result(30).status == "succeeded"
    assert results(handle) == [("done", "it came by post")]
    assert len(shop.arrived) == 1


def test_an_unsafe_call_is_made_again_when_a_person_says_so(kit: AgentKit, shop: Shop) -> None:
    handle = begin(kit, http_tools.buy)
    question = asked(handle)

    handle.decide(question, Decision(decision="run_again"))

    assert handle.result(30).status == "succeeded"
    assert results(handle) == [("done", "done")]
    assert len(shop.arrived) == 2
    assert shop.effects == 1, "with the key of the first time"
    events = [event for event in handle.events() if isinstance(event, ToolPayload | ToolResultPayload)]
    assert [event.attempt for event in events if not event.is_delta] == [1, 2]


def test_a_run_fails_when_a_person_says_so_and_its_call_has_the_reason(kit: AgentKit, shop: Shop) -> None:
    handle = begin(kit, http_tools.buy)
    question = asked(handle)

    handle.decide(question, Decision(decision="fail"))

    assert handle.result(30).status == "failed"
    assert results(handle) == [("unknown", GIVEN_UP)]
    assert len(shop.arrived) == 1


def test_a_run_fails_where_the_agent_asks_no_person(kit: AgentKit, shop: Shop) -> None:
    handle = begin(kit, http_tools.buy, on_unknown="fail")

    end = handle.result(30)
    assert (end.status, end.reason) == ("failed", "outcome_unknown")
    assert [outcome for outcome, _ in results(handle)] == ["unknown"]
    assert len(shop.arrived) == 1


def test_the_model_gets_the_unknown_outcome_where_it_shall_decide(kit: AgentKit, shop: Shop) -> None:
    handle = begin(kit, http_tools.buy, on_unknown="tell_model")

    assert handle.result(30).status == "succeeded"
    ((outcome, result),) = results(handle)
    assert outcome == "unknown"
    assert "RemoteDisconnected" in result
    assert len(shop.arrived) == 1
    message = kit.model.requests[-1].messages[-1]
    assert (message["role"], "RemoteDisconnected" in message["content"]) == ("tool", True)
