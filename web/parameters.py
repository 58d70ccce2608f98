"""Parameters in a request's URL and headers: limits, cursors, idempotency keys."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from flask import request

from bus.journal import IdempotencyKey, canonical_digest, parse_cursor
from config.errors import BadRequest
from config.spelling import did_you_mean

MAX_KEY_CHARS = 255


def only(*known: str) -> None:
    """Refuse unknown parameters, since a misspelt filter would otherwise show everything."""
    require_known("parameter", request.args, known)


def require_known(kind: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Refuse the first name that is not known."""
    for name in names:
        if name not in known:
            raise BadRequest(
                f"there is no {kind} '{name[:80]}' here.{did_you_mean(name[:80], known)} "
                f"Known {kind}s: {', '.join(known) or 'none'}."
            )


def limited(name: str, value: str, max_chars: int) -> str:
    """Return the value if it is short enough."""
    if len(value) > max_chars:
        raise BadRequest(f"'{name}' has {len(value):,} characters and the limit is {max_chars:,}.")
    return value


def text(name: str, max_chars: int = 200) -> str | None:
    """Return a parameter, or None if it is missing or empty."""
    return limited(name, request.args.get(name, ""), max_chars) or None


def number(name: str, default: int, least: int, most: int) -> int:
    """Return a whole number between ``least`` and ``most``."""
    value = request.args.get(name)
    if value is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,9}", value, re.ASCII) or not least <= int(value) <= most:
        raise BadRequest(f"'{name}' has to be a whole number from {least} to {most}.")
    return int(value)


def event_cursor() -> int:
    """Return the number of the last event the client saw; the header, which browsers set, takes precedence.

    Raises:
        CursorInvalid: it is not an event number.
    """
    header = request.headers.get("Last-Event-ID")
    return parse_cursor(header or request.args.get("after") or request.args.get("last_event_id"))


def message_cursor() -> tuple[int, int]:
    """Return ``(turn, number)`` of the last message the client saw."""
    value = text("after")
    if value is None:
        return 0, 0
    if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", value, re.ASCII):
        raise BadRequest(f"'{value[:40]}' is not a place in a thread; send back `next` of the page before.")
    turn, place = value.split(".")
    return int(turn), int(place)


def list_cursor() -> dict[str, Any]:
    """Return where a list continues: ``before_ms`` and ``before_id`` of the last row seen; empty for the first page."""
    value = text("before", 400)
    if value is None:
        return {}
    try:
        ms, row_id = orjson.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        if type(ms) is int and isinstance(row_id, str) and abs(ms) < 2**53 and "\0" not in row_id:
            return {"before_ms": ms, "before_id": row_id}
    except (binascii.Error, ValueError, TypeError):
        pass
    raise BadRequest("`before` is not a place in this list; send back `next` of the page before.")


def next_place(rows: Sequence[Mapping[str, Any]], limit: int, at: str, row_id: str) -> dict[str, str]:
    """Return ``{"next": …}`` if there may be another page after these rows."""
    if len(rows) < limit:
        return {}
    last = rows[-1]
    ms = round(datetime.fromisoformat(last[at]).timestamp() * 1000)
    return {"next": base64.urlsafe_b64encode(orjson.dumps([ms, last[row_id]])).decode().rstrip("=")}


def idempotency_key(body: Mapping[str, Any]) -> IdempotencyKey | None:
    """Return the idempotency key of this request, if the client sent one."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not re.fullmatch(rf"[\x20-\x7e]{{1,{MAX_KEY_CHARS}}}", key):
        raise BadRequest(f"an Idempotency-Key has 1 to {MAX_KEY_CHARS} printable ASCII characters.")
    return IdempotencyKey(key=key, method=request.method, path=request.path, body_digest=canonical_digest(dict(body)))
