"""Request bodies: strict JSON with known fields and types; every other body is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from itertools import accumulate
from typing import Any

import orjson
from flask import request

from config.errors import BadRequest
from web.errors import MediaTypeRefused
from web.parameters import limited, require_known
from web.process import current_process

MAX_DEPTH = 64
MAX_VALUES = 50_000
"""Values in a body: each needs two bytes in the body and up to a few hundred once decoded."""
MAX_TEXTS = 2 * MAX_VALUES + 2
"""Names and values that are text."""
SMALL_BYTES = 16 * 1024
"""A body up to this size is decoded without a slot for large work."""
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string, or the rest of a body that ends inside one, so that each byte is scanned once."""
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Body:
    """A JSON object whose fields are read by name and type; unknown fields are refused."""

    def __init__(self, fields: Mapping[str, Any], known: Iterable[str]) -> None:
        self.raw = fields
        self._known = tuple(known)
        require_known("field", fields, self._known)

    def text(self, name: str, default: str | None = None, *, max_chars: int | None = None) -> str:
        """Return a text; without ``default`` it has to be there."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise BadRequest(f"'{name}' has to be text.")
        return value if max_chars is None else limited(name, value, max_chars)

    def optional_text(self, name: str, *, max_chars: int = 128) -> str | None:
        """Return a text, or None when the field is not there."""
        return self.text(name, max_chars=max_chars) if name in self.raw else None

    def flag(self, name: str, default: bool) -> bool:
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise BadRequest(f"'{name}' has to be true or false.")
        return value

    def seconds(self, name: str, default: float, most: float) -> float:
        """Return a number of seconds from 0 to ``most``."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise BadRequest(f"'{name}' has to be a number of seconds from 0 to {most:g}.")
        return float(value)

    def mapping(self, name: str, *, max_bytes: int = 16 * 1024) -> Mapping[str, Any] | None:
        """Return an object, or None when the field is not there."""
        if not isinstance(self.raw.get(name, {}), dict):
            raise BadRequest(f"'{name}' has to be an object.")
        found: dict[str, Any] | None = self.anything(name, max_bytes=max_bytes)
        return found

    def anything(self, name: str, *, max_bytes: int) -> Any:
        """Return any JSON value; None when the field is not there, or null."""
        value = self.raw.get(name)
        size = len(orjson.dumps(value))
        if size > max_bytes:
            raise BadRequest(f"'{name}' has {size:,} bytes and the limit is {max_bytes:,}.")
        return value

    def _get(self, name: str, default: Any) -> Any:
        if name not in self.raw:
            if default is None:
                raise BadRequest(f"'{name}' is missing. Known fields: {', '.join(self._known)}.")
            return default
        return self.raw[name]


def read_body(*known: str, optional: bool = False) -> Body:
    """Return this request's body.

    Raises:
        MediaTypeRefused: it is not said to be JSON.
        BadRequest: it is not a JSON object, is ambiguous, or has unknown fields.
    """
    # Without a body or when it is chunked, there is no Content-Length.
    may_be_large = (request.content_length or 0) > SMALL_BYTES or "Transfer-Encoding" in request.headers
    with current_process().large_work() if may_be_large else nullcontext():
        data = request.get_data(cache=False)
        if not data and optional:
            return Body({}, known)
        if request.mimetype != "application/json":
            found = request.mimetype[:80] or "of no type"
            raise MediaTypeRefused(f"the body is '{found}'; send JSON, with the header Content-Type: application/json.")
        return Body(parse_object(data), known)


def parse_object(data: bytes) -> dict[str, Any]:
    """Return an unambiguous JSON object.

    Besides malformed JSON it refuses duplicate keys, numbers out of range, lone surrogates, NUL, more than 64 levels,
    and more than 50,000 values.
    """
    if not data:
        raise BadRequest("the body is empty; send a JSON object.")
    _require_modest(data)
    try:
        value = orjson.loads(data)  # refuses NaN, infinite numbers, lone surrogates, a byte order mark
        json.loads(data, object_pairs_hook=_refuse_duplicates)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}.") from error
    except (RecursionError, ValueError) as error:
        raise BadRequest("the body is nested too deeply or has a number out of range.") from error
    if not isinstance(value, dict):
        raise BadRequest("the body has to be a JSON object, in braces.")
    _require_plain(value)
    return value


def _require_modest(data: bytes) -> None:
    """Refuse a body with too many values or levels before it is decoded, in time linear in its size."""
    if _count(data) <= MAX_DEPTH:
        return
    bare, texts = TEXT.subn(b"", data, count=MAX_TEXTS)
    if texts == MAX_TEXTS or _count(bare) > MAX_VALUES:
        raise BadRequest(f"the body has more than {MAX_VALUES:,} values; send less, or long material as text.")
    if _depth(bare) > MAX_DEPTH:
        raise BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels.")


def _count(data: bytes) -> int:
    """Return an upper bound of the number of values."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _depth(data: bytes) -> int:
    """Return the deepest nesting of brackets."""
    steps = (1 if bracket in b"[{" else -1 for bracket in data.translate(None, NOT_BRACKETS))
    return max(accumulate(steps), default=0)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object with duplicate keys, since parsers differ on which one counts."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise BadRequest(f"the body has the field '{name[:80]}' twice; send it once.")
        seen.add(name)


def _require_plain(value: Any) -> None:
    """Refuse NUL and numbers that overflowed to infinity; the nesting was limited before."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += (*part, *part.values())
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, str) and "\0" in part:
            raise BadRequest("the body has the character NUL (\\u0000), which a database cannot keep; leave it out.")
        elif isinstance(part, float) and not math.isfinite(part):
            raise BadRequest("the body has a number out of range.")
