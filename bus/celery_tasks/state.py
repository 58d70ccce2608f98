"""The state of one task, decoded from the bytes that a result backend holds."""

from __future__ import annotations

import bz2
import json
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 4 * 1024 * 1024
"""Largest entry of a backend that is read, compressed or not; what a call returns is limited further."""
MAX_MESSAGE = 2000
"""Characters of an exception's text."""
ENDED = ("SUCCESS", "FAILURE", "REVOKED")
BEFORE_ITS_BEGINNING = ("PENDING", "RECEIVED")

_COMPRESSED = b"\x00celery-compressed\x00"
_PICKLED = b"\x80"
_STATUS = re.compile(rb'"status": ?"([A-Z]{1,40})"')
_DECOMPRESSORS: dict[bytes, Callable[[bytes], bytes]] = {
    b"application/x-gzip": lambda body: zlib.decompressobj().decompress(body, MAX_BYTES + 1),
    b"application/x-bz2": lambda body: bz2.BZ2Decompressor().decompress(body, MAX_BYTES + 1),
    b"application/x-lzma": lambda body: lzma.LZMADecompressor().decompress(body, MAX_BYTES + 1),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskState:
    """What a backend says of a task."""

    name: str = "PENDING"
    """Celery's name. ``PENDING`` says nothing: the backend has no entry. An application may have names of its own."""
    result: Any = None
    """With ``SUCCESS``: what the task returned."""
    error: str = ""
    """With ``FAILURE`` and ``REVOKED``: the exception's type."""
    message: str = ""
    """With ``FAILURE`` and ``REVOKED``: the exception's text; no traceback."""
    unreadable: str | None = None
    """Why the entry cannot be read, as a sentence with the remedy."""

    @property
    def has_ended(self) -> bool:
        """Whether the task will not change any more, or its entry cannot be read."""
        return self.name in ENDED or self.unreadable is not None


PENDING = TaskState()


def decode_meta(raw: bytes) -> TaskState:
    """Return the state that an entry of a key-value backend holds: Celery's JSON, with status and result in it."""
    if len(raw) > MAX_BYTES:
        return _too_large(raw)
    data, problem = _decoded(raw)
    if problem is not None:
        return TaskState(unreadable=problem)
    if not isinstance(data, dict) or not isinstance(data.get("status"), str):
        return TaskState(unreadable="The result backend holds something else under the task's id.")
    return state_of(data["status"], data.get("result"))


def decode_row(status: str, raw: bytes | None) -> TaskState:
    """Return the state that a row of a database backend holds: the result is JSON, the status a column."""
    if raw is None:
        return state_of(status, None)
    data, problem = _decoded(raw)
    return TaskState(unreadable=problem) if problem is not None else state_of(status, data)


def state_of(status: str, result: Any) -> TaskState:
    """Return the state with this result; of an exception, its type and text."""
    if status == "SUCCESS":
        return TaskState(name=status, result=result)
    if status not in ENDED:
        return TaskState(name=status[:80])
    facts = result if isinstance(result, dict) else {}
    message = facts.get("exc_message", "")
    words = message if isinstance(message, list | tuple) else [message]
    text = ", ".join(str(word)[:MAX_MESSAGE] for word in words[:10])
    kind = re.sub(r"[^\w.]", "", str(facts.get("exc_type", "")))[:80]
    return TaskState(name=status, error=kind or "Exception", message=text[:MAX_MESSAGE])


def too_large(status: str) -> TaskState:
    """Return the state of a task whose result is not read: that it succeeded is known, what it returned is not."""
    note = f"The task's result has more than {MAX_BYTES:,} bytes; let the task return less, or a reference."
    return TaskState(name=status, result=note) if status == "SUCCESS" else TaskState(unreadable=note)


def _too_large(raw: bytes) -> TaskState:
    status = _STATUS.search(raw[:200])
    return too_large(status[1].decode() if status is not None else "")


def _decoded(raw: bytes) -> tuple[Any, str | None]:
    """Return the JSON value of ``raw``, or why it cannot be read."""
    if raw.startswith(_COMPRESSED):
        kind, _, body = raw[len(_COMPRESSED) :].partition(b"\0")
        decompress = _DECOMPRESSORS.get(kind)
        if decompress is None:
            return None, "The result is compressed by a method that is not read here; set result_compression='gzip'."
        try:
            raw = decompress(body)
        except (zlib.error, lzma.LZMAError, OSError, EOFError):
            return None, "The result is damaged: it cannot be decompressed."
        if len(raw) > MAX_BYTES:
            return None, f"The result has more than {MAX_BYTES:,} bytes; let the task return less, or a reference."
    if raw.startswith(_PICKLED):
        return None, (
            "The result is pickled, and pickle is never read here: it can run code. Set result_serializer='json'; "
            "a database backend of Celery before 5.7 always pickles, so use Redis there."
        )
    try:
        return json.loads(raw, object_hook=_plain), None
    except (ValueError, RecursionError):
        return None, "The result is not JSON; set result_serializer='json' in the application."


def _plain(value: dict[str, Any]) -> Any:
    """Return the text of what kombu marks as a date, a decimal number or a UUID; its own decoders are not called."""
    if value.keys() != {"__type__", "__value__"}:
        return value
    inner = value["__value__"]
    return inner.get("hex", inner) if isinstance(inner, dict) else inner
