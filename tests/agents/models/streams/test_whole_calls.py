"""The wires whose calls come whole, Gemini's and Ollama's, byte by byte."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.models.errors import ModelFailed
from agents.models.streams.chunk import Chunk, ToolDelta, Usage
from agents.models.streams.lines import MAX_EVENT_BYTES
from agents.models.streams.whole_calls import GeminiWire, OllamaWire
from agents.models.streams.wire import Wire
from tests.model_turn import Call, Turn
from tests.model_wires import Dialect
from tests.raising import raises

WIRES: dict[Dialect, type[Wire]] = {"gemini": GeminiWire, "ollama": OllamaWire}


def read(wire: Wire, stream: bytes, piece: int | None = None) -> list[Chunk]:
    size = piece or len(stream)
    chunks = [chunk for start in range(0, len(stream), size) for chunk in wire.feed(stream[start : start + size])]
    return chunks + wire.end()


def event(dialect: Dialect, body: Any) -> bytes:
    return (b"data: " if dialect == "gemini" else b"") + orjson.dumps(body) + b"\n\n"


def calling(dialect: Dialect, arguments: Any, call_id: str | None = None) -> bytes:
    """Return an event with one call."""
    id_field: dict[str, Any] = {"id": call_id} if call_id else {}
    if dialect == "gemini":
        call = {"functionCall": {"name": "look", "args": arguments, **id_field}}
        return event(dialect, {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]})
    call = {"function": {"name": "look", "arguments": arguments}, **id_field}
    return event(dialect, {"message": {"tool_calls": [call]}, "done": True})


@pytest.mark.parametrize("piece", [1, 7, None])
@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("dialect", WIRES)
def test_thinking_text_calls_and_usage_are_delivered(dialect: Dialect, crlf: bool, piece: int | None) -> None:
    calls = [Call(name="one", arguments={"city": "Köln"}), Call(name="two")]
    turn = Turn(reasoning="Hm. So.", text="Look: 👋", calls=calls, crlf=crlf)

    chunks = read(WIRES[dialect](), b"".join(turn.events(dialect, "m")), piece)

    assert "".join(chunk.reasoning for chunk in chunks) == "Hm. So."
    assert "".join(chunk.text for chunk in chunks) == "Look: 👋"
    assert [tool for chunk in chunks for tool in chunk.tools] == [
        ToolDelta(index=0, name="one", arguments='{"city":"Köln"}'),
        ToolDelta(index=1, name="two", arguments="{}"),
    ]
    assert chunks[-1].finish_reason == "tool_calls"
    assert chunks[-1].usage == Usage(input_tokens=10, output_tokens=6)


@pytest.mark.parametrize("dialect", WIRES)
def test_an_id_of_the_provider_is_kept(dialect: Dialect) -> None:
    (chunk,) = read(WIRES[dialect](), calling(dialect, {}, "call_7"))

    assert chunk.tools[0].id == "call_7"


@pytest.mark.parametrize("dialect", WIRES)
def test_arguments_nested_too_deep_are_malformed(dialect: Dialect) -> None:
    arguments: Any = {}
    for _ in range(240):
        arguments = {"a": arguments}
    deeper = calling(dialect, arguments).replace(b'{"a":{}}', b'{"a":' * 600 + b"{}" + b"}" * 600)

    with raises(ModelFailed, match="malformed"):
        read(WIRES[dialect](), deeper)


def test_the_last_line_needs_no_end() -> None:
    wire = OllamaWire()

    (chunk,) = read(wire, calling("ollama", '{"a": 1}').rstrip())

    assert chunk.tools[0].arguments == '{"a": 1}'
    assert wire.done


def test_a_line_without_end_is_given_up() -> None:
    wire = OllamaWire()
    wire.feed(b'{"message": "' + b"x" * (MAX_EVENT_BYTES - 20))

    with raises(ModelFailed, match="more than 4 MiB"):
        wire.feed(b"x" * 100)
