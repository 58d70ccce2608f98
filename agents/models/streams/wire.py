"""The base of the wire formats: bytes in, chunks out, and the errors of a stream."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

import orjson

from agents.models.errors import MODEL_REFUSED, ModelFailed, is_temporary
from agents.models.failures import FINAL_KINDS, parse_error_body
from agents.models.streams.chunk import Chunk
from agents.models.streams.lines import EventLines, Lines
from config.errors import CallboardError
from config.redaction import redact, redact_start

_RETRYABLE_WORDS = frozenset(
    """
    rate_limit_exceeded rate_limit_error overloaded_error overloaded api_error server_error internal_server_error
    timeout_error timeout too_many_requests engine_overloaded
    """.split()
)
_REFUSED_WORDS = frozenset(
    """
    invalid_request_error authentication_error permission_error not_found_error request_too_large billing_error
    insufficient_quota context_length_exceeded content_filter model_not_found invalid_api_key BadRequestError
    NotFoundError
    """.split()
)
_OTHER_MODEL_WORDS = frozenset(
    "authentication_error permission_error not_found_error request_too_large context_length_exceeded "
    "model_not_found invalid_api_key NotFoundError".split()
)
"""Of the refusals, those of this model alone: another one may answer the request."""

MAX_TOKENS = 10**12
"""The most that one call can have cost; sums over a run's calls must fit into 64 bits, as JSON is written with."""
_EXAMINED_BYTES = 64 * 1024
"""Bytes of an error body that are read for the message."""


class Wire(ABC):
    """A parser of a provider's stream without I/O: ``feed`` takes bytes and returns chunks.

    If an error follows valid chunks, ``feed`` returns the chunks, and the next call of ``feed``, ``check`` or ``end``
    raises the error.
    """

    lines: type[Lines] = EventLines
    """What splits the bytes into events."""

    def __init__(self) -> None:
        self._lines = self.lines()
        self._fault: CallboardError | None = None
        self.finished = False
        """Whether the model sent a finish reason or the end mark."""
        self.done = False
        """Whether the end mark was received; what follows is ignored."""

    def feed(self, data: bytes) -> list[Chunk]:
        """Return the chunks that are complete now.

        Raises:
            ModelFailed: the stream is malformed, or has a temporary error.
            MODEL_REFUSED: it has a permanent error.
        """
        self.check()
        chunks: list[Chunk] = []
        try:
            self._read(self._lines.feed(data), chunks)
        except CallboardError as fault:
            if not chunks:
                raise
            self._fault = fault
        return chunks

    def check(self) -> None:
        """Raise the error that followed the last chunks, if there was one."""
        if self._fault is not None:
            raise self._fault

    def end(self, content_type: str = "") -> list[Chunk]:
        """Return the last chunks after the provider closed the stream.

        Raises:
            ModelFailed: the stream was incomplete, or not an event stream.
        """
        self.check()
        chunks: list[Chunk] = []
        self._read(self._lines.end(), chunks)
        if not self.finished:
            fault: CallboardError = ModelFailed(
                "the provider closed the stream before the answer was complete; it ended early."
            )
            if self._lines.junk and not self._lines.seen_event:
                fault = not_a_stream(self._lines.junk, content_type)
            if not chunks:
                raise fault
            self._fault = fault
        return chunks

    def _read(self, events: list[bytes], chunks: list[Chunk]) -> None:
        for data in events:
            if self.done:
                return
            try:
                chunk = self.event(data)
            except (AttributeError, IndexError, KeyError, TypeError) as error:  # JSON, but of another shape
                raise malformed(data) from error
            if chunk is not None:
                chunks.append(chunk)

    @abstractmethod
    def event(self, data: bytes) -> Chunk | None:
        """Return the chunk of one event, or None where it has nothing new."""


def count(value: Any) -> int:
    """Return ``value`` as a number of tokens; 0 where it is not a number, or more than ``MAX_TOKENS``."""
    return value if isinstance(value, int) and 0 < value <= MAX_TOKENS else 0


def words(value: Any) -> str:
    """Return ``value`` if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def load(data: bytes) -> dict[str, Any]:
    """Return an event's JSON object, an empty one for blanks; lone surrogates and invalid UTF-8 are replaced.

    Raises:
        ModelFailed: it is not a JSON object.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        if not data.strip():
            return {}
        try:  # Python's json accepts lone surrogates
            value = without_surrogates(json.loads(data.decode("utf-8", "replace")))
        except (ValueError, RecursionError) as error:
            raise malformed(data) from error
    if not isinstance(value, dict):
        raise malformed(data)
    return value


def without_surrogates(value: Any) -> Any:
    """Return ``value`` with each lone surrogate replaced, so that it can be stored and sent."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: without_surrogates(item) for key, item in value.items()}
    return value


def malformed(data: bytes) -> ModelFailed:
    """Return the error for an event that is not a JSON object."""
    start = redact_start(data[:_EXAMINED_BYTES].decode("utf-8", "replace"), 80)
    return ModelFailed(f"the provider sent a malformed chunk: {start!r}.")


def not_a_stream(body: bytes, content_type: str) -> CallboardError:
    """Return the error for a 200 answer whose body is something else: an error as JSON, a page of HTML."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and value.get("error"):
        return carried_error(value["error"])
    kind = redact_start(content_type.partition(";")[0].strip(), 80) or "something else"
    start = " ".join(redact_start(body.decode("utf-8", "replace"), 120).split())
    return ModelFailed(
        f"the provider answered with {kind} instead of a stream ({start!r}); check api_base.",
        content_type=kind,
    )


def carried_error(error: Any) -> CallboardError:
    """Return the error of an error event in a 200 stream; ``MODEL_REFUSED`` where the request is at fault."""
    facts = error if isinstance(error, dict) else {"message": str(error)}
    error_body = parse_error_body(facts)
    status = _status(facts)
    if status is not None:
        may_pass = is_temporary(status)
    else:
        may_pass = bool(error_body.kinds & _RETRYABLE_WORDS) or not error_body.kinds & _REFUSED_WORDS
    kind = ModelFailed if may_pass and not error_body.kinds & FINAL_KINDS else MODEL_REFUSED
    sentence = f"the provider broke off its answer with an error: {error_body.text or 'no reason given'}."
    cannot_serve = bool(error_body.kinds & (FINAL_KINDS | _OTHER_MODEL_WORDS)) or status in (401, 402, 403, 413)
    return kind(
        sentence, provider_status=status, kinds=sorted(map(redact, error_body.kinds)), cannot_serve=cannot_serve
    )


def _status(facts: dict[str, Any]) -> int | None:
    for key in ("code", "status", "status_code"):
        try:
            number = int(facts.get(key) or 0)
        except (TypeError, ValueError):
            continue
        if 400 <= number < 600:
            return number
    return None
