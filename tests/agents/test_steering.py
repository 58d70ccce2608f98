"""A steer reaches the model between two steps, buys a round, and is never acknowledged and lost."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from agents.context import RunContext
from agents.errors import INPUT_EMPTY
from agents.governance.guardrails.errors import INPUT_BLOCKED
from agents.handle import RunHandle
from agents.mailbox.inbox import Inbox
from agents.testing import AgentKit, Call, Turn
from agents.tools import tool
from bus.journal.approvals import Decision
from bus.journal.clients import CONTROLS
from bus.journal.errors import CONTROL_REFUSED
from bus.journal.owner import DRAINED, Commit, ControlRequest
from bus.loop import process_loop
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import ApprovalPayload, ControlPayload, EndPayload, Payload, ResponsePayload, StatusPayload
from handlers.run_agent import run_agent
from tests.agents.test_agent import slow_payment
from tests.bus.journal_harness import JournalHarness, lose_owner
from tests.raising import raises
from tests.soak.tools import hang_up


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


def test_a_text_that_comes_while_the_end_is_committed_buys_one_more_call(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.model.script(Turn(text="One, two."), Turn(text="Un, deux."))
    save = RunContext.save

    async def steered_first(context: RunContext, change: Commit, *more: Any, **kept: Any) -> list[Payload]:
        if isinstance(change.events[-1], EndPayload) and len(kit.model.requests) == 1:
            await asyncio.to_thread(kit.runner.steer, context.lease.run_id, "In French.")
            while not context.inbox.unread:
                await asyncio.sleep(0.01)
        return await save(context, change, *more, **kept)

    monkeypatch.setattr(RunContext, "save", steered_first)
    handle = kit.run("Count.")

    assert handle.result(10).output == "Un, deux."
    assert controls_of(list(handle.events())) == [("steer", "accepted"), ("steer", "consumed")]


def test_a_text_for_a_run_that_waits_follows_the_call_that_it_waits_for(kit: AgentKit) -> None:
    kit.agent(tools=[hang_up])
    kit.model.script(Turn(calls=[Call(name="hang_up")]), Turn(text="Payé."))
    handle = kit.run("Pay.")

    for event in handle.events():
        if isinstance(event, ApprovalPayload) and event.decision is None:
            kit.runner.steer(handle.run_id, "In French.")
            handle.decide(event.approval_id, Decision(decision="take_as_done", result="paid"))

    assert handle.result(10).output == "Payé."
    assert [role for role, _ in asked(kit, 1)] == ["user", "assistant", "tool", "user"]


def test_a_pause_that_a_lost_owner_has_read_is_done_at_the_end_of_the_open_step(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()

    @tool(effect="pure")
    def look() -> str:
        """Look, and take your time."""
        begun.set()
        may_return.wait(20)
        return "seen"

    kit.agent(tools=[look])
    kit.model.script(Turn(calls=[Call(name="look")]), Turn(text="Seen."))
    handle = kit.run("Look.", detached=True)
    first = threading.Thread(target=work_on, args=(kit, handle))
    first.start()
    assert begun.wait(10)

    handle.control(CONTROLS["pause"])
    next(event for event in handle.events() if controls_of([event]))
    lose_owner(kit.runner.journal.database, handle.run_id)
    may_return.set()
    first.join(10)
    work_on(kit, handle)

    assert handle.status() == "waiting"
    assert len(kit.model.requests) == 1


def test_texts_of_a_run_that_is_drained_while_it_is_stopped_are_not_delivered(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()
    kit.agent(tools=[slow_payment(begun, may_return)])
    kit.model.script(Turn(calls=[Call(name="pay")]))
    handle = kit.run("Pay.", detached=True)
    first = threading.Thread(target=work_on, args=(kit, handle))
    first.start()
    assert begun.wait(10)
    handle.control(CONTROLS["pause"])
    next(event for event in handle.events() if controls_of([event]) == [("pause", "accepted")])
    may_return.set()
    first.join()
    handle.control(CONTROLS["resume"])
    harness = JournalHarness(kit.runner.journal.database, process_loop())
    second = harness.own(handle.run_id)
    kit.runner.steer(handle.run_id, "In French.")
    handle.cancel()
    harness.do(second.writer.commit(Commit(release=DRAINED)))

    work_on(kit, handle)

    assert handle.result(10).status == "cancelled"
    controls = controls_of(list(handle.events()))
    assert controls[-2:] == [("steer", "undelivered"), ("stop", "consumed")]
    assert len(kit.model.requests) == 1


def work_on(kit: AgentKit, handle: RunHandle) -> None:
    """Execute the run as a worker does."""
    run_agent(
        RunAgentMessage.of_run(kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id)).to_wire()
    )


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
    handle.control(CONTROLS["set"], data={"priority": "low"})  # which leaves the limit
    events: list[Payload] = []
    for event in handle.events():
        events.append(event)
        if controls_of([event]) == [("set", "consumed")] and event.content == "priority low":  # type: ignore[attr-defined]
            may_return.set()

    end = handle.result(10)
    assert (end.output, end.reason) == ("Paid once.", "max_iterations")  # the second call had no tools
    assert [e.content for e in events if isinstance(e, ControlPayload)] == ["max_iterations 1", "priority low"]
    with raises(CONTROL_REFUSED, match="it has ended"):
        handle.control(CONTROLS["set"], data={"max_iterations": 2})


class Counted:
    """Guardrails that block one text, and note what they check."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def check_input(self, text: str) -> SimpleNamespace:
        self.checked.append(text)
        return SimpleNamespace(reasons=["pii"] if text == "blocked" else [])


@pytest.mark.parametrize(("text", "state"), [("fine", "consumed"), ("blocked", "refused")])
@pytest.mark.parametrize("begins_step", [True, False])
def test_a_text_that_another_definition_checked_is_checked_once(text: str, state: str, begins_step: bool) -> None:
    guardrails, saved = Counted(), list[Payload]()
    lease = SimpleNamespace(definition_digest="mine", run_id="run_1", fence=2, max_rounds=None)

    async def save(change: Commit) -> list[Payload]:
        saved.extend(change.events)
        return saved

    inbox = Inbox(None, lease, save, guardrails)  # type: ignore[arg-type]  # what it uses of them
    data = {"content": text, "checked_by": "that of the agent before"}
    inbox.begin([ControlRequest(id=1, run_id="run_1", kind="steer", by="ann", data=data, is_accepted=True)], None)
    assert guardrails.checked == []
    if begins_step:  # in the claim's transaction, whose commit gives the model the text
        saved += inbox.steered(at_claim=True).events

    async def receive() -> None:
        for request in inbox.unread_at_claim:
            inbox.receive(request)
        await inbox.settle()

    asyncio.run(receive())
    if not begins_step:
        saved += inbox.steered().events

    assert guardrails.checked == [text]
    assert [(event.state, event.reason) for event in saved if isinstance(event, ControlPayload)] == [
        (state, "input_blocked" if state == "refused" else None)
    ]


def test_a_text_that_was_read_before_its_answer_was_committed_is_not_taken_again() -> None:
    lease = SimpleNamespace(definition_digest="mine", run_id="run_1", fence=1, max_rounds=None)
    inbox = Inbox(None, lease, None, Counted())  # type: ignore[arg-type]  # what it uses of them
    request = ControlRequest(id=1, run_id="run_1", kind="steer", by="ann", data={"content": "hi"}, is_accepted=True)
    inbox.receive(request)

    inbox.committed(inbox.steered().events)
    inbox.receive(request)

    assert not inbox.has_steers
