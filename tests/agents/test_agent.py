"""The loop: what is asked, what is streamed, what is written down."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import update

from agents.handle import RunHandle
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.testing import AgentKit, Call, Turn
from agents.tools import tool
from bus.errors import LOOP_BLOCKED
from bus.journal.clients import CONTROLS
from bus.journal.errors import CURSOR_AHEAD, CURSOR_INVALID
from bus.journal.readers import steps_of
from bus.journal.run_end import NOT_KNOWN
from bus.payloads import (
    ControlPayload,
    EndPayload,
    ErrorPayload,
    MessagePayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    StatusPayload,
    ToolPayload,
    ToolResultPayload,
    WithdrawnPayload,
)
from config.database.errors import DatabaseBusy
from config.database.tables import runs
from config.errors import BadRequest, ErrorKind
from config.identity.principal import Principal
from tests.agents import sample_tools
from tests.raising import raises

BUSY = Turn(error=ModelFailed("the model is busy.", retry_after_s=0.01))


def of(kind: type[Any], events: list[Payload]) -> list[Any]:
    return [event for event in events if type(event) is kind]


def end_of(events: list[Payload]) -> EndPayload:
    assert isinstance(events[-1], EndPayload)
    return events[-1]


def text_of(events: list[Payload]) -> str:
    """Piece the answer together as a viewer does: what was withdrawn is dropped."""
    gone = {n for w in of(WithdrawnPayload, events) for first, last in w.ranges for n in range(first, last + 1)}
    return "".join(event.content for event in of(ResponsePayload, events) if event.seq not in gone)


def tools(kit: AgentKit, *names: str, **fields: Any) -> None:
    kit.agent(tools=[getattr(sample_tools, name) for name in names], **fields)


def events_of(run: RunHandle) -> list[Payload]:
    return list(run.events())


def stored(kit: AgentKit, thread_id: str) -> list[dict[str, Any]]:
    return kit.runner.journal.readers.threads.messages(Principal(), thread_id)


def test_streams_pieces_and_then_the_whole_message(kit: AgentKit) -> None:
    kit.model.script(*[Turn(reasoning="Hmm, well.", text="The answer is 42.")])

    events = events_of(kit.run())

    assert [type(e) for e in events[:2]] == [StatusPayload, StatusPayload]
    assert "".join(e.content for e in of(ReasoningPayload, events)) == "Hmm, well."
    assert text_of(events) == "The answer is 42."
    [message] = of(MessagePayload, events)
    assert (message.role, message.content, message.reasoning) == ("assistant", "The answer is 42.", "Hmm, well.")
    assert (end_of(events).status, end_of(events).output) == ("succeeded", "The answer is 42.")
    assert end_of(events).usage is not None
    assert [e.seq for e in events] == list(range(1, len(events) + 1))


def test_one_chunk_is_one_event_is_one_number(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text=["one", "two", "three", "four"])])

    events = events_of(kit.run())

    assert [e.content for e in of(ResponsePayload, events)] == ["one", "two", "three", "four"]


def test_calls_a_tool_and_gives_its_result_to_the_model(kit: AgentKit) -> None:
    tools(kit, "add")
    kit.model.script(*[Turn(calls=[Call(name="add", arguments={"a": 17, "b": 23})]), Turn(text="It is 40.")])

    events = events_of(kit.run("What is 17 + 23?"))

    [called] = of(ToolPayload, events)
    assert (called.name, called.arguments, called.effect) == ("add", {"a": 17, "b": 23}, "pure")
    [result] = of(ToolResultPayload, events)
    assert (result.outcome, result.result, result.call_id) == ("done", 40, called.call_id)
    message = kit.model.requests[-1].messages[-1]
    assert (message["role"], message["content"], message["tool_call_id"]) == ("tool", "40", called.call_id)
    assert end_of(events).status == "succeeded"


def test_shows_the_model_name_description_and_schema_of_each_tool(kit: AgentKit) -> None:
    tools(kit, "add")
    kit.model.script(*[Turn(text="ok then")])

    kit.run().result(10)

    [offered] = kit.model.requests[-1].tools or ()
    assert offered["function"]["name"] == "add"
    assert offered["function"]["description"].startswith("Add two numbers.")
    assert offered["function"]["parameters"]["properties"]["a"]["description"] == "the first."


def test_several_calls_run_at_once(kit: AgentKit) -> None:
    tools(kit, "meet")
    calls = [Call(name="meet", arguments={"name": "Ann"}), Call(name="meet", arguments={"name": "Ben"})]
    kit.model.script(*[Turn(calls=calls), Turn(text="They met.")])

    events = events_of(kit.run())

    assert {e.result for e in of(ToolResultPayload, events)} == {"Ann met another", "Ben met another"}


@pytest.mark.parametrize(
    ("call", "tool", "outcome", "message"),
    [
        (Call(name="explode"), "explode", "failed", "ValueError: the fuse was lit"),
        (Call(name="add", arguments={"a": "x", "b": 1}), "add", "failed", "do not fit"),
        (Call(name="add", arguments='{"a": 1, '), "add", "failed", "not JSON"),
        (Call(name="addd", arguments={}), "add", "failed", "Did you mean 'add'?"),
        (Call(name="hang"), "hang", "failed", "did not answer within"),
        (Call(name="pay"), "pay", "unknown", "did not answer within"),
    ],
)
def test_a_tools_failure_goes_back_to_the_model(
    kit: AgentKit, call: Call, tool: str, outcome: str, message: str
) -> None:
    tools(kit, tool, on_unknown="tell_model")
    kit.model.script(*[Turn(calls=[call]), Turn(text="I see.")])

    events = events_of(kit.run())

    [result] = of(ToolResultPayload, events)
    assert result.outcome == outcome
    assert message in result.result
    assert message in kit.model.requests[-1].messages[-1]["content"]
    assert end_of(events).status == "succeeded"


def test_a_tool_knows_the_call_it_is_in(kit: AgentKit) -> None:
    tools(kit, "whoami")
    kit.model.script(*[Turn(calls=[Call(name="whoami", id="call_me")]), Turn(text="Nice.")])

    handle = kit.run()
    [result] = of(ToolResultPayload, events_of(handle))

    called = (result.result["run"], result.result["thread"], result.result["call"])
    assert called == (handle.run_id, handle.thread_id, "call_me")
    assert result.result["key"].startswith("key_")


def test_the_last_call_after_max_iterations_has_no_tools_and_the_end_says_why(kit: AgentKit) -> None:
    tools(kit, "add", max_iterations=2)
    again = Turn(calls=[Call(name="add", arguments={"a": 1, "b": 1})])
    kit.model.script(*[again, again, Turn(text="Two, I think.")])

    end = kit.run().result(10)

    assert (end.status, end.reason, end.output) == ("succeeded", "max_iterations", "Two, I think.")
    assert len(kit.model.requests) == 3
    assert kit.model.requests[-1].tool_choice == "none"


def test_a_model_that_continues_calling_tools_still_gets_an_end(kit: AgentKit) -> None:
    tools(kit, "add", max_iterations=1)
    again = Turn(calls=[Call(name="add", arguments={"a": 1, "b": 1})])
    kit.model.script(*[again, again])

    end = kit.run().result(10)

    assert (end.status, end.reason) == ("succeeded", "max_iterations")
    assert end.output


def test_tries_again_visibly_and_withdraws_what_was_streamed(kit: AgentKit) -> None:
    broken = replace(BUSY, text=["never ", "mind ", "this"], error_after=1)
    kit.model.script(broken, BUSY, Turn(text="This counts."))

    events = events_of(kit.run())

    errors = of(ErrorPayload, events)
    assert [(e.attempt, e.retryable) for e in errors] == [(1, True), (2, True)]
    assert of(WithdrawnPayload, events)
    assert text_of(events) == "This counts."
    assert end_of(events).status == "succeeded"


def test_gives_up_after_three_attempts_and_the_thread_stays_usable(kit: AgentKit) -> None:
    kit.model.script(*[BUSY] * 3 + [Turn(text="Better now.")])

    failed = kit.run("first")
    events = events_of(failed)
    end = kit.run("second", thread_id=failed.thread_id).result(10)

    assert (end_of(events).status, end_of(events).reason) == ("failed", "model_failed")
    assert of(ErrorPayload, events)[-1].retryable is False
    assert len(kit.model.requests) == 4
    assert end.status == "succeeded"
    assert [m["role"] for m in stored(kit, failed.thread_id)] == ["user", "error", "user", "assistant"]
    assert [m["role"] for m in kit.model.requests[-1].messages] == ["system", "user", "user"]


def test_what_will_never_work_is_not_tried_again(kit: AgentKit) -> None:
    kit.model.script(*[Turn(error=MODEL_REFUSED("no."))])

    end = kit.run().result(10)

    assert (end.status, end.reason) == ("failed", "model_refused")
    assert len(kit.model.requests) == 1


def test_the_next_run_of_a_thread_sees_what_was_said(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text="Hello Ann."), Turn(text="You are Ann.")])

    first = kit.run("I am Ann.")
    first.result(10)
    kit.run("Who am I?", thread_id=first.thread_id).result(10)

    assert [(m["role"], m["content"]) for m in kit.model.requests[-1].messages] == [
        ("system", "You are a test."),
        ("user", "I am Ann."),
        ("assistant", "Hello Ann."),
        ("user", "Who am I?"),
    ]


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_structured_output_is_data(kit: AgentKit) -> None:
    kit.agent(output_schema=SCHEMA)
    kit.model.script(*[Turn(text='{"city": "Lima"}')])

    end = kit.run().result(10)

    assert (end.status, end.output) == ("succeeded", {"city": "Lima"})
    assert kit.model.requests[-1].response_format["type"] == "json_schema"


def test_structured_output_is_repaired_once(kit: AgentKit) -> None:
    kit.agent(output_schema=SCHEMA)
    kit.model.script(*[Turn(text='{"town": "Lima"}'), Turn(text='{"city": "Lima"}')])

    handle = kit.run()
    events = events_of(handle)

    assert end_of(events).output == {"city": "Lima"}
    assert text_of(events) == '{"city": "Lima"}'
    assert "city" in kit.model.requests[-1].messages[-1]["content"]
    assert [m["role"] for m in stored(kit, handle.thread_id)] == ["user", "assistant"]


def test_structured_output_that_cannot_be_repaired_fails_and_is_kept(kit: AgentKit) -> None:
    kit.agent(output_schema=SCHEMA)
    kit.model.script(*[Turn(text="no idea"), Turn(text="still none")])

    handle = kit.run()
    end = handle.result(10)

    assert (end.status, end.reason) == ("failed", "output_invalid")
    assert [m.get("content") for m in stored(kit, handle.thread_id)][1] == "still none"


def test_stop_while_streaming_keeps_the_partial_text_and_closes_the_socket(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text=["one ", "two ", "three"], stall_after=2)])

    handle = kit.run()
    events: list[Payload] = []
    for event in handle.events():
        events.append(event)
        if isinstance(event, ResponsePayload) and event.content == "two ":
            handle.cancel()
            handle.cancel()

    assert end_of(events).status == "cancelled"
    [message] = of(MessagePayload, events)
    assert (message.content, message.partial) == ("one two ", True)
    usage = end_of(events).usage
    assert usage is not None
    assert usage["output_tokens"] >= 2
    assert kit.model.closed_early.wait(10)
    assert [m["role"] for m in stored(kit, handle.thread_id)] == ["user", "assistant", "error"]


@pytest.mark.parametrize("slow", ["wait_long", "wait_in_thread"])
def test_stop_inside_a_tool_leaves_a_valid_history(kit: AgentKit, slow: str) -> None:
    tools(kit, slow)
    kit.model.script(*[Turn(calls=[Call(name=slow)]), Turn(text="Fine.")])

    handle = kit.run()
    for event in handle.events():
        if isinstance(event, ToolPayload) and event.arguments is not None:
            handle.cancel()
    end = kit.run("continue", thread_id=handle.thread_id).result(10)

    assert handle.status() == "cancelled"
    assert end.status == "succeeded"
    sent = kit.model.requests[-1].messages
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "user"]


def test_events_of_parallel_messages_never_share_a_number(kit: AgentKit) -> None:
    tools(kit, "add")
    calls = [Call(name="add", arguments={"a": i, "b": i}) for i in range(20)]
    kit.model.script(*[Turn(calls=calls), Turn(text="Many.")])

    events = events_of(kit.run())

    assert all(b.seq == a.seq + 1 for a, b in pairwise(events))
    assert len(of(ToolResultPayload, events)) == 20


def test_steps_are_journaled_with_effect_digest_and_key(kit: AgentKit) -> None:
    tools(kit, "add")
    kit.model.script(*[Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text="Three.")])

    handle = kit.run()
    handle.result(10)

    with kit.runner.journal.database.read() as connection:
        steps = steps_of(connection, handle.run_id)
    assert [(s["kind"], s["status"]) for s in steps] == [("model", "done"), ("tool", "done"), ("model", "done")]
    assert steps[1]["effect"] == "pure"
    assert all(len(s["arguments_digest"]) == 64 and s["idempotency_key"] for s in steps)


@pytest.mark.parity
def test_many_runs_at_once_stay_apart(kit: AgentKit) -> None:
    kit.model.respond = lambda call: Turn(text=f"You said {call.messages[-1]['content']}.")

    handles = [kit.run(f"number {i}") for i in range(20)]

    assert [h.result(20).output for h in handles] == [f"You said number {i}." for i in range(20)]


def test_result_on_the_loops_own_thread_is_refused(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text="quick one")])
    handle = kit.run()
    caught: list[str] = []
    done = threading.Event()

    def on_loop() -> None:
        try:
            handle.result()
        except Exception as error:
            caught.append(getattr(error, "code", repr(error)))
        done.set()

    kit.runner.journal.loop.call_soon(on_loop)

    assert done.wait(5)
    assert caught == [LOOP_BLOCKED.code]


def test_a_second_run_of_a_busy_thread_waits_for_its_turn(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text=["one ", "two"], stall_after=1), Turn(text="Second.")])

    first = kit.run("first")
    second = kit.run("second", thread_id=first.thread_id)
    for event in first.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            assert second.status() == "queued"
            kit.model.resume()

    assert second.result(10).output == "Second."


def test_a_run_waiting_for_its_turn_can_be_stopped(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text=["one ", "two"], stall_after=1)])

    first = kit.run("first")
    second = kit.run("second", thread_id=first.thread_id)
    for event in first.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            second.cancel()
            kit.model.resume()

    assert second.result(10).status == "cancelled"
    assert first.result(10).status == "succeeded"


def test_a_stop_says_the_same_whether_an_owner_lived_or_not(kit: AgentKit) -> None:
    kit.model.script(*[Turn(text=["one ", "two"], stall_after=1)])

    owned = kit.run("first")
    unowned = kit.run("second", thread_id=owned.thread_id)
    for event in owned.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            unowned.cancel()
            owned.cancel()

    assert [handle.result(10).reason for handle in (owned, unowned)] == ["stopped", "stopped"]
    messages = kit.runner.journal.readers.threads.messages(Principal(), owned.thread_id)
    assert [message["content"] for message in messages if message["role"] == "error"] == ["Stopped by the user."] * 2


@pytest.mark.parametrize("if_busy", ["interrupt", "rollback"])
def test_a_stop_for_the_next_message_says_so(kit: AgentKit, if_busy: Any) -> None:
    kit.model.script(Turn(text=["one ", "two"], stall_after=1), Turn(text="Second."))

    first = kit.run("first")
    for event in first.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            kit.run("second", thread_id=first.thread_id, if_busy=if_busy).result(10)

    messages = kit.runner.journal.readers.threads.messages(Principal(), first.thread_id)
    notes = [message["content"] for message in messages if message["role"] == "error"]
    assert notes == ["Stopped for the next message."]


def test_a_run_is_left_at_the_end_of_its_step_where_a_client_requested_it(kit: AgentKit) -> None:
    begun, may_return = threading.Event(), threading.Event()
    kit.agent(tools=[slow_payment(begun, may_return)])
    kit.model.script(Turn(calls=[Call(name="pay")]), Turn(text="Paid."))
    handle = kit.run()
    assert begun.wait(10)

    response = handle.control(CONTROLS["pause"])

    assert response.status == "running"
    for event in handle.events():
        if isinstance(event, ControlPayload) and event.state == "accepted":
            may_return.set()
        if isinstance(event, StatusPayload) and event.status == "waiting":
            assert handle.status() == "waiting"
            handle.control(CONTROLS["resume"])
    assert handle.result(10).output == "Paid."
    assert begun.is_set()


def test_an_end_closes_its_calls_alike_with_an_owner_and_without(kit: AgentKit) -> None:
    ended: list[tuple[Any, ...]] = []

    for is_owned in (True, False):
        begun, may_return = threading.Event(), threading.Event()
        kit.agent(tools=[slow_payment(begun, may_return)])
        kit.model.script(Turn(calls=[Call(name="pay"), Call(name="pay")]))
        handle = kit.run()
        assert begun.wait(10)
        if not is_owned:
            lose_lease(kit, handle.run_id)
        handle.cancel()
        events = list(handle.events())
        may_return.set()
        results = [(payload.outcome, payload.result) for payload in of(ToolResultPayload, events)]
        notes = [
            (message["role"], message.get("content"), message.get("result"))
            for message in stored(kit, handle.thread_id)[2:]
        ]
        ended.append((results, notes, end_of(events).status, end_of(events).reason))

    assert ended[0] == ended[1]
    assert ended[0][0] == [("unknown", NOT_KNOWN), ("unknown", NOT_KNOWN)]


def slow_payment(begun: threading.Event, may_return: threading.Event) -> Callable[[], str]:
    @tool(effect="unsafe")
    def pay() -> str:
        """Pay, and take your time."""
        begun.set()
        may_return.wait(20)
        return "paid"

    return pay


def lose_lease(kit: AgentKit, run_id: str) -> None:
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(lease_until=0))


def test_a_claim_is_tried_again_while_the_database_is_locked(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = kit.runner.journal.owner.claim_and_begin
    refused: list[bool] = []

    def locked_once(*arguments: Any) -> Any:
        if not refused:
            refused.append(True)
            raise DatabaseBusy("the database is locked by another process; try again in a moment.")
        return claim(*arguments)

    monkeypatch.setattr(kit.runner.journal.owner, "claim_and_begin", locked_once)
    kit.model.script(*[Turn(text="At last.")])

    assert kit.run().result(10).output == "At last."


# --- from Python


@pytest.mark.parametrize(
    ("after", "error"), [(-1, CURSOR_INVALID), ("x", CURSOR_INVALID), (None, CURSOR_INVALID), (10_000, CURSOR_AHEAD)]
)
def test_a_cursor_that_is_none_of_the_runs_is_refused_at_once(kit: AgentKit, after: Any, error: ErrorKind) -> None:
    kit.agent()
    run = kit.run()
    run.result(30)

    with raises(error):
        run.events(after=after)


@pytest.mark.parametrize(("objective", "thread_id"), [(5, None), (None, None), ("Hello", "a/b")])
def test_what_no_door_takes_is_refused_here_too(kit: AgentKit, objective: Any, thread_id: str | None) -> None:
    kit.agent()

    with pytest.raises(BadRequest):
        kit.run(objective, thread_id=thread_id)


def test_a_calls_name_is_announced_before_its_arguments(kit: AgentKit) -> None:
    tools(kit, "add")
    kit.model.script(Turn(calls=[Call(name="add", arguments={"a": 17, "b": 23})]), Turn(text="It is 40."))

    announced, whole = (event for event in events_of(kit.run()) if isinstance(event, ToolPayload))

    assert (announced.call_id, announced.name, announced.arguments) == (whole.call_id, "add", None)
    assert whole.arguments == {"a": 17, "b": 23}
