"""Gemini's and Ollama's own forms, over real HTTP: both paths agree, but for LiteLLM's mistakes, which are listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.streams.fast import SWITCH
from config.errors import CallboardError, ErrorKind
from tests.agents.models.conftest import WEATHER, read
from tests.agents.models.test_parity import MODELS, collected
from tests.model_server import Call, ModelServer, Turn
from tests.raising import raises

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Item.* on TypedDict class:UserWarning")]

_CITY = {"name": "get_weather", "args": {"city": "Köln"}}
_COUNTED = {"promptTokenCount": 100, "candidatesTokenCount": 5, "totalTokenCount": 125}
_QUOTA = {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}
_REFUSED = {"code": 400, "message": "Bad request", "status": "INVALID_ARGUMENT"}


def events(*bodies: Any) -> Turn:
    return Turn(raw=b"".join(b"data: " + orjson.dumps(body) + b"\r\n\r\n" for body in bodies))


def lines(*bodies: Any) -> Turn:
    return Turn(raw=b"".join(orjson.dumps({"model": "m", "done": False} | body) + b"\n" for body in bodies))


def parts(*items: Any, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(items), "role": "model"}, **more}]}


OLLAMA_ENDS = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
SAME = {
    ("gemini", "cut at its limit"): Turn(text="So many words", finish_reason="MAX_TOKENS"),
    ("gemini", "cut by the filter"): Turn(text="So many words", finish_reason="SAFETY"),
    ("gemini", "an unknown reason"): Turn(text="So it ends", finish_reason="LATER"),
    ("gemini", "cut at its limit behind a call"): Turn(text="x", calls=[Call(name="a")], finish_reason="MAX_TOKENS"),
    ("gemini", "thinking counted apart"): Turn(
        text="x y", usage=_COUNTED | {"thoughtsTokenCount": 20, "cachedContentTokenCount": 60}
    ),
    ("gemini", "thinking counted with the answer"): Turn(
        text="x y", usage=_COUNTED | {"candidatesTokenCount": 25, "thoughtsTokenCount": 20}
    ),
    ("gemini", "tokens of tools"): Turn(
        text="x y", usage=_COUNTED | {"toolUsePromptTokenCount": 7, "totalTokenCount": 112}
    ),
    ("gemini", "no usage"): Turn(text="x y", usage={}),
    ("gemini", "all in one event"): events(
        parts(
            {"text": "Hm.", "thought": True},
            {"text": "Let me look."},
            {"functionCall": _CITY, "thoughtSignature": "c2ln"},
            {"functionCall": _CITY},
            finishReason="STOP",
        )
    ),
    ("gemini", "events without words"): events(
        {"usageMetadata": {"promptTokenCount": 3}},
        parts({"text": "a "}),
        {"candidates": [{"index": 0}]},
        {"candidates": [{"content": {"role": "model"}}]},
        parts({"text": "", "thoughtSignature": "c2ln"}),
        parts({"text": "b"}, finishReason="STOP"),
    ),
    ("ollama_chat", "cut at its limit"): Turn(text="So many words", finish_reason="length"),
    ("ollama_chat", "an unknown reason"): Turn(text="So it ends", finish_reason="load"),
    ("ollama_chat", "half of a usage"): Turn(text="x y", usage={"eval_count": 2}),
    ("ollama_chat", "all in one line"): lines(
        {
            **OLLAMA_ENDS,
            "message": {
                "thinking": "Hm.",
                "content": "Let me look.",
                "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": city}}} for city in "ab"],
            },
            "prompt_eval_count": 3,
            "eval_count": 2,
        }
    ),
}
FAULTS: dict[tuple[str, str], tuple[Turn, ErrorKind]] = {
    ("gemini", "a prompt that the filter blocks"): (
        events({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}),
        MODEL_REFUSED,
    ),
    ("gemini", "an answer that the filter keeps back"): (
        events({"candidates": [{"finishReason": "RECITATION"}]}),
        MODEL_REFUSED,
    ),
    ("gemini", "an error that may pass"): (Turn(text="It begins so", error_after=2, error=_QUOTA), ModelFailed),
    ("gemini", "an error that stays"): (Turn(text="It begins so", error_after=2, error=_REFUSED), MODEL_REFUSED),
    ("gemini", "an error instead of a stream"): (
        Turn(raw=orjson.dumps({"error": _REFUSED}), content_type="application/json"),
        MODEL_REFUSED,
    ),
    ("ollama_chat", "cut off"): (Turn(text="It begins", finish=False), ModelFailed),
    ("ollama_chat", "half a line"): (Turn(text="It begins", malformed_after=1), ModelFailed),
    ("ollama_chat", "a page"): (Turn(raw=b"<html>\n<p>Hello</p>\n", content_type="text/html"), ModelFailed),
}
BETTER: dict[tuple[str, str], tuple[Turn, dict[str, Any] | ErrorKind]] = {
    ("gemini", "cut off, which LiteLLM takes for whole"): (Turn(text="It begins", finish=False), ModelFailed),
    ("gemini", "half an event, which LiteLLM leaves out"): (Turn(text="It begins so", malformed_after=2), ModelFailed),
    ("gemini", "comments, which LiteLLM cannot read"): (
        Turn(text="Still alive.", comments=2),
        {"text": "Still alive."},
    ),
    ("ollama_chat", "an error that may pass, which is a 400 for LiteLLM"): (
        Turn(text="It begins so", error_after=2, error={"message": "the runner has stopped"}),
        ModelFailed,
    ),
    ("ollama_chat", "calls without arguments, which LiteLLM makes one"): (
        Turn(calls=[Call(name="a"), Call(name="b")]),
        {"calls": [("", "a", {}), ("", "b", {})]},
    ),
    ("ollama_chat", "tags of thinking, which LiteLLM removes with what they mean"): (
        Turn(text=["<think>", "Hm.", "</think>", "So."]),
        {"text": "<think>Hm.</think>So."},
    ),
}


@pytest.mark.parametrize(("family", "answer"), SAME)
def test_both_paths_read_the_same(
    family: str,
    answer: str,
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.script([SAME[family, answer]] * 2)
    call = call_of(MODELS[family], tools=[WEATHER])

    fast = run(collected(call))
    monkeypatch.setenv(SWITCH, "0")
    slow = run(collected(call))

    assert fast == slow
    assert fast["text"]


@pytest.mark.parametrize(("family", "fault"), FAULTS)
@pytest.mark.parametrize("path", ["fast", "wrapper"])
def test_both_paths_refuse_or_fail(
    path: str,
    family: str,
    fault: str,
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, "1" if path == "fast" else "0")
    turn, expected = FAULTS[family, fault]
    server.script([turn])

    with raises(expected):
        run(collected(call_of(MODELS[family])))


@pytest.mark.parametrize(("family", "answer"), BETTER)
def test_the_fast_path_reads_what_litellm_gets_wrong(
    family: str,
    answer: str,
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn, expected = BETTER[family, answer]
    server.script([turn] * 2)

    def outcome() -> Any:
        try:
            return run(collected(call_of(MODELS[family], tools=[WEATHER])))
        except (CallboardError, ValueError) as error:  # also arguments that are no JSON
            return MODEL_REFUSED if getattr(error, "code", "") == MODEL_REFUSED.code else type(error)

    fast = outcome()
    monkeypatch.setenv(SWITCH, "0")
    slow = outcome()

    assert fast == (fast | expected if isinstance(fast, dict) and isinstance(expected, dict) else expected)
    assert slow != fast, "LiteLLM reads it now: move it to the table of what both paths read the same"


@pytest.mark.parametrize("path", ["fast", "wrapper"])
def test_a_signed_call_of_gemini_goes_back_with_its_signature_alone(
    path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1" if path == "fast" else "0")
    question = {"role": "user", "content": "What is the weather?"}
    server.script([Turn(calls=[Call(name="get_weather", arguments={"city": "Köln"})], signature="c2lnbmF0dXJl")])
    (call,) = run(read(call_of(MODELS["gemini"], tools=[WEATHER]))).tool_calls
    function = {"name": call.name, "arguments": call.arguments_text}
    call_message = {
        "role": "assistant",
        "content": None,
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "of another provider"}],
        "tool_calls": [{"id": call.id, "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}

    run(read(call_of(MODELS["gemini"], tools=[WEATHER], messages=[question, call_message, result])))

    sent = [part for content in server.requests[-1].body["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in sent if "thoughtSignature" in part] == ["c2lnbmF0dXJl"]
    assert "of another provider" not in str(server.requests[-1].body)
