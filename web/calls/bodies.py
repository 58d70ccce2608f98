"""Request bodies: strict JSON, mostly objects; every other body is refused. `web/calls` checks their fields."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from itertools import accumulate
from typing import Any

import orjson
from flask import request

from config.errors import BadRequest
from web.errors import MEDIA_TYPE_REFUSED
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


def read_object(*, optional: bool = False, verifies: Callable[[bytes], object] = lambda data: None) -> dict[str, Any]:
    """Return the JSON object in this request's body; an empty one for no body where it is optional.

    ``verifies`` gets the bytes before anything is made of them, and raises if they are not to be used.

    Raises:
        MEDIA_TYPE_REFUSED: it is not said to be JSON.
        BadRequest: it is not a JSON object, or is ambiguous.
    """
    return _body(parse_object, optional=optional, verifies=verifies) or {}


def read_value(*, verifies: Callable[[bytes], object] = lambda data: None) -> Any:
    """Return the JSON value in this request's body, of any kind; None for no body.

    Raises:
        MEDIA_TYPE_REFUSED: it is not said to be JSON.
        BadRequest: it is no JSON, or is ambiguous.
    """
    return _body(parse_value, optional=True, verifies=verifies)


def _body(parse: Callable[[bytes], Any], *, optional: bool, verifies: Callable[[bytes], object]) -> Any:
    """Return what ``parse`` makes of this request's body; None for no body where it is optional."""
    # Without a body or when it is chunked, there is no Content-Length.
    may_be_large = (request.content_length or 0) > SMALL_BYTES or "Transfer-Encoding" in request.headers
    with current_process().large_work() if may_be_large else nullcontext():
        data = request.get_data(cache=False)
        verifies(data)
        if not data and optional:
            return None
        _require_uncompressed()
        if request.mimetype != "application/json":
            media_type = request.mimetype[:80] or "of no type"
            raise MEDIA_TYPE_REFUSED(
                f"the body is '{media_type}'; send JSON, with the header Content-Type: application/json."
            )
        return parse(data)


def _require_uncompressed() -> None:
    """Refuse a body that is said to be compressed, since nothing here decompresses one."""
    for name, plain in (("Content-Encoding", "identity"), ("Transfer-Encoding", "chunked")):
        if (encoding := request.headers.get(name, plain).lower()) != plain:
            raise MEDIA_TYPE_REFUSED(f"the body has the {name} '{encoding[:80]}'; send it without compression.")


def parse_object(data: bytes) -> dict[str, Any]:
    """Return an unambiguous JSON object; see ``parse_value``."""
    if not data:
        raise BadRequest("the body is empty; send a JSON object.")
    value = parse_value(data)
    if not isinstance(value, dict):
        raise BadRequest("the body has to be a JSON object, in braces.")
    return value


def parse_value(data: bytes) -> Any:
    """Return an unambiguous JSON value.

    Besides malformed JSON it refuses duplicate keys, numbers out of range, lone surrogates, NUL, more than 64 levels,
    and more than 50,000 values.
    """
    _require_modest(data)
    try:
        value = orjson.loads(data)  # refuses NaN, infinite numbers, lone surrogates, a byte order mark
        json.loads(data, object_pairs_hook=_refuse_duplicates)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}.") from error
    except (RecursionError, ValueError) as error:
        raise BadRequest("the body is nested too deeply or has a number out of range.") from error
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
