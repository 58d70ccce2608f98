"""A long text is worked on by a thread, a short one at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agents.errors import OutputInvalid
from agents.steps.model_request import parse_output
from agents.testing import AgentKit, Call, Turn
from agents.tools.results import LARGE_CHARS, in_thread_if_large
from tests.agents.sample_tools import echo

LARGE = "a" * LARGE_CHARS


def test_a_long_text_is_worked_on_by_a_thread() -> None:
    here = threading.current_thread()

    short = asyncio.run(in_thread_if_large(LARGE_CHARS - 1, threading.current_thread))
    long = asyncio.run(in_thread_if_large(LARGE_CHARS, threading.current_thread))

    assert short is here
    assert long is not here


def test_what_is_wrong_with_a_long_text_is_raised() -> None:
    with pytest.raises(OutputInvalid, match="is not JSON"):
        asyncio.run(in_thread_if_large(len(LARGE), parse_output, LARGE, {}))


@pytest.mark.parity  # more than a second
def test_a_long_answer_and_long_arguments_come_whole(kit: AgentKit) -> None:
    kit.agent("caller", tools=[echo])
    kit.agent("shaped", output_schema={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    kit.model.script(
        Turn(calls=[Call(name="echo", arguments={"text": LARGE})]), Turn(text="Done."), Turn(text=f'{{"a": "{LARGE}"}}')
    )

    called = kit.play("Echo", "caller")
    answered = kit.play("Answer", "shaped")

    assert called.results("echo") == [LARGE]
    assert answered.output == {"a": LARGE}
