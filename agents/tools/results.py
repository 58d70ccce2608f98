"""What a tool returned, as the model and the log can hold it: JSON, whole characters, bounded."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
from pydantic import BaseModel

MAX_BYTES = 256 * 1024
"""Longest result, as UTF-8 text."""


def to_result(value: Any) -> Any:
    """Return ``value`` as plain JSON data; text stays text, and what is too long is cut and says so."""
    if isinstance(value, str):
        return _bounded(value)
    if value is None or isinstance(value, bool):
        return value
    encoded = _encode(value)
    if len(encoded) > MAX_BYTES:
        return _bounded(encoded.decode())
    return orjson.loads(encoded)


def _encode(value: Any) -> bytes:
    plain = _plain(value, 0)
    try:
        return orjson.dumps(plain, default=_known, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits, a loop
        return orjson.dumps(_cleaned(plain, 0), default=_known, option=orjson.OPT_NON_STR_KEYS)


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and depth == 0:
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


def _cleaned(value: Any, depth: int) -> Any:
    if depth > 64:
        return "..."
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**64 else _digits(value)
    if isinstance(value, dict):
        return {_whole(str(key)): _cleaned(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, BaseModel):
        return _cleaned(value.model_dump(), depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _cleaned(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
    return value


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond 4300 digits Python refuses to write it out
        return f"a number of {value.bit_length()} bits"


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _bounded(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_BYTES:
        return data.decode()
    note = f"\n[cut here: {MAX_BYTES:,} of {len(data):,} bytes are shown]"
    return data[: MAX_BYTES - len(note)].decode("utf-8", "ignore") + note
