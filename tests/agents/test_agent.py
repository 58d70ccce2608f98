"""The loop, over real HTTP through real LiteLLM: what is asked, what is streamed, what is written down."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest

from bus.journal.steps import steps_of
from bus.journal.threads import list_messages
from bus.journal.who import Who
from bus.payloads import (
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
from config.errors import BadRequest, CursorAhead, CursorInvalid, DatabaseBusy
from tests.house import House
from tests.model_server import Call, Turn

TOOLS = "tools: [{}]"


def of(kind: type[Any], events: list[Payload]) -> list[Any]:
    return [event for event in events if type(event) is kind]


def end_of(events: list[Payload]) -> EndPayload:
    assert isinstance(events[-1], EndPayload)
    return events[-1]


def text_of(events: list[Payload]) -> str:
    """Piece the answer together as a viewer does: what was withdrawn is dropped."""
    gone = {n for w in of(WithdrawnPayload, events) for first, last in w.ranges for n in range(first, last + 1)}
    return "".join(event.content for event in of(ResponsePayload, events) if event.seq not in gone)


def tools(house: House, *names: str, more: str = "") -> None:
    paths = ", ".join(f"tests.agents.sample_tools:{name}" for name in names)
    house.agent(f"tools: [{paths}]\n{more}")


def stored(house: House, thread_id: str) -> list[dict[str, Any]]:
    with house.runner.journal.read() as connection:
        return list_messages(connection, Who(), thread_id)


def test_streams_pieces_and_then_the_whole_message(house: House) -> None:
    house.model.script([Turn(reasoning="Hmm, well.", text="The answer is 42.")])

    events = house.events(house.run())

    assert [type(e) for e in events[:2]] == [StatusPayload, StatusPayload]
    assert "".join(e.content for e in of(ReasoningPayload, events)) == "Hmm, well."
    assert text_of(events) == "The answer is 42."
    [message] = of(MessagePayload, events)
    assert (message.role, message.content, message.reasoning) == ("assistant", "The answer is 42.", "Hmm, well.")
    assert (end_of(events).status, end_of(events).output) == ("succeeded", "The answer is 42.")
    assert end_of(events).usage is not None
    assert [e.seq for e in events] == list(range(1, len(events) + 1))


def test_one_chunk_is_one_event_is_one_number(house: House) -> None:
    house.model.script([Turn(text=["a", "b", "c", "d"])])

    events = house.events(house.run())

    assert [e.content for e in of(ResponsePayload, events)] == ["a", "b", "c", "d"]


def test_calls_a_tool_and_gives_its_result_to_the_model(house: House) -> None:
    tools(house, "add")
    house.model.script([Turn(calls=[Call(name="add", arguments={"a": 17, "b": 23}, piece=1)]), Turn(text="It is 40.")])

    events = house.events(house.run("What is 17 + 23?"))

    [called] = of(ToolPayload, events)
    assert (called.name, called.arguments, called.effect) == ("add", {"a": 17, "b": 23}, "pure")
    [result] = of(ToolResultPayload, events)
    assert (result.outcome, result.result, result.call_id) == ("done", 40, called.call_id)
    told = house.model.requests[-1].body["messages"][-1]
    assert (told["role"], told["content"], told["tool_call_id"]) == ("tool", "40", called.call_id)
    assert end_of(events).status == "succeeded"


def test_shows_the_model_name_description_and_schema_of_each_tool(house: House) -> None:
    tools(house, "add")
    house.model.script([Turn(text="ok then")])

    house.run().result(10)

    [offered] = house.model.requests[-1].body["tools"]
    assert offered["function"]["name"] == "add"
    assert offered["function"]["description"].startswith("Add two numbers.")
    assert offered["function"]["parameters"]["properties"]["a"]["description"] == "the first."


def test_several_calls_run_at_once(house: House) -> None:
    tools(house, "meet")
    calls = [Call(name="meet", arguments={"name": "Ann"}), Call(name="meet", arguments={"name": "Ben"})]
    house.model.script([Turn(calls=calls, interleave=True), Turn(text="They met.")])

    events = house.events(house.run())

    assert {e.result for e in of(ToolResultPayload, events)} == {"Ann met somebody", "Ben met somebody"}


@pytest.mark.parametrize(
    ("call", "tool", "outcome", "said"),
    [
        (Call(name="explode"), "explode", "failed", "ValueError: the fuse was lit"),
        (Call(name="add", arguments={"a": "x", "b": 1}), "add", "failed", "do not fit"),
        (Call(name="add", arguments='{"a": 1, '), "add", "failed", "not JSON"),
        (Call(name="addd", arguments={}), "add", "failed", "Did you mean 'add'?"),
        (Call(name="hang"), "hang", "failed", "did not answer within"),
        (Call(name="pay"), "pay", "unknown", "did not answer within"),
        (Call(name="launch"), "launch", "refused", "needs a person's approval"),
    ],
)
def test_a_tools_failure_goes_back_to_the_model(house: House, call: Call, tool: str, outcome: str, said: str) -> None:
    tools(house, tool, more="on_unknown: tell_model\n")
    house.model.script([Turn(calls=[call]), Turn(text="I see.")])

    events = house.events(house.run())

    [result] = of(ToolResultPayload, events)
    assert result.outcome == outcome
    assert said in result.result
    assert said in house.model.requests[-1].body["messages"][-1]["content"]
    assert end_of(events).status == "succeeded"


def test_a_tool_knows_the_call_it_is_in(house: House) -> None:
    tools(house, "whoami")
    house.model.script([Turn(calls=[Call(name="whoami", id="call_me")]), Turn(text="Nice.")])

    handle = house.run()
    [result] = of(ToolResultPayload, house.events(handle))

    assert (result.result["run"], result.result["thread"], result.result["call"]) == (
        handle.run_id, handle.thread_id, "call_me",
    )  # fmt: skip
    assert result.result["key"].startswith("key_")


def test_the_last_call_after_max_iterations_has_no_tools_and_the_end_says_why(house: House) -> None:
    tools(house, "add", more="max_iterations: 2")
    again = Turn(calls=[Call(name="add", arguments={"a": 1, "b": 1})])
    house.model.script([again, again, Turn(text="Two, I think.")])

    end = house.run().result(10)

    assert (end.status, end.reason, end.output) == ("succeeded", "max_iterations", "Two, I think.")
    assert len(house.model.requests) == 3
    assert house.model.requests[-1].body["tool_choice"] == "none"


def test_a_model_that_goes_on_calling_tools_still_gets_an_end(house: House) -> None:
    tools(house, "add", more="max_iterations: 1")
    again = Turn(calls=[Call(name="add", arguments={"a": 1, "b": 1})])
    house.model.script([again, again])

    end = house.run().result(10)

    assert (end.status, end.reason) == ("succeeded", "max_iterations")
    assert end.output


def test_tries_again_visibly_and_withdraws_what_was_streamed(house: House) -> None:
    house.model.script([
        Turn(text=["never ", "mind ", "this"], disconnect_after=2),
        Turn(status=500),
        Turn(text="This counts."),
    ])  # fmt: skip

    events = house.events(house.run())

    errors = of(ErrorPayload, events)
    assert [(e.attempt, e.retryable) for e in errors] == [(1, True), (2, True)]
    assert of(WithdrawnPayload, events)
    assert text_of(events) == "This counts."
    assert end_of(events).status == "succeeded"


def test_gives_up_after_three_attempts_and_the_thread_stays_usable(house: House) -> None:
    house.model.script([Turn(status=500)] * 3 + [Turn(text="Better now.")])

    failed = house.run("first")
    events = house.events(failed)
    end = house.run("second", thread_id=failed.thread_id).result(10)

    assert (end_of(events).status, end_of(events).reason) == ("failed", "model_failed")
    assert of(ErrorPayload, events)[-1].retryable is False
    assert len(house.model.requests) == 4
    assert end.status == "succeeded"
    assert [m["role"] for m in stored(house, failed.thread_id)] == ["user", "error", "user", "assistant"]
    assert [m["role"] for m in house.model.requests[-1].body["messages"]] == ["system", "user", "user"]


def test_what_will_never_work_is_not_tried_again(house: House) -> None:
    house.model.script([Turn(status=400)])

    end = house.run().result(10)

    assert (end.status, end.reason) == ("failed", "model_refused")
    assert len(house.model.requests) == 1


def test_the_next_run_of_a_thread_sees_what_was_said(house: House) -> None:
    house.model.script([Turn(text="Hello Ann."), Turn(text="You are Ann.")])

    first = house.run("I am Ann.")
    first.result(10)
    house.run("Who am I?", thread_id=first.thread_id).result(10)

    assert [(m["role"], m["content"]) for m in house.model.requests[-1].body["messages"]] == [
        ("system", "You are a test."), ("user", "I am Ann."), ("assistant", "Hello Ann."), ("user", "Who am I?"),
    ]  # fmt: skip


SCHEMA = """
output_schema:
  type: object
  properties: {city: {type: string}}
  required: [city]
"""


def test_structured_output_is_data(house: House) -> None:
    house.agent(SCHEMA)
    house.model.script([Turn(text='{"city": "Lima"}')])

    end = house.run().result(10)

    assert (end.status, end.output) == ("succeeded", {"city": "Lima"})
    assert house.model.requests[-1].body["response_format"]["type"] == "json_schema"


def test_structured_output_is_repaired_once(house: House) -> None:
    house.agent(SCHEMA)
    house.model.script([Turn(text='{"town": "Lima"}'), Turn(text='{"city": "Lima"}')])

    handle = house.run()
    events = house.events(handle)

    assert end_of(events).output == {"city": "Lima"}
    assert text_of(events) == '{"city": "Lima"}'
    assert "city" in house.model.requests[-1].body["messages"][-1]["content"]
    assert [m["role"] for m in stored(house, handle.thread_id)] == ["user", "assistant"]


def test_structured_output_that_cannot_be_repaired_fails_and_is_kept(house: House) -> None:
    house.agent(SCHEMA)
    house.model.script([Turn(text="no idea"), Turn(text="still none")])

    handle = house.run()
    end = handle.result(10)

    assert (end.status, end.reason) == ("failed", "output_invalid")
    assert [m.get("content") for m in stored(house, handle.thread_id)][1] == "still none"


def test_stop_while_streaming_keeps_the_partial_text_and_closes_the_socket(house: House) -> None:
    house.model.script([Turn(text=["one ", "two ", "three"], stall_after=3)])

    handle = house.run()
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
    assert house.model.closed_early.wait(1)
    assert [m["role"] for m in stored(house, handle.thread_id)] == ["user", "assistant", "error"]


@pytest.mark.parametrize("slow", ["wait_long", "wait_in_thread"])
def test_stop_inside_a_tool_leaves_a_valid_history(house: House, slow: str) -> None:
    tools(house, slow)
    house.model.script([Turn(calls=[Call(name=slow)]), Turn(text="Fine.")])

    handle = house.run()
    for event in handle.events():
        if isinstance(event, ToolPayload) and event.arguments is not None:
            handle.cancel()
    end = house.run("go on", thread_id=handle.thread_id).result(10)

    assert handle.status() == "cancelled"
    assert end.status == "succeeded"
    sent = house.model.requests[-1].body["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "user"]


def test_events_of_parallel_messages_never_share_a_number(house: House) -> None:
    tools(house, "add")
    calls = [Call(name="add", arguments={"a": i, "b": i}) for i in range(20)]
    house.model.script([Turn(calls=calls), Turn(text="Many.")])

    events = house.events(house.run())

    assert all(b.seq == a.seq + 1 for a, b in pairwise(events))
    assert len(of(ToolResultPayload, events)) == 20


def test_steps_are_journaled_with_effect_digest_and_key(house: House) -> None:
    tools(house, "add")
    house.model.script([Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text="Three.")])

    handle = house.run()
    handle.result(10)

    with house.runner.journal.read() as connection:
        steps = steps_of(connection, handle.run_id)
    assert [(s["kind"], s["status"]) for s in steps] == [("model", "done"), ("tool", "done"), ("model", "done")]
    assert steps[1]["effect"] == "pure"
    assert all(len(s["arguments_digest"]) == 64 and s["idempotency_key"] for s in steps)


def test_many_runs_at_once_stay_apart(house: House) -> None:
    house.model.respond = lambda body: Turn(text=f"You said {body['messages'][-1]['content']}.")

    handles = [house.run(f"number {i}") for i in range(20)]

    assert [h.result(20).output for h in handles] == [f"You said number {i}." for i in range(20)]


def test_result_on_the_loops_own_thread_is_refused(house: House) -> None:
    house.model.script([Turn(text="quick one")])
    handle = house.run()
    caught: list[str] = []
    done = threading.Event()

    def on_loop() -> None:
        try:
            handle.result()
        except Exception as wrong:
            caught.append(type(wrong).__name__)
        done.set()

    house.runner.journal.loop.call_soon(on_loop)

    assert done.wait(5)
    assert caught == ["LoopBlocked"]


def test_a_second_run_of_a_busy_thread_waits_for_its_turn(house: House) -> None:
    house.model.script([Turn(text=["one ", "two"], stall_after=2), Turn(text="Second.")])

    first = house.run("first")
    second = house.run("second", thread_id=first.thread_id)
    for event in first.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            assert second.status() == "queued"
            house.model.resume()

    assert second.result(10).output == "Second."


def test_a_run_waiting_for_its_turn_can_be_stopped(house: House) -> None:
    house.model.script([Turn(text=["one ", "two"], stall_after=2)])

    first = house.run("first")
    second = house.run("second", thread_id=first.thread_id)
    for event in first.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            second.cancel()
            house.model.resume()

    assert second.result(10).status == "cancelled"
    assert first.result(10).status == "succeeded"


def test_a_claim_is_tried_again_while_the_database_is_locked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = house.runner.journal.claim_and_begin
    refused: list[bool] = []

    def locked_once(*arguments: Any) -> Any:
        if not refused:
            refused.append(True)
            raise DatabaseBusy("the database is locked by another process; try again in a moment.")
        return claim(*arguments)

    monkeypatch.setattr(house.runner.journal, "claim_and_begin", locked_once)
    house.model.script([Turn(text="At last.")])

    assert house.run().result(10).output == "At last."


# --- from Python


@pytest.mark.parametrize(
    ("after", "wrong"), [(-1, CursorInvalid), ("x", CursorInvalid), (None, CursorInvalid), (10_000, CursorAhead)]
)
def test_a_cursor_that_is_none_of_the_runs_is_refused_at_once(house: House, after: Any, wrong: type[Exception]) -> None:
    house.agent()
    run = house.run()
    run.result(30)

    with pytest.raises(wrong):
        run.events(after=after)


@pytest.mark.parametrize(("objective", "thread_id"), [(5, None), (None, None), ("Hello", "a/b")])
def test_what_no_door_takes_is_refused_here_too(house: House, objective: Any, thread_id: str | None) -> None:
    house.agent()

    with pytest.raises(BadRequest):
        house.run(objective, thread_id=thread_id)
