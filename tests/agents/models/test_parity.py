"""The fast path and LiteLLM's own wrapper tell the same story, over real HTTP, for every family it serves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.open import open_stream
from agents.models.streams.fast import FAMILIES, SWITCH
from agents.models.streams.reader import ByteReader
from agents.models.streams.tool_calls import ToolCall
from agents.models.streams.wrapper import WrapperReader
from agents.steps.streaming import StreamedResponseWrapper
from config.errors import CallboardError
from tests.agents.models.conftest import WEATHER
from tests.model_server import Call, ModelServer, Turn
from tests.raising import raises

MODELS = {
    "openai": "openai/gpt-test",
    "azure": "azure/gpt-test",
    "hosted_vllm": "hosted_vllm/test",
    "deepseek": "deepseek/deepseek-chat",
    "groq": "groq/llama-test",
    "openrouter": "openrouter/test/model",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama_chat": "ollama_chat/llama3.2:3b",
}
WHOLE_CALLS = ("gemini", "ollama_chat")
"""The families that send a call whole; of the ids that LiteLLM invents there, only the signature behind is compared."""

SHARED_ANSWERS = {
    "text": Turn(text="Ein Satz, der in Stücken kommt: 你好 👋🏽.\n\n```py\nprint('x')\n```"),
    "text in one piece": Turn(text=["Everything at once."]),
    "one piece a letter": Turn(text=list("abcdefghijklmnopqrstuvwxyz")),
    "blanks and breaks": Turn(text=["a", " ", "\n", "", "\t", "b"]),
    "thinking": Turn(text="So it is.", reasoning="First I think. Then I speak.", signature="c2lnbmF0dXJl"),
    "a tool call": Turn(calls=[Call(name="get_weather", arguments={"city": "Köln"})]),
    "arguments in 1-byte pieces": Turn(calls=[Call(name="get_weather", arguments={"city": "Köln 👋"}, piece=1)]),
    "no arguments": Turn(calls=[Call(name="get_weather")]),
    "parallel calls": Turn(
        text="Two at once.",
        calls=[Call(name="get_weather", arguments={"city": f"Town {n}"}, piece=3) for n in range(5)],
        interleave=True,
    ),
    "thinking, text and calls": Turn(
        reasoning="Hm, the weather.",
        text="Let me look.",
        calls=[Call(name="get_weather", arguments={"city": city}) for city in ("Bonn", "Ulm")],
        signature="cHJvb2Y=",
    ),
    "line ends of HTTP": Turn(text="Windows was here.", crlf=True),
    "comments": Turn(text="Still alive, still alive.", comments=3),
    "gzip": Turn(text="Packed and unpacked.", gzip=True),
    "one byte at a time": Turn(text="Ein Satz: 你好 👋🏽.", bytes_apart=True),
}

ANSWERS = [(family, name) for family in MODELS for name in SHARED_ANSWERS if (family, name) != ("gemini", "comments")]
"""LiteLLM cannot read a stream of Gemini with comments."""

FAULTS: dict[str, tuple[Turn, type[CallboardError]]] = {
    "overloaded in a 200 stream": (
        Turn(
            text="It begins and so",
            error_after=4,
            error={"type": "overloaded_error", "message": "Wait", "code": 529},
        ),
        ModelFailed,
    ),
    "failed in a 200 stream": (
        Turn(text="It begins and so", error_after=4, error={"message": "boom", "code": 500, "type": "server_error"}),
        ModelFailed,
    ),
    "disconnected": (Turn(text="It begins and never", disconnect_after=4), ModelFailed),
    "empty": (Turn(), ModelFailed),
    "only blanks": (Turn(text=["  ", "\n"]), ModelFailed),
}


def _turn(family: str, turn: Turn) -> Turn:
    return replace(turn, reasoning_field="reasoning") if family in ("openrouter", "groq") else turn


def _comparable(call: ModelCall, tool_call: ToolCall) -> tuple[str, str, Any]:
    if not call.model.startswith(WHOLE_CALLS):
        return tool_call.id, tool_call.name, tool_call.arguments_text
    signature = tool_call.id.partition("__thought__")[2]
    return signature, tool_call.name, json.loads(tool_call.arguments_text)


async def collected(call: ModelCall) -> dict[str, Any]:
    async with StreamedResponseWrapper(await open_stream(call)) as stream:
        async for batch in stream:
            assert batch
    usage = stream.usage
    return {
        "text": stream.text,
        "reasoning": stream.reasoning,
        "calls": [_comparable(call, tool_call) for tool_call in stream.tool_calls],
        "finish": stream.finish_reason,
        "usage": None if usage is None else (usage.input_tokens, usage.output_tokens, usage.cached_tokens),
        "thinking": stream.thinking_blocks,
    }


def test_every_family_of_the_fast_path_is_compared_here() -> None:
    assert set(FAMILIES) == set(MODELS)


@pytest.mark.parametrize("family", MODELS)
def test_the_fast_path_serves_the_family_and_the_switch_turns_it_off(
    family: str, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reader() -> type:
        stream = await open_stream(call_of(MODELS[family]))
        await stream.reader.aclose()
        return type(stream.reader)

    fast = run(reader())
    monkeypatch.setenv(SWITCH, "0")
    slow = run(reader())

    assert (fast, slow) == (ByteReader, WrapperReader)


@pytest.mark.parametrize(("family", "answer"), ANSWERS)
def test_both_paths_give_the_same_events(
    family: str,
    answer: str,
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = _turn(family, SHARED_ANSWERS[answer])
    server.script([turn, turn])
    call = call_of(MODELS[family], tools=[WEATHER])

    fast = run(collected(call))
    monkeypatch.setenv(SWITCH, "0")
    slow = run(collected(call))

    assert fast == slow
    assert fast["text"] or fast["calls"]
    assert fast["usage"] is not None


@pytest.mark.parametrize(
    ("family", "fault"),
    [(family, fault) for family in MODELS for fault in FAULTS if family != "ollama_chat" or "200" not in fault],
)
def test_both_paths_fail_alike(
    family: str,
    fault: str,
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn, expected = FAULTS[fault]
    server.script([turn, turn])
    call = call_of(MODELS[family])

    with raises(expected) as fast:
        run(collected(call))
    monkeypatch.setenv(SWITCH, "0")
    with raises(expected) as slow:
        run(collected(call))

    assert type(fast.value) is type(slow.value)


@pytest.mark.parametrize("family", ["hosted_vllm", "deepseek"])
def test_a_refusal_in_a_200_stream_is_one_on_both_paths(
    family: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn(text="It begins and so", error_after=4, error={"message": "context too long", "code": 400})
    server.script([turn, turn])
    call = call_of(MODELS[family])

    with raises(MODEL_REFUSED, match="context too long"):
        run(collected(call))
    monkeypatch.setenv(SWITCH, "0")
    with raises(MODEL_REFUSED, match="context too long"):
        run(collected(call))


@pytest.mark.parametrize("path", ["fast", "wrapper"])
def test_a_usage_that_was_not_sent_is_not_invented(
    path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1" if path == "fast" else "0")
    server.script([Turn(text="Uncounted words.", usage={})])

    answer = run(collected(call_of("hosted_vllm/test")))

    assert (answer["text"], answer["usage"]) == ("Uncounted words.", None)


@pytest.mark.parametrize("path", ["fast", "wrapper"])
def test_tokens_from_the_cache_are_counted(
    path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1" if path == "fast" else "0")
    counts = {"input_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 3}
    server.script([Turn(text="Remembered.", usage=counts)])

    answer = run(collected(call_of("anthropic/claude-sonnet-4-5")))

    assert answer["usage"] == (127, 3, 100)
