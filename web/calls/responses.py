"""The answers of a call for OpenAPI: its own, and the errors that it or every call may have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from bus.identity.errors import FORBIDDEN
from config.database import errors as database
from config.definitions.errors import DefinitionUnreadable
from config.errors import ROOM_TAKEN, BadRequest, ErrorKind, SettingInvalid
from web.calls.call import HttpCall, Media
from web.calls.fields import ProblemDetails
from web.errors import (
    CSRF_REFUSED,
    HOST_REFUSED,
    MEDIA_TYPE_REFUSED,
    ORIGIN_REFUSED,
    SECRET_IN_ADDRESS,
    TOO_MANY_REQUESTS,
    Overloaded,
    Unauthenticated,
)
from web.problems import BY_STATUS

Json = dict[str, Any]
SchemaOf = Callable[[Any], Json]
EVERYWHERE: tuple[ErrorKind, ...] = (
    BadRequest,
    HOST_REFUSED,
    ORIGIN_REFUSED,
    CSRF_REFUSED,
    SECRET_IN_ADDRESS,
    Unauthenticated,
    FORBIDDEN,
    TOO_MANY_REQUESTS,
    Overloaded,
    database.SchemaOld,
    database.SchemaNew,
    database.DatabaseUnreachable,
    database.DatabaseBusy,
    database.DatabaseFull,
    database.DatabaseReadOnly,
    database.DatabaseDamaged,
    SettingInvalid,
    DefinitionUnreadable,
    ROOM_TAKEN,
)
"""The errors that every call may have."""
UNSEEN = (400, 408, 414, 431, 500, 503)
"""The errors of requests that no function saw (`web/problems.py`)."""


def codes_of(call: HttpCall | None) -> dict[int, list[str]]:
    """Return the codes of the errors that a call may have, by status; without a call those of every call."""
    by_status: dict[int, list[str]] = defaultdict(list)
    statuses = list(UNSEEN)
    errors = list(EVERYWHERE)
    if call is not None:
        statuses += [404] * bool(call.path) + [413, 415] * (call.body is not None)
        errors += [*call.problems, *([MEDIA_TYPE_REFUSED] if call.body is not None else [])]
    for error in [*errors, *(BY_STATUS[status] for status in statuses)]:
        if error.code not in by_status[error.status]:
            by_status[error.status].append(error.code)
    return dict(sorted(by_status.items()))


def responses(call: HttpCall, schema_of: SchemaOf) -> Json:
    """Return the responses of a call; those that every call has are references."""
    by_status: Json = {}
    common = codes_of(None)
    for status, codes in codes_of(call).items():
        is_common = codes == common.get(status) and status not in call.answers
        reference = {"$ref": f"#/components/responses/{status}"}
        by_status[str(status)] = reference if is_common else _problem(status, codes, schema_of)
    for status, media in call.answers.items():
        answer = _answer(status, media, schema_of)
        answer |= {"headers": headers} if (headers := _headers(call, status)) else {}
        answer.setdefault("content", {}).update(by_status.get(str(status), {}).get("content", {}))
        by_status[str(status)] = {name: value for name, value in answer.items() if value}
    return dict(sorted(by_status.items()))


def _headers(call: HttpCall, status: int) -> Json:
    """Return the headers of an answer: those that follow from what the call takes and answers, and its own."""
    headers = {"ETag": "Changes when the body does."} if 304 in call.answers and status in (200, 304) else {}
    if call.body is not None and status in (201, 202) and not call.path:
        headers["Location"] = "Where the new object is."
    if call.headers is not None and "wait_s" in call.headers.model_fields and status in (200, 202, 304):
        headers["Preference-Applied"] = (
            "``wait=N``: for how many seconds the call was ready to wait, where it was asked to."
        )
    named = {name: _header(text) for name, text in (headers | dict(call.sends)).items()}
    return named | HEADERS_OF_PROBLEMS.get(status, {})


def _header(text: str, kind: str = "string", *, required: bool = False) -> Json:
    return {"description": text, "required": required, "schema": {"type": kind}}


def common_responses(schema_of: SchemaOf) -> Json:
    """Return the responses that every call has."""
    return {str(status): _problem(status, codes, schema_of) for status, codes in codes_of(None).items()}


_RETRY_AFTER = {"Retry-After": _header("Seconds to wait before another try.", "integer", required=True)}
HEADERS_OF_PROBLEMS: Mapping[int, Json] = {
    401: {"WWW-Authenticate": _header("The way to send a credential.", required=True)},
    408: _RETRY_AFTER,
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
    507: _RETRY_AFTER,
}
"""By status; each such answer has them."""


def _problem(status: int, codes: list[str], schema_of: SchemaOf) -> Json:
    schema = {"allOf": [schema_of(ProblemDetails), {"properties": {"code": {"enum": codes}}}]}
    body: Json = {"description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}"}
    body |= {"headers": HEADERS_OF_PROBLEMS[status]} if status in HEADERS_OF_PROBLEMS else {}
    body["content"] = {"application/problem+json": {"schema": schema}}
    return body


def _answer(status: int, media: Media, schema_of: SchemaOf) -> Json:
    by_type: Mapping[str, Any] = media if isinstance(media, Mapping) else {"application/json": media} if media else {}
    body: Json = {"description": HTTPStatus(status).phrase}
    body["content"] = {name: _media(name, schema_of(model)) for name, model in by_type.items()}
    return body


def _media(name: str, schema: Json) -> Json:
    """Return a body of one media type; of a stream one event, with ``itemSchema`` as OpenAPI 3.2 has it."""
    if name != "text/event-stream":
        return {"schema": schema}
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    fields = {"event": {"type": "string"}, "id": {"type": "string"}, "data": data}
    return {"schema": {"type": "object", "properties": fields}, "x-itemSchema": schema}
