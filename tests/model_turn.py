"""What the test model does in one call, and its form on OpenAI's and Anthropic's wires; model_wires has the others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice, zip_longest
from typing import Any

import orjson

from tests.model_wires import Dialect, gemini, ollama, words

_SECTION = """## Orders that arrive late

The warehouse gives parcels to the carrier twice a day, at noon and at six. An order that is paid after the second time
leaves on the next working day, and one with a part that is out of stock waits for the delivery of that part. The
customer gets a message in both cases, with the day on which the parcel is expected.

- **Paid before noon**: the parcel leaves on the same day.
- **Paid later**: the parcel leaves on the next working day, but on Mondays after a weekend.
- **Abroad**: add two days for customs, or up to five where the value is above `1,000` euros.

Ask the carrier before you promise a day: its plans for holidays are not in the system, and a promise that is not kept
costs more than an hour of work.

"""


def prose(count: int) -> list[str]:
    """Return so many tokens of Markdown, as long as models' are: four characters on average."""
    return list(islice(cycle(re.findall(r" ?\w{1,7}|\s+|[^\w\s]+", _SECTION)), count))


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call the model makes."""

    name: str
    arguments: Mapping[str, Any] | str = "{}"
    """An object, or any text where broken JSON is wanted."""
    id: str | None = None
    """None: ``call_`` and its number; an empty string: the provider sends no id."""
    index: int | None = None
    """None: its number in the turn."""
    piece: int = 8
    """Characters of arguments per chunk."""
    name_piece: int | None = None
    """Characters of the name per chunk; None sends it whole."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    def pieces(self) -> list[str]:
        """Return the arguments as they are streamed."""
        return _cut(self.text, self.piece)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One answer. Counts such as ``stall_after`` are numbers of events already sent."""

    text: Sequence[str] | str = ()
    """Pieces of the answer; a plain string is cut into words. Vary them: LiteLLM gives up after 100 equal ones."""
    reasoning: Sequence[str] | str = ()
    """Pieces of thinking, before the answer."""
    calls: Sequence[Call] = ()
    interleave: bool = False
    """Whether pieces of parallel calls alternate (OpenAI only)."""
    usage: Mapping[str, Any] | None = None
    """As the wire has it; None counts 10 in and a token a piece out; an empty one is not sent."""
    finish_reason: str | None = None
    """In the wire's own word; None: what fits."""
    second_finish: str | None = None
    """Another finish reason after the first (OpenAI only)."""
    signature: str = ""
    """Proof of the thinking block (Anthropic only)."""
    reasoning_field: str = "reasoning_content"
    """What the OpenAI-like server calls thinking; some say ``reasoning``."""

    pace: float | None = None
    """Events a second; None is as fast as can be."""
    delay_s: float = 0.0
    """Seconds before the status line."""
    first_delay_s: float = 0.0
    """Seconds between the head and the first event."""
    stall_after: int | None = None
    """Stop sending after so many events, until ``server.resume()``."""
    disconnect_after: int | None = None
    """Close the socket after so many events."""
    malformed_after: int | None = None
    """Send half a JSON object as an event after so many events."""
    error_after: int | None = None
    """Send ``error`` as an event after so many events, then end."""
    error: Mapping[str, Any] | None = None
    """The error's object; with ``status`` it is the body."""
    done: bool = True
    """Whether the stream says that it is over (``[DONE]``, ``message_stop``)."""
    finish: bool = True
    """Whether a finish reason is sent."""

    status: int = 200
    headers: Mapping[str, str] | None = None
    """More response headers, e.g. ``{"retry-after": "2"}``."""
    content_type: str | None = None
    """Instead of the right one."""
    raw: bytes | None = None
    """This body instead of events."""
    gzip: bool = False
    """Whether the body is compressed."""
    crlf: bool = False
    """Whether lines end as in HTTP."""
    comments: int = 0
    """Before how many events a comment goes, from the first (not Ollama)."""
    bytes_apart: bool = False
    """Whether each byte of the body is a chunk of its own."""

    def events(self, dialect: Dialect, model: str) -> list[bytes]:
        """Return the whole stream, an item for each event, faults included."""
        frames = list(_WIRES[dialect](self, model))
        if self.malformed_after is not None:
            half = b'{"id":"chatcmpl-1","choices":[{"delta":{"cont\n\n'
            frames[self.malformed_after :] = [half if dialect == "ollama" else b"data: " + half]
        if self.error_after is not None:
            error = self.error or {"message": "the model fell over", "type": "server_error"}
            frames[self.error_after :] = [_error(dialect, error)]
        if self.comments and dialect != "ollama":
            frames[: self.comments] = [b": still here\n\n" + frame for frame in frames[: self.comments]]
        if self.crlf:
            frames = [frame.replace(b"\n", b"\r\n") for frame in frames]
        return frames

    def whole(self, model: str) -> dict[str, Any]:
        """Return the answer to a call that does not stream (OpenAI)."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(words(self.text)) or None}
        if self.calls:
            message["tool_calls"] = [
                {"id": _id(call, n), "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for n, call in enumerate(self.calls)
            ]
        finish = self.finish_reason or ("tool_calls" if self.calls else "stop")
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "usage": _usage(self),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _id(call: Call, number: int) -> str:
    return f"call_{number}" if call.id is None else call.id


def _usage(turn: Turn) -> dict[str, Any]:
    if turn.usage is not None:
        return dict(turn.usage)
    out = len(words(turn.text)) + len(words(turn.reasoning)) + sum(len(call.pieces()) for call in turn.calls)
    return {"prompt_tokens": 10, "completion_tokens": out, "total_tokens": 10 + out}


def _error(dialect: Dialect, error: Mapping[str, Any]) -> bytes:
    if dialect == "ollama":
        return orjson.dumps({"error": error.get("message")}) + b"\n"
    if dialect in ("openai", "gemini"):
        return b"data: " + orjson.dumps({"error": dict(error)}) + b"\n\n"
    return b"event: error\ndata: " + orjson.dumps({"type": "error", "error": dict(error)}) + b"\n\n"


def _openai(turn: Turn, model: str) -> Iterator[bytes]:
    def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
            "system_fingerprint": "fp_test",
            "choices": choices,
            **more,
        }
        return b"data: " + orjson.dumps(body) + b"\n\n"

    def delta(value: dict[str, Any], finish: str | None = None) -> bytes:
        return chunk([{"index": 0, "delta": value, "logprobs": None, "finish_reason": finish}])

    yield delta({"role": "assistant", "content": ""})
    for piece in words(turn.reasoning):
        yield delta({turn.reasoning_field: piece})
    for piece in words(turn.text):
        yield delta({"content": piece})
    for part in _call_deltas(turn):
        yield delta({"tool_calls": [part]})
    if turn.finish:
        yield delta({}, turn.finish_reason or ("tool_calls" if turn.calls else "stop"))
    if turn.second_finish:
        yield delta({}, turn.second_finish)
    usage = _usage(turn)
    if usage:
        yield chunk([], usage=usage)
    if turn.done:
        yield b"data: [DONE]\n\n"


def _call_deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    streams = [_one_call(call, number) for number, call in enumerate(turn.calls)]
    if not turn.interleave:
        return chain.from_iterable(streams)
    return (part for row in zip_longest(*streams) for part in row if part is not None)


def _one_call(call: Call, number: int) -> Iterator[dict[str, Any]]:
    index = number if call.index is None else call.index
    names = _cut(call.name, call.name_piece) if call.name_piece else [call.name]
    first: dict[str, Any] = {"index": index, "type": "function", "function": {"name": names[0], "arguments": ""}}
    if _id(call, number):
        first["id"] = _id(call, number)
    yield first
    for name in names[1:]:
        yield {"index": index, "function": {"name": name}}
    for piece in call.pieces():
        yield {"index": index, "function": {"arguments": piece}}


def _anthropic(turn: Turn, model: str) -> Iterator[bytes]:
    def event(name: str, **more: Any) -> bytes:
        return f"event: {name}\ndata: ".encode() + orjson.dumps({"type": name, **more}) + b"\n\n"

    counted = _usage(turn)
    start = {"input_tokens": 10, "output_tokens": 1} if turn.usage is None else {**counted, "output_tokens": 1}
    head: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "usage": start,
    }
    yield event("message_start", message=head)
    yield event("ping")
    for index, (opening, deltas) in enumerate(_blocks(turn)):
        yield event("content_block_start", index=index, content_block=opening)
        for piece in deltas:
            yield event("content_block_delta", index=index, delta=piece)
        yield event("content_block_stop", index=index)
    if turn.finish:
        reason = turn.finish_reason or ("tool_use" if turn.calls else "end_turn")
        out = counted["completion_tokens"] if turn.usage is None else turn.usage.get("output_tokens", 0)
        yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": out})
    if turn.done:
        yield event("message_stop")


def _blocks(turn: Turn) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if turn.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in words(turn.reasoning)]
        if turn.signature:
            deltas.append({"type": "signature_delta", "signature": turn.signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if turn.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in words(turn.text)]
    for number, call in enumerate(turn.calls):
        opening = {"type": "tool_use", "id": _id(call, number), "name": call.name, "input": {}}
        pieces = [] if call.text == "{}" else call.pieces()
        yield opening, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]


_WIRES: dict[Dialect, Callable[[Turn, str], Iterator[bytes]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": gemini,
    "ollama": ollama,
}
