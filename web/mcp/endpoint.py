"""`/mcp`: the MCP server over streamable HTTP, and the metadata with which its clients find their issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import NotFound

from config.settings import Settings
from config.tracing import current_trace_id
from web.auth.authentication import current_caller
from web.auth.validity import can_end
from web.bodies import read_object
from web.feeds.viewers import Viewer, Viewers
from web.process import WebProcess, current_process
from web.sse import hand_over, lent_socket

if TYPE_CHECKING:
    from web.mcp.application import HttpServer
    from web.mcp.exchange import AsgiExchange

mcp = Blueprint("mcp", __name__)

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
"""RFC 9728, section 3.1: the path of a resource follows."""
QUICK_S = 0.03
"""Seconds that the request's thread waits for an answer; then the loop takes the connection over (decision 69)."""
SESSION = "Mcp-Session-Id"
EXTENSION = "callboard_mcp"


@mcp.post(PATH)
def endpoint() -> Response:
    """Answer one message of a client. There are no sessions, so one that is named is not known."""
    if SESSION in request.headers:
        raise NotFound("there is no such session: this server has none; begin anew without Mcp-Session-Id.")
    body = request.get_data()
    read_object()  # refuses another content type, and JSON that is malformed or too large
    process = current_process()
    viewers = process.hub.viewers
    viewers.require_room(current_caller().principal)
    lent = lent_socket(request.environ)
    work = _server(process).exchange(_scope(), body, _acting(), QUICK_S if lent is not None else None)
    exchange = process.journal.loop.run(work)
    if exchange.is_over:
        return Response(exchange.body, exchange.status, dict(exchange.headers))
    return _Continued(viewers, exchange)


@mcp.get(METADATA)
@mcp.get(f"{METADATA}{PATH}")
def metadata() -> Response:
    """Return which issuer's tokens are taken (RFC 9728); 404 where there is none, only API keys."""
    settings = current_process().settings
    if not settings.service_issuer:
        raise NotFound
    found = {
        "resource": f"{_origin(settings)}{PATH}",
        "authorization_servers": [settings.service_issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Callboard",
    }
    return Response(orjson.dumps(found), content_type="application/json")


@mcp.after_request
def name_issuer(answer: Response) -> Response:
    """Let a client without a credential know where the metadata is."""
    settings = current_process().settings
    if answer.status_code == 401 and settings.service_issuer:
        address = f"{_origin(settings)}{METADATA}{PATH}"
        answer.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{address}"'
    return answer


class _Continued(Response):
    """An answer that the loop continues on the client's socket."""

    def __init__(self, viewers: Viewers, exchange: AsgiExchange) -> None:
        super().__init__()
        del self.headers["Content-Type"]
        self._viewers = viewers
        self._exchange = exchange
        self._caller = current_caller()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        lent = lent_socket(environ)
        assert lent is not None
        self.headers.pop("Content-Length", None)
        self._exchange.continue_with(self.headers)
        ending = self._caller if can_end(self._caller) else None
        viewer = Viewer(self._viewers, lambda: self._exchange, 0, ending, self._caller.principal)
        viewer.head = b""
        hand_over(lent, self._viewers, viewer)


def _server(process: WebProcess) -> HttpServer:
    """Return the server of this process, made at the first request."""
    from web.mcp.application import HttpServer  # the SDK, which few requests need

    by_journal: dict[Any, HttpServer] = current_app.extensions.setdefault(EXTENSION, {})
    found = by_journal.get(process.journal)  # after a fork the journal is another
    return found if found is not None else by_journal.setdefault(process.journal, HttpServer(process.runner))


def _acting() -> Any:
    from web.mcp.service import Acting

    caller = current_caller()
    credential = caller.credential.kind, caller.credential.id
    url = _origin(current_process().settings)
    return Acting(principal=caller.principal, credential=credential, url=url, trace_id=current_trace_id())


def _scope() -> dict[str, Any]:
    """Return the request as ASGI has it."""
    address = urlsplit(request.url)
    named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": address.scheme,
        "path": PATH,
        "raw_path": PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name, value) for name, value in named if name not in (b"authorization", b"cookie")],
        "client": None,
        "server": None,
    }


def _origin(settings: Settings) -> str:
    return settings.public_url or request.host_url.rstrip("/")
