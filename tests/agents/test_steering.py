"""A steer reaches the model between two steps, buys a round, and is never acknowledged and lost."""

from __future__ import annotations

import threading

import pytest

from agents.errors import INPUT_EMPTY
from agents.governance.guardrails.errors import INPUT_BLOCKED
from agents.testing import AgentKit, Call, Turn
from bus.journal.clients import CONTROLS
from bus.journal.errors import CONTROL_REFUSED
from bus.payloads import ControlPayload, Payload, ResponsePayload, StatusPayload
from tests.agents.test_agent import slow_payment
from tests.raising import raises


def controls_of(events: list[Payload]) -> list[tuple[str, str]]:
    return [(event.verb, event.state) for event in events if isinstance(event, ControlPayload)]


def asked(kit: AgentKit, index: int) -> list[tuple[str, str]]:
    """Return the conversation of a call of the model: role and text, without the system's prompt."""
    return [(m["role"], m["content"]) for m in kit.model.requests[index].messages[1:]]


def test_a_text_that_comes_while_the_model_answers_buys_one_more_call(kit: AgentKit) -> None:
    kit.model.script(Turn(text=["one ", "two"], stall_after=1), Turn(text="Un, deux."))
    handle = kit.run("Count.")

    events: list[Payload] = []
    for event in handle.events():
        events.append(event)
        if isinstance(event, ResponsePayload) and event.content == "one ":
            kit.runner.steer(handle.run_id, "In French.")
        if isinstance(event, ControlPayload) and event.state == "accepted":
            kit.model.resume()

    assert handle.result(10).output == "Un, deux."
    assert controls_of(events) == [("steer", "accepted"), ("steer", "consumed")]
    consumed = next(event for event in events if isinstance(event, ControlPayload) and event.state == "consumed")
    assert consumed.consumed_at == consumed.seq
    assert asked(kit, 1) == [("user", "Count."), ("assistant", "one two"), ("user", "In French.")]


def test_a_text_that_comes_during_a_tool_follows_its_result(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()
    kit.agent(tools=[slow_payment(begun, may_return)], max_iterations=1)
    kit.model.script(Turn(calls=[Call(name="pay")]), Turn(calls=[Call(name="pay")]), Turn(text="Paid twice."))
    handle = kit.run("Pay.")
    assert begun.wait(10)

    kit.runner.steer(handle.run_id, "And once more.")
    for event in handle.events():
        if controls_of([event]) == [("steer", "accepted")]:
            may_return.set()

    assert handle.result(10).output == "Paid twice."  # the round that the text bought had the tool
    assert [role for role, _ in asked(kit, 1)] == ["user", "assistant", "tool", "user"]


def test_a_paused_run_continues_with_the_text_that_it_was_given_meanwhile(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()
    kit.agent(tools=[slow_payment(begun, may_return)])
    kit.model.script(Turn(calls=[Call(name="pay")]), Turn(text="Payé."))
    handle = kit.run("Pay.")
    assert begun.wait(10)
    handle.control(CONTROLS["pause"])

    events: list[Payload] = []
    for event in handle.events():
        events.append(event)
        if controls_of([event]) == [("pause", "accepted")]:
            may_return.set()
        if isinstance(event, StatusPayload) and (event.status, event.reason) == ("waiting", "paused"):
            kit.runner.steer(handle.run_id, "In French.")
            handle.control(CONTROLS["resume"])

    assert handle.result(10).output == "Payé."
    assert controls_of(events) == [
        ("pause", "accepted"),
        ("pause", "consumed"),
        ("steer", "accepted"),
        ("resume", "consumed"),
        ("steer", "consumed"),
    ]
    assert asked(kit, 1)[-1] == ("user", "In French.")


def test_a_pause_that_is_taken_back_in_time_leaves_the_run_where_it_is(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()
    kit.agent(tools=[slow_payment(begun, may_return)])
    kit.model.script(Turn(calls=[Call(name="pay")]), Turn(text="Paid."))
    handle = kit.run("Pay.")
    assert begun.wait(10)

    handle.control(CONTROLS["pause"])
    handle.control(CONTROLS["resume"])
    events: list[Payload] = []
    for event in handle.events():
        events.append(event)
        if controls_of([event]) == [("resume", "consumed")]:
            may_return.set()

    assert handle.result(10).output == "Paid."
    assert controls_of(events)[-2:] == [("pause", "refused"), ("resume", "consumed")]
    assert not [event for event in events if isinstance(event, StatusPayload) and event.status == "waiting"]


def test_a_text_passes_the_guardrails_of_the_runs_agent(kit: AgentKit) -> None:
    kit.agent(guardrails={"input": {"pii": "block"}})
    kit.model.script(Turn(text=["one ", "two"], stall_after=1))
    handle = kit.run("Count.")
    for event in handle.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            with raises(INPUT_BLOCKED):
                kit.runner.steer(handle.run_id, "My card is 4111 1111 1111 1111.")
            kit.model.resume()

    assert handle.result(10).output == "one two"


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_text_is_refused(kit: AgentKit, text: str) -> None:
    kit.model.script(Turn(text="Hello."))
    handle = kit.run("Hi")

    with raises(INPUT_EMPTY):
        kit.runner.steer(handle.run_id, text)


def test_rounds_that_are_set_count_from_then_on_and_for_the_next_owner(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()
    kit.agent(tools=[slow_payment(begun, may_return)], max_iterations=5)
    kit.model.script(Turn(calls=[Call(name="pay")]), Turn(text="Paid once."))
    handle = kit.run("Pay.")
    assert begun.wait(10)

    with raises(CONTROL_REFUSED, match="5 rounds at most"):
        handle.control(CONTROLS["set"], data={"max_iterations": 6})
    handle.control(CONTROLS["set"], data={"max_iterations": 1})
    events: list[Payload] = []
    for event in handle.events():
        events.append(event)
        if controls_of([event]) == [("set", "consumed")]:
            may_return.set()

    end = handle.result(10)
    assert (end.output, end.reason) == ("Paid once.", "max_iterations")  # the second call had no tools
    assert [e.content for e in events if isinstance(e, ControlPayload)] == ["max_iterations 1"]
    with raises(CONTROL_REFUSED, match="it has ended"):
        handle.control(CONTROLS["set"], data={"max_iterations": 2})
