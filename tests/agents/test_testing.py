"""The kit that ships: an agent with its tools, without a server, in milliseconds."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.open import open_in_process
from agents.testing import AgentKit, Call, Turn
from bus.payloads import ErrorPayload, Payload, ReasoningPayload, ResponsePayload, ToolPayload
from observers.base import AgentFacts, AgentObserver, RunFacts
from tests.raising import raises


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_an_agent_is_tested_with_its_tools_in_ten_lines() -> None:
    with AgentKit(tools=[add]) as kit:
        kit.model.script(Turn(calls=[Call(name="add", arguments={"a": 17, "b": 23})]), Turn(text="It is 40."))

        played = kit.play("What is 17 + 23?")

    assert played.results("add") == [40]
    assert (played.end.status, played.output) == ("succeeded", "It is 40.")
    assert kit.model.requests[-1].messages[-1]["content"] == "40"


def test_it_streams_thinks_and_fails() -> None:
    busy = ModelFailed("the model is busy", retry_after_s=0.0)
    with AgentKit() as kit:
        kit.model.script(
            Turn(text="never mind", error=busy, error_after=1), Turn(reasoning="Hm, well.", text=["It ", "works."])
        )

        played = kit.play()

    assert played.text == "It works."
    assert "".join(piece.content for piece in played.of(ReasoningPayload)) == "Hm, well."
    assert [error.attempt for error in played.of(ErrorPayload)] == [1]


def test_an_agent_of_a_folder_keeps_its_prompt_and_asks_the_scripts_model(tmp_path: Path) -> None:
    (tmp_path / "clerk.yaml").write_text("name: Clerk\nmodel: openai/gpt-5\nsystem_prompt: You are a clerk.\n")
    with AgentKit(agents_dir=tmp_path) as kit:
        kit.model.script(Turn(text="Yes."))

        played = kit.play("Are you there?", "clerk")

    assert played.output == "Yes."
    assert kit.model.requests[0].messages[0]["content"] == "You are a clerk."


def test_what_the_script_does_not_answer_is_said_in_the_answer() -> None:
    with AgentKit() as kit:
        assert kit.play().output == "The script has no further turn."


def test_kits_one_after_another_share_nothing() -> None:
    for _ in range(2):
        with AgentKit() as kit:
            kit.model.script(Turn(text="First."))

            assert kit.play("Hello", thread_id="talk").output == "First."
            assert len(kit.model.requests[0].messages) == 2


class Late(AgentObserver):
    """Takes what was queued for it a while later, as a logger does."""

    linger_s = 0.2

    def __init__(self) -> None:
        self.taken: list[str] = []

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        self.taken.append(payload.event_type)


def test_observers_have_taken_everything_when_a_kit_is_closed() -> None:
    late = Late()
    with AgentKit() as kit:
        kit.model.script(Turn(text="Done."))
        kit.play(observers=[late])

    assert late.taken[-1] == "end"


def test_a_stop_closes_the_stream_and_keeps_what_was_said() -> None:
    with AgentKit() as kit:
        kit.model.script(Turn(text=["one ", "two ", "three"], stall_after=2))
        handle = kit.run()
        for event in handle.events():
            if isinstance(event, ResponsePayload) and event.content == "two ":
                handle.cancel()

        assert handle.status() == "cancelled"
        assert kit.model.closed_early.is_set()


def test_a_scripted_model_that_is_not_there_is_refused() -> None:
    with AgentKit() as kit:
        call = ModelCall(model="scripted/none", messages=[])

        with raises(MODEL_REFUSED, match="made by a test"):
            asyncio.run(open_in_process(call))

    assert kit.model.requests == []


def test_a_failed_assertion_is_shown_at_once_whatever_runs_are_open() -> None:
    released = threading.Event()

    def hang() -> str:
        """Wait until the test says otherwise."""
        released.wait(60)
        return "done"

    def fail() -> None:
        with AgentKit(tools=[hang]) as kit:
            kit.model.script(Turn(calls=[Call(name="hang", arguments={})]), Turn(text="Done."))
            run = kit.run()
            next(event for event in run.events() if isinstance(event, ToolPayload) and event.arguments is not None)
            raise AssertionError("what the test says")

    with pytest.raises(AssertionError, match="what the test says"):
        fail()

    assert not released.is_set()
    released.set()
    with AgentKit() as kit:
        kit.model.script(Turn(text="Hello."))
        assert kit.play().output == "Hello."
