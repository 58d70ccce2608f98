"""Anthropic's wire, translated to OpenAI's terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.streams.anthropic import AnthropicWire
from agents.models.streams.chunk import Chunk, ToolDelta, Usage
from tests.model_turn import Call, Turn
from tests.raising import raises


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, opening: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    return b"".join(
        [
            event("content_block_start", index=index, content_block=opening),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        ]
    )


END = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}) + event("message_stop")


def read(stream: bytes, piece: int | None = None) -> list[Chunk]:
    wire = AnthropicWire()
    size = piece or len(stream)
    chunks = [chunk for start in range(0, len(stream), size) for chunk in wire.feed(stream[start : start + size])]
    return chunks + wire.end()


@pytest.mark.parametrize("piece", [1, 5, None])
def test_thinking_text_and_calls_are_delivered(piece: int | None) -> None:
    turn = Turn(
        reasoning="Hm. So.",
        signature="c2ln",
        text="Look: 👋",
        calls=[Call(name="one", arguments={"a": 1}, piece=1), Call(name="two")],
    )

    chunks = read(b"".join(turn.events("anthropic", "m")), piece)

    tools = [tool for chunk in chunks for tool in chunk.tools]
    assert "".join(chunk.reasoning for chunk in chunks) == "Hm. So."
    assert [chunk.signature for chunk in chunks if chunk.signature] == ["c2ln"]
    assert "".join(chunk.text for chunk in chunks) == "Look: 👋"
    assert tools[0] == ToolDelta(index=0, id="call_0", name="one")
    assert "".join(tool.arguments for tool in tools if tool.index == 0) == '{"a": 1}'
    assert tools[-2:] == [ToolDelta(index=1, id="call_1", name="two"), ToolDelta(index=1, arguments="{}")]
    assert chunks[-1].finish_reason == "tool_calls"


def test_usage_is_added_up_over_events_and_the_cache_counts_as_input() -> None:
    first = {"input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7, "output_tokens": 1}

    chunks = read(event("message_start", message={"usage": first}) + END)

    assert chunks[-1].usage == Usage(input_tokens=60, output_tokens=5, cached_tokens=50)


def test_a_count_that_no_journal_can_add_up_is_no_count() -> None:
    much = dict.fromkeys(("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), 2**64 - 1)

    chunks = read(event("message_start", message={"usage": much}) + END)

    assert chunks[-1].usage == Usage(input_tokens=0, output_tokens=5)


def test_sealed_thinking_is_kept() -> None:
    chunks = read(block(0, {"type": "redacted_thinking", "data": "b3BhcXVl"}) + END)

    assert chunks[0].redacted == "b3BhcXVl"


def test_server_side_tools_pings_and_unknown_events_say_nothing() -> None:
    query = {"type": "input_json_delta", "partial_json": '{"q": 1}'}
    search = block(0, {"type": "server_tool_use", "id": "s", "name": "web_search"}, query)
    result_block = block(1, {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})

    chunks = read(event("ping") + search + result_block + event("something_new", x=1) + END)

    assert [chunk for chunk in chunks if chunk.text or chunk.tools or chunk.reasoning] == []


@pytest.mark.parametrize(
    ("stop_reason", "meant"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
    ],
)
def test_stop_reasons_become_finish_reasons(stop_reason: str, meant: str) -> None:
    chunks = read(event("message_delta", delta={"stop_reason": stop_reason}, usage={"output_tokens": 1}))

    assert chunks[0].finish_reason == meant


def test_an_error_event_is_failed_when_it_may_pass_and_refused_when_not() -> None:
    with pytest.raises(ModelFailed, match="Overloaded"):
        read(event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    with raises(MODEL_REFUSED, match="too long"):
        read(event("error", error={"type": "invalid_request_error", "message": "prompt is too long"}))


def test_a_stream_that_breaks_off_ended_early() -> None:
    with pytest.raises(ModelFailed, match="ended early"):
        read(event("message_start", message={}) + event("ping"))
