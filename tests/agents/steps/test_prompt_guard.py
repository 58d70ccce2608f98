"""A prompt guard checks the input beside the first model call: nothing is shown and no tool called until it passes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import delete, select

import bus.journal.log.writer
from agents.governance.guardrails.prompt_guard import ValidationResult
from agents.models.scripted import ScriptedModel
from agents.models.streams.chunk import Usage
from agents.steps import open_calls
from agents.steps.model_step import HeldOutput
from agents.testing import AgentKit, Call, Played, Turn
from agents.tools import tool
from bus.journal.clients import Origin
from bus.journal.errors import StaleOwner
from bus.journal.log.writer import RunWriter
from bus.journal.readers import read_record, steps_of
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import (
    ControlPayload,
    ErrorPayload,
    HandoverPayload,
    MessagePayload,
    ResponsePayload,
    ToolNamePayload,
    ToolPayload,
)
from cli.crashlab.invariants import not_recovered
from config.database.tables import events, runs
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import load_definition
from handlers.run_agent import run_agent
from tests.app_harness import AppHarness
from tests.bus.journal_harness import lose_owner
from tests.model_turn import Turn as ServedTurn

HERE = "tests.agents.steps.test_prompt_guard"
GUARDED = {"prompt_guard": f"{HERE}:check"}
PASS = '{"validationResult": true, "validationFailedReason": ""}'
NO: dict[str, Any] = {"validationResult": False, "validationFailedReason": "Only flights, please."}


def judge(prompt: str, agent: Any, history: Any) -> Any:
    return True


seen: list[tuple[Any, ...]] = []
called: list[str] = []


def check(prompt: str, agent: Any, history: Any) -> Any:
    """Judge as the test wants."""
    seen.append((prompt, agent.name, list(history)))
    return judge(prompt, agent, history)


@tool(effect="pure")
def look() -> str:
    """Look for a flight."""
    called.append("look")
    return "one at noon"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    yield
    seen.clear()
    called.clear()


def guard_by(monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., Any]) -> None:
    monkeypatch.setattr(f"{HERE}.judge", verdict)


def raise_it(*_: Any) -> Any:
    raise ValueError("no verdict")


def kinds(kit: AgentKit, run_id: str) -> list[tuple[str, str, Any]]:
    with kit.runner.journal.database.read() as connection:
        return [(step["kind"], step["status"], step["result_json"]) for step in steps_of(connection, run_id)]


def assert_nothing_was_shown(played: Played, but: str = "") -> None:
    """Nothing of the model's answer was shown, and no tool called; ``but``: the reason, which is the answer."""
    assert [*played.of(ToolNamePayload), *played.of(ToolPayload)] == []
    assert (played.text, called) == (but, [])


def test_an_input_that_passes_is_answered_and_the_verdict_is_a_step(kit: AgentKit) -> None:
    kit.agent(tools=[look], **GUARDED)
    kit.model.script(Turn(text="I look. ", calls=[Call(name="look")]), Turn(text="At noon."))

    handle = kit.run("A flight?")
    played = kit.played(handle)

    assert (played.text, called) == ("I look. At noon.", ["look"])
    assert seen == [("A flight?", "Tester", [])]
    assert [kind for kind, *_ in kinds(kit, handle.run_id)] == ["model", "guard", "tool", "model"]
    assert ("guard", "done", PASS.replace(" ", "")) in kinds(kit, handle.run_id)
    assert played.end.steps == 4
    with kit.runner.journal.database.read() as connection:
        assert not_recovered(read_record(connection, handle.thread_id)) == []


def test_nothing_is_shown_and_no_tool_asked_about_before_the_guard_has_passed(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.agent(tools=[look], **GUARDED)
    kit.model.script(Turn(text=["I ", "look."], calls=[Call(name="look")]), Turn(text="At noon."))
    is_answered, moments = threading.Event(), list[tuple[str, bool]]()
    has_passed = threading.Event()
    hold, deliver, new_step = HeldOutput.delta, RunWriter.delta, open_calls.new_step

    def watched_hold(held: HeldOutput, kind: Any, fields: Any) -> None:
        hold(held, kind, fields)
        if kind is ToolNamePayload:
            is_answered.set()

    def watched_delivery(writer: RunWriter, kind: Any, fields: Any) -> None:
        moments.append((kind.__name__, has_passed.is_set()))
        deliver(writer, kind, fields)

    def watched_step(*call: Any) -> Any:
        moments.append(("call", has_passed.is_set()))
        return new_step(*call)

    def pass_late(*_: Any) -> bool:
        assert is_answered.wait(20)
        has_passed.set()
        return True

    monkeypatch.setattr(HeldOutput, "delta", watched_hold)
    monkeypatch.setattr(RunWriter, "delta", watched_delivery)
    monkeypatch.setattr(open_calls, "new_step", watched_step)
    guard_by(monkeypatch, pass_late)

    assert kit.play().text == "I look.At noon."
    assert [name for name, _ in moments[:4]] == ["ResponsePayload", "ResponsePayload", "ToolNamePayload", "call"]
    assert all(is_late for _, is_late in moments)


def steer_at(kit: AgentKit, monkeypatch: pytest.MonkeyPatch, text: str) -> Played:
    """Steer a run while its model answers, with a guard that refuses poems, and return what was seen."""
    guard_by(monkeypatch, lambda prompt, *_: NO if "poem" in prompt else True)
    kit.agent(tools=[look], **GUARDED)
    first = Turn(text=["I ", "see."], stall_after=1)
    kit.model.script(first, Turn(text="A poem: ", calls=[Call(name="look")]), Turn(text="At noon."))
    handle = kit.run("A flight?")
    for event in handle.events():
        if isinstance(event, ResponsePayload) and event.content == "I ":
            kit.runner.steer(handle.run_id, text)
        if isinstance(event, ControlPayload) and event.state == "accepted":
            kit.model.resume()
    return kit.played(handle)


def test_a_text_that_steers_the_run_is_checked_and_what_follows_from_a_refused_one_is_not_shown(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = steer_at(kit, monkeypatch, "Now a poem!")

    assert (played.text, called) == ("I see.Only flights, please.", [])
    assert (played.end.status, played.end.reason) == ("succeeded", "prompt_refused")
    assert [prompt for prompt, *_ in seen] == ["A flight?", "Now a poem!"]


def test_a_text_that_steers_the_run_is_checked_once_and_answered_where_it_passes(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = steer_at(kit, monkeypatch, "And a later one?")

    assert (played.text, called) == ("I see.A poem: At noon.", ["look"])
    assert [prompt for prompt, *_ in seen] == ["A flight?", "And a later one?"]


def test_a_text_that_comes_while_the_input_is_refused_begins_the_next_turn(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def refuse_late(prompt: str, *_: Any) -> Any:
        if "poem" not in prompt:
            return True
        is_asked.set()
        assert may_answer.wait(20)
        return NO

    guard_by(monkeypatch, refuse_late)
    kit.agent(tools=[look], **GUARDED)
    kit.model.script(Turn(text="A poem."), Turn(text="At noon."))
    handle = kit.run("A poem!")
    assert is_asked.wait(20)

    kit.runner.steer(handle.run_id, "Then a flight.")
    for event in handle.events():
        if isinstance(event, ControlPayload) and event.state == "accepted":
            may_answer.set()

    assert handle.result(10).reason == "prompt_refused"
    controls = [event for event in handle.events() if isinstance(event, ControlPayload)]
    assert [(event.state, event.reason) for event in controls] == [("accepted", None), ("consumed", "next_turn")]


@pytest.mark.parametrize("verdict", [NO["validationFailedReason"], NO, ValidationResult(**NO)])
def test_a_refusal_discards_the_answer_and_the_conversation_continues(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, verdict: Any
) -> None:
    kit.agent(tools=[look], **GUARDED)
    kit.model.script(Turn(text="A poem: ", calls=[Call(name="look")], stall_after=1), Turn(text="At noon."))
    guard_by(monkeypatch, lambda prompt, *_: verdict if "poem" in prompt else True)

    handle = kit.run("A poem!")
    refused = kit.played(handle)
    after = kit.play("A flight?", thread_id=handle.thread_id)

    answer = refused.of(MessagePayload)[-1]
    assert_nothing_was_shown(refused, but=NO["validationFailedReason"])
    assert (answer.content, answer.validation) == (NO["validationFailedReason"], NO)
    assert (refused.end.status, refused.end.reason) == ("succeeded", "prompt_refused")
    assert refused.output == NO["validationFailedReason"]
    assert after.output == "At noon."
    assert [message["content"] for message in kit.model.requests[-1].messages[1:]] == ["A flight?"]
    assert seen[-1] == ("A flight?", "Tester", [])
    with kit.runner.journal.database.read() as connection:
        assert not_recovered(read_record(connection, handle.thread_id)) == []


def test_a_refusal_is_data_where_the_output_is(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.agent(output_schema={"type": "object"}, **GUARDED)
    guard_by(monkeypatch, lambda *_: False)

    output = kit.play().output

    assert output == {"validationResult": False, "validationFailedReason": "That is not what Tester is for."}


@pytest.mark.parametrize(
    ("verdict", "problem"),
    [(raise_it, "ValueError"), (lambda *_: None, "neither True"), (lambda *_: threading.Event().wait(), "0.1 s")],
)
def test_a_guard_without_a_verdict_passes_nothing(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., Any], problem: str
) -> None:
    kit.agent(tools=[look], prompt_guard={"function": f"{HERE}:check", "timeout_s": 0.1})
    kit.model.script(Turn(text="I look. ", calls=[Call(name="look")]), Turn(text="At noon."))
    guard_by(monkeypatch, verdict)

    handle = kit.run("A poem?")
    failed = kit.played(handle)
    guard_by(monkeypatch, lambda *_: True)
    after = kit.play("A flight?", thread_id=handle.thread_id)

    assert_nothing_was_shown(failed)
    assert (failed.end.status, failed.end.reason) == ("failed", "prompt_guard_failed")
    assert problem in failed.of(ErrorPayload)[-1].message.replace("0.1 seconds", "0.1 s")
    assert "no further tool was called" in failed.of(ErrorPayload)[-1].message
    assert after.output == "At noon."
    assert [message["content"] for message in kit.model.requests[-1].messages[1:]] == ["A flight?"]


def test_a_stop_before_the_verdict_keeps_no_text_and_the_next_check_has_both_messages(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    kit.agent(**GUARDED)
    kit.model.script(Turn(text=["never ", "shown"], stall_after=1), Turn(text="At noon."))

    def wait(*_: Any) -> bool:
        begun.set()
        return may_end.wait(20)

    guard_by(monkeypatch, wait)

    handle = kit.run("Write a poem.")
    assert begun.wait(20)
    assert kit.model.wait_for_requests(1)
    handle.cancel()
    stopped = kit.played(handle)
    may_end.set()
    kit.play("And then?", thread_id=handle.thread_id)

    assert stopped.end.status == "cancelled"
    assert [message.content for message in stopped.of(MessagePayload) if message.role == "assistant"] == []
    assert seen[-1][0] == "Write a poem.\n\nAnd then?"


def test_a_run_that_is_resumed_does_not_ask_the_guard_again(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, lost = kit.runner.journal, list[str]()
    kit.agent(**GUARDED)
    kit.model.script(Turn(text="lost", stall_after=0), Turn(text="At noon."))

    def lose(stage: str) -> None:
        if stage == "commit" and seen and not lost:
            lost.append(stage)
            raise StaleOwner("this run", 0)

    monkeypatch.setattr(bus.journal.log.writer, "failpoint", lose)
    handle = kit.run(detached=True)
    with journal.database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == handle.run_id)).one()
    with suppress(StaleOwner):
        run_agent(RunAgentMessage.of_run(row).to_wire())
    lose_owner(journal.database, handle.run_id)
    run_agent(RunAgentMessage.of_run(row).to_wire())

    assert kit.played(handle).output == "At noon."
    assert len(seen) == 1


# --- a hand-over


HANDS_OVER = Turn(calls=[Call(name="ChangeGoal", arguments={"goal": "bank"})])


def test_the_guard_of_the_other_agent_checks_this_turns_texts_after_a_hand_over(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard_by(monkeypatch, lambda prompt, *_: NO if "poem" in prompt else True)
    kit.agent(tools=["ChangeGoal"])
    kit.agent("bank", name="Bank", tools=[look], **GUARDED)
    kit.model.script(
        Turn(text="Hello."), HANDS_OVER, Turn(text="A poem: ", calls=[Call(name="look")]), Turn(text="Yes.")
    )
    kit.play("Hi", thread_id="talk")

    refused = kit.play("A poem!", "tester", thread_id="talk")
    after = kit.play("A flight?", "bank", thread_id="talk")

    assert (called, refused.end.reason) == ([], "prompt_refused")
    assert refused.text == NO["validationFailedReason"]
    earlier = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    assert seen == [("A poem!", "Bank", earlier), ("A flight?", "Bank", earlier)]
    assert after.output == "Yes."
    assert [message["content"] for message in kit.model.requests[-1].messages[1:]] == ["Hi", "Hello.", "A flight?"]


def test_a_guard_that_fails_after_a_hand_over_passes_nothing_and_its_input_is_sent_no_more(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard_by(monkeypatch, raise_it)
    kit.agent(tools=["ChangeGoal"])
    kit.agent("bank", tools=[look], **GUARDED)
    kit.model.script(HANDS_OVER, Turn(calls=[Call(name="look")]), Turn(text="Yes."))

    failed = kit.play("A poem!", thread_id="talk")
    guard_by(monkeypatch, lambda *_: True)
    kit.play("A flight?", "bank", thread_id="talk")

    assert (failed.end.reason, called) == ("prompt_guard_failed", [])
    assert [message["content"] for message in kit.model.requests[-1].messages[1:]] == ["A flight?"]


def test_after_a_hand_over_and_back_the_first_agents_guard_checks_again(kit: AgentKit) -> None:
    back = Turn(calls=[Call(name="ChangeGoal", arguments={"goal": "tester"})])
    kit.agent(tools=["ChangeGoal"], **GUARDED)
    kit.agent("bank", name="Bank", tools=["ChangeGoal"], **GUARDED)
    kit.model.script(HANDS_OVER, back, Turn(text="Yes."))

    assert kit.play("A flight?").output == "Yes."
    assert [(prompt, name) for prompt, name, _ in seen] == [
        ("A flight?", name) for name in ("Tester", "Bank", "Tester")
    ]


@pytest.mark.parametrize("is_log_expired", [False, True])
def test_the_guard_of_the_other_agent_checks_again_in_a_rerun_from_behind_the_hand_over(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, is_log_expired: bool
) -> None:
    kit.agent(tools=["ChangeGoal"], **GUARDED)
    kit.agent("bank", name="Bank", tools=[look], **GUARDED)
    kit.model.script(HANDS_OVER, Turn(text="A poem."))
    first = kit.run("A poem!")
    kit.played(first)
    behind = next(number for number, (kind, *_) in enumerate(kinds(kit, first.run_id), 1) if kind == "tool") + 1
    if is_log_expired:
        with kit.runner.journal.database.write() as connection:
            connection.execute(delete(events).where(events.c.run_id == first.run_id, events.c.type != "end"))

    guard_by(monkeypatch, lambda *_: NO)
    kit.model.script(Turn(text="A poem: ", calls=[Call(name="look")]), Turn(text="Yes."))
    origin = Origin(run_id=first.run_id, kind="rerun", from_step=behind)
    again = kit.runner.repeat(origin, kit.runner.principal)
    played = kit.played(again)

    assert (called, played.end.reason, played.text) == ([], "prompt_refused", NO["validationFailedReason"])
    assert [(prompt, name) for prompt, name, _ in seen][-1] == ("A poem!", "Bank")
    assert [event.to_agent for event in played.of(HandoverPayload)] == ([] if is_log_expired else ["bank"])
    with kit.runner.journal.database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == again.run_id)).one()
    assert (row.agent_id, row.handed_from_json) == ("bank", '["tester"]')


def test_a_retry_of_a_run_whose_second_guard_failed_asks_that_guard_again(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard_by(monkeypatch, raise_it)
    kit.agent(tools=["ChangeGoal"])
    kit.agent("bank", name="Bank", tools=[look], **GUARDED)
    kit.model.script(HANDS_OVER, Turn(calls=[Call(name="look")]))
    failed = kit.run("A poem!", thread_id="talk")
    assert kit.played(failed).end.reason == "prompt_guard_failed"

    guard_by(monkeypatch, lambda *_: NO)
    kit.model.script(Turn(calls=[Call(name="look")]))
    played = kit.played(kit.runner.repeat(Origin(run_id=failed.run_id, kind="retry"), kit.runner.principal))

    assert (called, played.end.reason) == ([], "prompt_refused")
    assert [(prompt, name) for prompt, name, _ in seen] == 2 * [("A poem!", "Bank")]


def test_a_run_that_is_resumed_after_a_hand_over_does_not_ask_the_guard_again(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, lost = kit.runner.journal, list[str]()
    kit.agent(tools=["ChangeGoal"], **GUARDED)
    kit.agent("bank", name="Bank", tools=[look], **GUARDED)
    kit.model.script(
        HANDS_OVER, Turn(text="lost", stall_after=0), Turn(calls=[Call(name="look")]), Turn(text="At noon.")
    )

    def lose(stage: str) -> None:
        if stage == "commit" and len(seen) == 2 and not lost:
            lost.append(stage)
            raise StaleOwner("this run", 0)

    monkeypatch.setattr(bus.journal.log.writer, "failpoint", lose)
    handle = kit.run(detached=True)

    def work() -> None:
        with journal.database.read() as connection:
            row = connection.execute(select(runs).where(runs.c.id == handle.run_id)).one()
        run_agent(RunAgentMessage.of_run(row).to_wire())

    work()
    with suppress(StaleOwner):
        work()
    lose_owner(journal.database, handle.run_id)
    work()

    assert kit.played(handle).output == "At noon."
    assert (lost, called) == (["commit"], ["look"])
    assert [name for _, name, _ in seen] == ["Tester", "Bank"]


# --- a model as the guard


def test_a_model_guard_is_a_model_call_of_the_run(kit: AgentKit) -> None:
    guard = ScriptedModel()
    kit.agent(tools=[look], description="Finds flights.", prompt_guard={"model": guard.name})
    kit.model.script(Turn(text="Hello."), Turn(text="At noon."))
    guard.script(Turn(text=PASS, usage=Usage(input_tokens=70, output_tokens=7)))

    handle = kit.run("Hi")
    played = kit.played(handle)

    [request] = guard.requests
    assert "Finds flights." in request.messages[0]["content"]
    assert "look (Look for a flight.)" in request.messages[0]["content"]
    assert request.messages[1]["content"] == '{"input":["Hi"],"history":[]}'
    assert request.response_format["json_schema"]["strict"] is True
    assert [kind for kind, *_ in kinds(kit, handle.run_id)] == ["model", "model"]
    assert (played.end.usage or {})["input_tokens"] == 80
    with kit.runner.journal.database.read() as connection:
        assert not_recovered(read_record(connection, handle.thread_id)) == []


@pytest.mark.parametrize("text", ["Sure!", '{"validationResult": "yes"}', '{"validationResult": true, "more": 1}'])
def test_an_answer_of_a_model_that_is_no_verdict_passes_nothing(kit: AgentKit, text: str) -> None:
    guard = ScriptedModel()
    kit.agent(prompt_guard={"model": guard.name})
    guard.script(Turn(text=text))

    played = kit.play()

    assert_nothing_was_shown(played)
    assert played.end.reason == "prompt_guard_failed"


def test_the_demo_model_serves_as_a_guard(kit: AgentKit) -> None:
    kit.agent(prompt_guard={"model": "demo/instant"})
    kit.model.script(Turn(text="Hello."), Turn(text="never shown"))

    passed, refused = kit.play("Hello"), kit.play("Something off topic")

    assert (passed.output, passed.end.reason) == ("Hello.", None)
    assert refused.end.reason == "prompt_refused"


def test_a_guard_model_is_asked_through_litellm_at_the_agents_own_address(harness: AppHarness) -> None:
    harness.agent("prompt_guard: {model: openai/small}")
    texts = {"small": '{"validationResult": false, "validationFailedReason": "No."}', "gpt-5-mini": "never shown"}
    harness.model.respond = lambda body: ServedTurn(text=[texts[body["model"]]])

    played = Played(events=harness.events(harness.run()))

    request = next(request for request in harness.model.requests if request.body["model"] == "small")
    assert request.body["response_format"]["json_schema"]["schema"]["required"] == list(NO)
    assert_nothing_was_shown(played, but="No.")
    assert (played.end.reason, played.output) == ("prompt_refused", "No.")


# --- what is refused


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("prompt_guard: check", "package.module:function"),
        ("prompt_guard: {}", "either `model` or `function`"),
        ("prompt_guard: {modle: auto}", "Did you mean 'model'"),
        (
            "prompt_guard: {model: auto}\nrouter: [{agent: other}]",
            "put it into the files of the agents that the routes",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(tmp_path: Any, line: str, problem: str) -> None:
    file = tmp_path / "tester.yaml"
    file.write_text(f"name: T\nmodel: auto\nsystem_prompt: P\n{line}\n")

    with pytest.raises(DefinitionInvalid) as raised:
        load_definition(file)

    assert f"{file}:4" in str(raised.value)
    assert problem in str(raised.value)


@pytest.mark.parametrize("path", ["os:system", f"{HERE}:nothing", f"{HERE}:Any"])
def test_a_function_that_may_not_be_called_breaks_its_agent(kit: AgentKit, path: str) -> None:
    kit.agent(prompt_guard=path)

    end = kit.play().end

    assert (end.status, end.reason) == ("failed", "definition_invalid")
