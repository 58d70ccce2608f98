"""Tools that send HTTP requests to public hosts, and to those that the operator allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from agents.tools.call_context import current_call
from agents.tools.spans.collector import request_span
from agents.tools.tool import keeps_hosts, tool
from config.effects import OUTWARD, UNTRUSTED
from config.egress.errors import RequestRefused
from config.egress.exchange import HttpAnswer
from config.egress.fetch import Fetcher
from config.egress.lookup import resolver_of
from config.egress.policy import EgressPolicy, allowed_in, hosts_in
from config.egress.request import (
    MAX_BODY_BYTES,
    MAX_HEADER_CHARS,
    MAX_HEADERS,
    Outgoing,
    checked_body,
    checked_headers,
)
from config.egress.target import MAX_URL, parse_target
from config.errors import ToolCutOff
from config.settings import settings

Url = Annotated[str, Field(max_length=MAX_URL)]
Headers = Annotated[dict[str, Annotated[str, Field(max_length=MAX_HEADER_CHARS)]], Field(max_length=MAX_HEADERS)]
MAX_TEXT = 200_000
"""Characters of a body that the result has."""
MAX_VALUE = 1000
"""Characters of one header."""
REMEDY = (
    "Ask for another address, or have the operator add the host, and the network of a private one, to "
    "CALLBOARD_HTTP_ALLOWED_HOSTS."
)
NO_ANSWER = (502, 504)
"""Statuses of a gateway: the request may have taken effect behind it."""

_SHOWN = frozenset(
    """
    content-type content-length content-language content-range last-modified etag location retry-after date link allow
    cache-control x-total-count ratelimit ratelimit-limit ratelimit-remaining ratelimit-reset x-ratelimit-limit
    x-ratelimit-remaining x-ratelimit-reset deprecation sunset
    """.split()
)
"""Headers of an answer that the result has; cookies and the server's own are left out."""
_CHARSETS = frozenset(
    """
    utf-8 utf8 us-ascii ascii iso-8859-1 latin-1 latin1 iso-8859-2 iso-8859-15 windows-1250 windows-1251 windows-1252
    utf-16 utf-16le utf-16be shift_jis euc-jp euc-kr gb2312 gbk gb18030 big5 koi8-r
    """.split()
)
"""Charsets that are decoded in linear time; Python knows codecs that are not."""
_TEXT_TYPES = ("text/", "application/xml", "application/javascript", "application/x-www-form-urlencoded", "image/svg")


@keeps_hosts
@tool(effect="pure", timeout_s=40, labels={UNTRUSTED, OUTWARD})
async def http_get(url: Url, headers: Headers | None = None, method: Literal["GET", "HEAD"] = "GET") -> dict[str, Any]:
    """Read a public web address: get its status, its main headers, and its text or JSON. Redirects are followed.

    Args:
        url: an absolute address, for example https://example.org/prices?day=1
        headers: headers to send, such as Accept.
        method: HEAD for the headers alone.
    """
    return await _answered(method, url, headers or {}, b"")


@keeps_hosts
@tool(effect="unsafe", timeout_s=40, labels={UNTRUSTED, OUTWARD})
async def http_request(
    url: Url,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST",
    headers: Headers | None = None,
    body: Annotated[str, Field(max_length=MAX_BODY_BYTES)] | None = None,
    json: Any = None,
) -> dict[str, Any]:
    """Send an HTTP request to a public web address, which may change something there.

    Args:
        url: an absolute address, for example https://example.org/orders
        method: the method.
        headers: headers to send, such as Authorization.
        body: the body as text; its Content-Type is text/plain unless the headers have another.
        json: the body as JSON data, in place of body.
    """
    content, kind = _content(body, json)
    if content and method in ("GET", "HEAD"):
        raise RequestRefused(f"{method} has no body; use POST, or put the values into the URL.")
    chosen = dict(headers or {})
    names = {name.lower() for name in chosen}
    if "idempotency-key" in names:
        raise RequestRefused("the header Idempotency-Key is set by Callboard itself; leave it out.")
    if content and "content-type" not in names:
        chosen["Content-Type"] = kind
    if method not in ("GET", "HEAD"):
        chosen |= current_call().headers
    return await _answered(method, url, chosen, content)


async def _answered(method: str, url: str, headers: Mapping[str, str], content: bytes) -> dict[str, Any]:
    request = Outgoing(
        method=method,
        target=parse_target(url),
        headers=checked_headers(headers.items()),
        body=checked_body(content),
    )
    answer = await _fetcher().fetch(request)
    if answer.status in NO_ANSWER and not request.is_read:
        raise ToolCutOff(f"{request.target.host} answered HTTP {answer.status}: its gateway got no answer.")
    return to_result(answer)


def _fetcher() -> Fetcher:
    """Return what makes the requests of this call: to hosts that the deployment, the tenant and the tool all allow."""
    call, chosen = current_call(), settings()
    own = chosen.tenants.get(call.tenant)
    narrower = [allowed_in(own.http_allowed_hosts)] if own is not None and own.http_allowed_hosts else []
    if call.hosts is not None:
        narrower.append(hosts_in(call.hosts))
    policy = EgressPolicy(allowed=allowed_in(chosen.http_allowed_hosts), within=tuple(narrower), remedy=REMEDY)
    return Fetcher(policy=policy, resolver=resolver_of(f"the tenant {call.tenant}"), span=request_span)


def _content(body: str | None, data: Any) -> tuple[bytes, str]:
    if body is not None and data is not None:
        raise RequestRefused("the request has both body and json; give one of them.")
    if data is not None:
        try:
            return orjson.dumps(data), "application/json"
        except TypeError as error:
            raise RequestRefused(f"the data of json cannot be written as JSON: {str(error)[:200]}.") from error
    return (body or "").encode("utf-8", "replace"), "text/plain; charset=utf-8"


def to_result(answer: HttpAnswer) -> dict[str, Any]:
    """Return an answer as the model gets it: JSON where it is JSON, else text; a note says what is missing."""
    headers = {name: value[:MAX_VALUE] for name, value in answer.headers.items() if name in _SHOWN}
    result: dict[str, Any] = {"status": answer.status, "url": answer.url, "headers": headers}
    name, notes = answer.headers.get("content-type", "").lower(), list(answer.notes)
    media = name.partition(";")[0].strip()
    if media.endswith(("/json", "+json")) and not notes and len(answer.body) <= MAX_TEXT:
        try:
            return result | {"json": orjson.loads(answer.body)}
        except orjson.JSONDecodeError:
            notes.append("the body is not the JSON that its Content-Type says")
    if _is_text(media, answer.body):
        text = _decoded(answer.body, name)
        if len(text) > MAX_TEXT:
            notes.append(f"the text has {len(text):,} characters; these are the first {MAX_TEXT:,}")
        result["text"] = text[:MAX_TEXT]
    elif answer.body:
        notes.append(f"the body is not text ({len(answer.body):,} bytes) and is not shown")
    return result | ({"note": "; ".join(notes)} if notes else {})


def _is_text(media: str, body: bytes) -> bool:
    return (
        media.startswith(_TEXT_TYPES) or media.endswith(("json", "+xml")) or (bool(body) and b"\0" not in body[:8192])
    )


def _decoded(body: bytes, content_type: str) -> str:
    charset = content_type.partition("charset=")[2].partition(";")[0].strip(" \"'")
    return body.decode(charset if charset in _CHARSETS else "utf-8", "replace")
