"""Types of parameters and headers: numbers, cursors, places in lists, idempotency keys, entity tags, preferences.

Entity tags are those of ``If-None-Match`` (RFC 9110), preferences those of ``Prefer: wait`` (RFC 7240).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import orjson
from flask import Response, request
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core.core_schema import CoreSchema, int_schema, with_info_before_validator_function
from werkzeug.http import parse_etags

from bus.journal.clients import IdempotencyKey
from bus.journal.readers import ORDERS, MessagesUntil, RunPlace, StepPlace, parse_cursor
from config.errors import BadRequest
from config.ids import canonical_digest
from config.text.stored_texts import stored_name
from web.calls.fields import PARAMETER, Input, Maybe

MAX_KEY_CHARS = 255
WHOLE = r"-?[0-9]{1,18}"
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
"""A time as RFC 3339 writes it, besides its ranges."""


class RowPlace(NamedTuple):
    """Where a list continues: the time (ms) and the id of the last row seen."""

    before_ms: int
    before_id: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number between two limits, in an address or a body; text is a number in an address alone."""

    least: int
    most: int

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        number = int_schema(ge=self.least, le=self.most, strict=True)
        return with_info_before_validator_function(_whole, number)


def _whole(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number: 5.0 is 5
        return int(value)
    is_number = info.context == PARAMETER and isinstance(value, str) and re.fullmatch(WHOLE, value, re.ASCII)
    return int(value) if is_number else value


def _message_place(text: str) -> tuple[int, int]:
    if not text:
        return 0, 0
    if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", text, re.ASCII):
        raise BadRequest(f"'{text[:40]}' is not a place in a thread; send back `next` of the page before.")
    turn, number = text.split(".")
    return int(turn), int(number)


def _past_state(text: str) -> MessagesUntil:
    if not text:
        return MessagesUntil()
    if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        return MessagesUntil(number=int(text))
    try:
        time = datetime.fromisoformat(text.upper())
        if TIME.fullmatch(text):
            return MessagesUntil(time_ms=int(time.timestamp() * 1000))
    except (ValueError, OverflowError):
        pass
    raise BadRequest(
        f"'{text[:40]}' is no past state of a thread; send the number of a message, or a time such as "
        "2026-11-22T21:00:00Z (a + in it has to be written %2B)."
    )


def _list_place(text: Any) -> RowPlace | None:
    if text == "":
        return None
    try:
        ms, row_id = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if type(ms) is int and isinstance(row_id, str) and abs(ms) < 2**53 and "\0" not in row_id:
            return RowPlace(ms, row_id)
    except (binascii.Error, ValueError, TypeError):
        pass
    raise BadRequest("`before` is not a place in this list; send back `next` of the page before.")


def _run_place(text: Any) -> RunPlace | None:
    if text == "":
        return None
    try:
        value, run_id, *orders = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        order = orders[0] if orders else ORDERS[0]  # an earlier release had that order alone
        is_number = type(value) in ((int, float) if order == "dearest" else (int,))
        if is_number and abs(value) < 2**53 and isinstance(run_id, str) and order in ORDERS and "\0" not in run_id:
            return RunPlace(value, run_id, order)
    except (binascii.Error, ValueError, TypeError):
        pass
    raise BadRequest("`before` is not a place in a list of runs; send back `next` of the page before.")


def run_place_text(place: RunPlace) -> str:
    """Return a place in a list of runs as clients send it back."""
    return base64.urlsafe_b64encode(orjson.dumps(list(place))).decode().rstrip("=")


_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _moment(text: str) -> int | None:
    """Return a time in ms since 1970, or a length back from now as a negative number; None for an empty text."""
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,6}[smhd]", text, re.ASCII):
        return -int(text[:-1]) * _UNITS_MS[text[-1]] or -1
    try:
        time = datetime.fromisoformat(text.upper())
        if TIME.fullmatch(text):
            return max(0, int(time.timestamp() * 1000))
    except (ValueError, OverflowError):
        pass
    raise BadRequest(
        f"'{text[:40]}' is no time; send one such as 2026-11-22T21:00:00Z (a + in it has to be written %2B), or a "
        "length back from now: 30m, 1h, 7d."
    )


def _step_place(text: str) -> StepPlace | None:
    if not text:
        return None
    if not re.fullmatch(r"[01]\.[0-9]{1,9}", text, re.ASCII):
        raise BadRequest(f"'{text[:40]}' is not a place among a run's steps; send back `next` of the page before.")
    group, number = text.split(".")
    return StepPlace(int(group), int(number))


def require_key(text: str) -> str:
    """Return an idempotency key that can be kept.

    Raises:
        BadRequest: it is none, or has a credential.
    """
    if not re.fullmatch(rf"[\x20-\x7e]{{1,{MAX_KEY_CHARS}}}", text):
        raise BadRequest(f"an Idempotency-Key has 1 to {MAX_KEY_CHARS} printable ASCII characters.")
    return stored_name(text, "the Idempotency-Key")


def _at_most(max_bytes: int) -> Callable[[Any, ValidationInfo], Any]:
    def check(value: Any, info: ValidationInfo) -> Any:
        size = len(orjson.dumps(value))
        if size > max_bytes:
            raise BadRequest(f"'{info.field_name}' has {size:,} bytes and the limit is {max_bytes:,}.")
        return value

    return check


def sized(max_bytes: int) -> AfterValidator:
    """Return the check that a value has at most this many bytes as JSON."""
    return AfterValidator(_at_most(max_bytes))


def choice(*values: str) -> Any:
    """Return the schema of a parameter that has one of these values."""
    return WithJsonSchema({"type": "string", "enum": [*values, ""]})


Filter = Annotated[str, Field(max_length=200)]
"""A text that restricts a list; an empty one does not."""
EventCursor = Annotated[
    int, PlainValidator(parse_cursor), WithJsonSchema({"type": "string", "pattern": "^[0-9]{0,19}$"})
]
"""The number of an event; an empty text is the beginning."""
MessagePlace = Annotated[
    tuple[int, int],
    PlainValidator(_message_place),
    WithJsonSchema({"type": "string", "pattern": r"^([0-9]{1,9}\.[0-9]{1,9})?$"}),
]
"""The turn and the number of a message."""
PastState = Annotated[
    MessagesUntil,
    PlainValidator(_past_state),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": "^[0-9]{0,9}$"}, {"type": "string", "format": "date-time"}]}
    ),
]
"""A past state of a thread; an empty text is now."""
ListPlace = Annotated[
    RowPlace | None, PlainValidator(_list_place), WithJsonSchema({"type": "string", "format": "list-place"})
]
RunListPlace = Annotated[
    RunPlace | None, PlainValidator(_run_place), WithJsonSchema({"type": "string", "format": "list-place"})
]
"""A run's place in a list of runs."""
Moment = Annotated[
    int | None,
    PlainValidator(_moment),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": "^([0-9]{1,6}[smhd])?$"}, {"type": "string", "format": "date-time"}]}
    ),
]
"""A time, or a length back from now: seconds, minutes, hours or days."""
StepAfter = Annotated[
    StepPlace | None,
    PlainValidator(_step_place),
    WithJsonSchema({"type": "string", "pattern": r"^([01]\.[0-9]{1,9})?$"}),
]
"""A step's place in a list of steps."""
KeyText = Annotated[
    str,
    PlainValidator(require_key),
    WithJsonSchema({"type": "string", "pattern": rf"^[\x20-\x7e]{{1,{MAX_KEY_CHARS}}}$"}),
]


class Repeatable(Input):
    """The headers of a call that may be sent again."""

    key: Maybe[KeyText] = Field(None, alias="Idempotency-Key")
    """Makes a repeated request the same request: it gets the first one's answer, as long as its run or event exists."""

    def idempotency(self, body: Input) -> IdempotencyKey | None:
        """Return the key of the current request, if the client sent one."""
        if self.key is None:
            return None
        digest = canonical_digest(dict(body.given))
        return IdempotencyKey(key=self.key, method=request.method, path=request.path, body_digest=digest)


def place_of(position: RowPlace | None) -> Mapping[str, Any]:
    """Return where a list continues as the arguments of its query; empty for the first page."""
    return position._asdict() if position is not None else {}


def next_place(rows: Sequence[Mapping[str, Any]], limit: int, at: str, row_id: str) -> dict[str, str]:
    """Return ``{"next": …}`` if there may be another page after these rows."""
    if len(rows) < limit:
        return {}
    last = rows[-1]
    ms = round(datetime.fromisoformat(last[at]).timestamp() * 1000)
    return {"next": base64.urlsafe_b64encode(orjson.dumps([ms, last[row_id]])).decode().rstrip("=")}


MAX_WAIT_S = 300


def _preferred_wait(header: str) -> int:
    """Return the seconds in ``wait=N``, at most ``MAX_WAIT_S``; 0 where the header has none, which is no error."""
    for preference in header.lower().split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        seconds = value.strip().strip('"')
        if name.strip() == "wait" and seconds.isascii() and seconds.isdigit():
            return min(int(seconds[:9]), MAX_WAIT_S)
    return 0


PreferredWait = Annotated[int, PlainValidator(_preferred_wait), WithJsonSchema({"type": "string"})]


class Preferring(Input):
    """The headers of a call that can wait."""

    wait_s: PreferredWait = Field(0, alias="Prefer")
    """``wait=N``: wait up to N seconds, 300 at most; ``Preference-Applied`` says for how many it was ready to wait."""


class Conditional(Input):
    """The headers of a call whose answer has an entity tag."""

    if_none_match: Maybe[str] = Field(None, alias="If-None-Match")
    """The ``ETag`` of an earlier answer; 304 if this one is equal."""

    def answer(self, body: Any) -> Response:
        """Return the body with its entity tag, or 304 where the client has this body.

        The tag is a digest of what this principal sees, so it tells others nothing. The answer is still not for
        caches: clients keep the tag themselves.
        """
        data = orjson.dumps(body)
        tag = blake2b(data, digest_size=12).hexdigest()
        if self.if_none_match is not None and parse_etags(self.if_none_match).contains_weak(tag):
            return Response(status=304, headers={"ETag": f'"{tag}"'})
        return Response(data, content_type="application/json", headers={"ETag": f'"{tag}"'})


def applied(wait_s: int) -> dict[str, str]:
    """Return the header that says that the call waited as preferred; empty where it did not.

    Also where the answer was there at once: the preference is the most that the client waits (RFC 7240, 4.3).
    """
    return {"Preference-Applied": f"wait={wait_s}"} if wait_s else {}
