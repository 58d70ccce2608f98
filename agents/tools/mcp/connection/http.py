"""A server that is reached by HTTP: the SDK's transports over a client that bounds what the server may send.

A failed request ends the call that made it, and says whether the server may have had it; the SDK's transports would
end the whole session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType

import httpx2
import orjson
from mcp.client.auth.utils import extract_scope_from_www_auth
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agents.errors import McpLoginNeeded, McpServerDown
from agents.tools.mcp.connection.faults import McpFault, of_connecting, of_status
from agents.tools.mcp.connection.traffic import BodyValues, EventValues, Inbound, Outbound, TooMuch, Traffic, watched
from agents.tools.mcp.oauth.tokens import Authorized, OtherLogin, TokenSource
from config.definitions.mcp.server import McpServerDefinition
from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.exchange import causes_of, trusted
from config.egress.informational import PROBLEM, InformationalFlood, bound_informational
from config.egress.operators import require_operators_url
from config.egress.policy import allowed_in
from config.settings import settings
from config.text.visible import visible

CONNECT_S = 10.0
MAX_CONNECTIONS = 256
NO_LOGIN, NO_TOKEN, OTHER_SESSION = -32093, -32094, -32095
UNAUTHORIZED, REFUSED, NOT_SENT, CUT_OFF = -32096, -32097, -32098, -32099
OWN_CODES = range(CUT_OFF, NO_LOGIN + 1)
"""Codes of the errors that stand for an answer of the protocol which no server gave."""
END_S = 2.0
"""Seconds that a server may take to answer that its session ends."""
MAX_SCOPE = 200
"""Characters of the scopes that a server wants, in the error of a call."""
_GATEWAY = (502, 504)
_NOT_ALLOWED = {401: UNAUTHORIZED, 403: REFUSED, 407: REFUSED}
_JSON = "application/json"
_NEVER_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class HttpConnection:
    """The connection to one server; entered, it is a pair of streams for a session."""

    def __init__(
        self,
        server: McpServerDefinition,
        headers: Mapping[str, str],
        traffic: Traffic,
        tokens: TokenSource | None = None,
    ) -> None:
        self._server, self._headers, self._traffic, self._tokens = server, headers, traffic, tokens
        self._opened = AsyncExitStack()
        self._refused: tuple[McpFault, str] | None = None

    async def __aenter__(self) -> tuple[Inbound, Outbound]:
        url = self._server.url or ""
        try:
            await require_operators_url(url, allowed_in(settings().http_allowed_hosts))
        except (UrlRefused, HostNotAllowed) as error:
            raise McpServerDown(str(error)) from error
        if self._tokens is not None:
            await self._tokens.current()  # says what is wrong before a session begins
        async with AsyncExitStack() as opened:
            if self._server.transport == "sse":
                # No scope of anyio: the transport opens some, and leaves them later.
                async with asyncio.timeout(self._server.start_s):
                    entering = sse_client(url, httpx_client_factory=self._client_of_sdk)
                    streams = await opened.enter_async_context(entering)
            else:
                client = await opened.enter_async_context(self._client())
                limit = self._server.max_bytes
                streams = await opened.enter_async_context(
                    streamable_http_client(url, http_client=client, max_sse_event_size=limit)
                )
            self._opened = opened.pop_all()
        return watched(streams[0], streams[1], self._traffic)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, trace)

    said = ""
    """The standard error of a server that is reached by HTTP is not known."""

    def account(self) -> str:
        """Return what was wrong with the answer to the last request, as a part of a sentence."""
        return self._refused[1] if self._refused is not None else ""

    @property
    def fault(self) -> McpFault | None:
        """What was wrong with the answer to the last request."""
        return self._refused[0] if self._refused is not None else None

    def _note(self, refused: tuple[McpFault, str] | None) -> None:
        self._refused = refused

    def _client(self) -> httpx2.AsyncClient:
        bound_informational()
        is_sse = self._server.transport == "sse"
        limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=20)
        inner = httpx2.AsyncHTTPTransport(verify=trusted(), trust_env=False, http2=False, limits=limits)
        allowed = inner if self._tokens is None else Authorized(inner, self._tokens, self._server.url or "")
        return httpx2.AsyncClient(
            transport=BoundedTransport(allowed, self._traffic, ends_session=is_sse, note=self._note),
            headers={**self._headers, "Accept-Encoding": "identity", "User-Agent": "Callboard"},
            timeout=httpx2.Timeout(CONNECT_S, read=None, pool=None),  # a call's own time ends it
            trust_env=False,
        )

    def _client_of_sdk(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return self._client()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Reads no more of an answer than a server may send, and answers itself where the server does not."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        traffic: Traffic,
        *,
        ends_session: bool,
        note: Callable[[tuple[McpFault, str] | None], None],
    ) -> None:
        self._inner, self._traffic, self._ends_session, self._note = inner, traffic, ends_session, note

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":  # the end of a session, which does not wait for the server
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": END_S}
        try:
            answer = await self._inner.handle_async_request(request)
        except OtherLogin:
            return self._own_answer(request, OTHER_SESSION, "the login is another one")
        except McpServerDown as error:  # of the authorization server, or there is no login
            self._note(None)
            return self._own_answer(request, NO_LOGIN if isinstance(error, McpLoginNeeded) else NO_TOKEN, str(error))
        except _NEVER_CONNECTED as error:
            fault, problem = of_connecting(error)
            self._note((fault, problem))
            return self._own_answer(request, NOT_SENT, problem)
        except httpx2.TransportError as error:
            return self._own_answer(request, CUT_OFF, _broken(error))
        if request.method == "POST":
            self._note(_refused(answer))
        if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await answer.aclose()
            return self._own_answer(request, CUT_OFF, "it compressed its answer, which was not asked for")
        if answer.status_code in _GATEWAY:
            await answer.aclose()
            return self._own_answer(request, CUT_OFF, f"its gateway got no answer (HTTP {answer.status_code})")
        if answer.status_code in _NOT_ALLOWED:
            await answer.aclose()
            return self._own_answer(request, _NOT_ALLOWED[answer.status_code], _refusal(answer))
        if not self._ends_session and answer.is_success and not _has_message(answer) and _is_call(request):
            await answer.aclose()
            return self._own_answer(request, CUT_OFF, _no_message(answer))
        if self._ends_session and request.method == "POST" and answer.status_code >= 400:
            self._traffic.end(f"it refused a message with HTTP {answer.status_code}")
        return self._bounded(answer)

    def _own_answer(self, request: httpx2.Request, code: int, problem: str) -> httpx2.Response:
        """Return the answer that ends one call; the older transport reads no answers, so there the session ends."""
        if self._ends_session:
            self._traffic.end(problem.rstrip("."))
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": problem}}
        headers = {"content-type": "application/json"}
        return httpx2.Response(503, headers=headers, content=orjson.dumps(error), request=request)

    def _bounded(self, answer: httpx2.Response) -> httpx2.Response:
        is_stream = _kind(answer).startswith("text/event-stream")
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        body = _Body(answer.stream, self._traffic, None if is_stream else self._traffic.max_bytes)
        if is_stream:  # always UTF-8; a server that names another encoding would hide what is counted
            answer.headers["content-type"] = "text/event-stream; charset=utf-8"
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=body, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _broken(error: httpx2.TransportError) -> str:
    if any(isinstance(cause, InformationalFlood) for cause in causes_of(error)):
        return f"it {PROBLEM}"
    return f"the connection broke ({type(error).__name__})"


def _refusal(answer: httpx2.Response) -> str:
    """Return why the server does not accept the credentials, and what a person can do where it says so."""
    scope = extract_scope_from_www_auth(answer)
    if answer.status_code != 403 or scope is None:
        has_logins = "resource_metadata" in answer.headers.get("www-authenticate", "")
        remedy = "; it has an authorization server, for which its file needs `oauth: {}`" if has_logins else ""
        return f"it does not accept the credentials (HTTP {answer.status_code}){remedy}"
    remedy = "add it to `scope` under `oauth` in its file, and log in again"
    return f"it wants the scope '{scope[:MAX_SCOPE]}' (HTTP 403): {remedy}"


def _refused(answer: httpx2.Response) -> tuple[McpFault, str] | None:
    """Return what is wrong with an answer to a message, before it is read; None where nothing is."""
    status = answer.status_code
    if status in _NOT_ALLOWED:
        return of_status(status), _refusal(answer)
    if status >= 300 and _kind(answer) != _JSON:  # JSON may be an error of the protocol, which says more
        where = " and refers to another address" if status < 400 else ""
        return of_status(status), f"it answered HTTP {status}{where}"
    if status == 200 and not _has_message(answer):
        return McpFault.WRONG_ADDRESS, _no_message(answer)
    return None


def _is_call(request: httpx2.Request) -> bool:
    """Return whether an answer has to have a message; none follows a notification, nor an answer of ours."""
    if request.method != "POST":
        return False
    message = orjson.loads(request.content)
    return "id" in message and "method" in message


def _has_message(answer: httpx2.Response) -> bool:
    """Return whether the SDK looks for a message in a successful answer."""
    return answer.status_code != 202 and _kind(answer).startswith((_JSON, "text/event-stream"))


def _no_message(answer: httpx2.Response) -> str:
    content_kind = visible(_kind(answer)[:80]) or "a body without a type"
    return f"it answered HTTP {answer.status_code} with {content_kind}, which is no message of the protocol"


def _kind(answer: httpx2.Response) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, or what the server streams, up to the limits."""

    def __init__(self, inner: httpx2.AsyncByteStream, traffic: Traffic, max_bytes: int | None) -> None:
        self._inner, self._traffic, self._max_bytes = inner, traffic, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        values = EventValues(self._traffic.max_bytes) if self._max_bytes is None else BodyValues()
        try:
            async for piece in self._inner:
                size += len(piece)
                if self._max_bytes is not None and size > self._max_bytes:
                    raise httpx2.StreamError(f"it sent a message of more than {self._max_bytes:,} bytes")
                self._traffic.arrived(len(piece))
                values.arrived(piece)
                yield piece
            values.ended()
        except TooMuch as error:
            self._traffic.end(str(error))
            raise httpx2.StreamError(str(error)) from error
        except httpx2.TransportError as error:
            # A stream that breaks may be resumed; of a body the SDK takes this error alone for its caller's.
            if self._max_bytes is None:
                raise
            raise httpx2.StreamError(f"the connection broke ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._inner.aclose()
