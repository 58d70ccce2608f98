"""Converts a tool's return value to JSON data of bounded size, without lone surrogates."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import orjson
from pydantic import BaseModel

from agents.errors import OutputUnfit
from agents.tools.tool import Tool
from config.definitions.schemas.json_schema import schema_errors

T = TypeVar("T")

MAX_BYTES = 256 * 1024
"""Longest result, as UTF-8 text."""


def validate_output(tool: Tool, result: Any) -> None:
    """Check that a result, JSON data, fits the tool's output schema, where it has one.

    Raises:
        OutputUnfit: the message names the place of each problem and what is expected there.
    """
    problems = schema_errors(tool.output_schema, result) if tool.output_schema is not None else []
    if problems:
        raise OutputUnfit(f"the result of {tool.name} does not fit its output schema: {'; '.join(problems)}.")


def to_result(value: Any) -> Any:
    """Return ``value`` as plain JSON data; text stays text, and a longer result is truncated with a note."""
    if isinstance(value, str):
        return _bounded(value.encode("utf-8", "replace"))
    plain, is_whole = _plain(value), True
    try:
        encoded = orjson.dumps(plain, default=_known, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits, a loop
        cleaner = _Cleaner()
        encoded = orjson.dumps(cleaner.cleaned(plain, 0), default=_known, option=orjson.OPT_NON_STR_KEYS)
        is_whole = cleaner.left > 0
    return _decoded(encoded, is_whole)


async def to_result_beside_loop(value: Any) -> Any:
    """Convert as ``to_result`` does, on a thread where orjson alone cannot, so that the loop is not blocked."""
    if isinstance(value, str) and len(value) <= MAX_BYTES:
        return to_result(value)
    if not isinstance(value, str | BaseModel):
        with suppress(TypeError):  # also of half a surrogate pair and a number beyond 64 bits
            return _decoded(orjson.dumps(_plain(value), option=orjson.OPT_NON_STR_KEYS), is_whole=True)
    return await asyncio.to_thread(to_result, value)


def _decoded(encoded: bytes, is_whole: bool) -> Any:
    return _bounded(encoded, is_whole) if len(encoded) > MAX_BYTES or not is_whole else orjson.loads(encoded)


def _plain(value: Any) -> Any:
    """Return a model's or a dataclass's fields as a dict, and anything else as it is."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def _known(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return _whole(str(value))


class _Cleaner:
    """Replaces values that are not JSON, and stops when it has collected ``MAX_BYTES``."""

    def __init__(self) -> None:
        self.left = MAX_BYTES
        """A lower bound of the bytes that may still be collected."""

    def cleaned(self, value: Any, depth: int) -> Any:
        """Return as much of ``value`` as fits."""
        self.left -= 1
        if depth > 64:
            return "..."
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value if -(2**63) <= value < 2**64 else self._text(_digits(value))
        value = value.model_dump() if isinstance(value, BaseModel) else _plain(value)
        if isinstance(value, dict):
            return {
                self._text(str(key)): self.cleaned(item, depth + 1) for key, item in self._while_room(value.items())
            }
        if isinstance(value, list | tuple):
            return [self.cleaned(item, depth + 1) for item in self._while_room(value)]
        return value

    def _while_room(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            if self.left <= 0:
                return
            yield item

    def _text(self, text: str) -> str:
        start = _whole(text[: max(self.left, 0)])
        self.left -= len(text)
        return start


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond 4300 digits Python refuses to write it out
        return f"a number of {value.bit_length()} bits"


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _bounded(data: bytes, is_whole: bool = True) -> str:
    if len(data) <= MAX_BYTES and is_whole:
        return data.decode()
    total = f"{len(data):,}" if is_whole else "more than that many"
    note = f"\n[cut here: {MAX_BYTES:,} of {total} bytes are shown]"
    return data[: MAX_BYTES - len(note)].decode("utf-8", "ignore") + note


# --- large texts and data, on a thread


LARGE_CHARS = 64 * 1024
"""Longer texts go to a thread: decoding takes about 0.1 ms per KiB, and switching to a thread as long as one KiB."""
P = ParamSpec("P")


async def in_thread_if_large(chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function``, on a thread if ``chars`` is above ``LARGE_CHARS``; a cancelled caller does not wait for it."""
    if chars < LARGE_CHARS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


def chars_of(value: Any) -> int:
    """Return about how many characters JSON data has; of data that orjson does not take, as many as are large."""
    if isinstance(value, str):
        return len(value)
    try:
        return len(orjson.dumps(value))  # 1 ms for 60,000 keys, where examining them takes 50 to 500
    except TypeError:  # half a surrogate pair, a number beyond 64 bits
        return LARGE_CHARS
