"""`/mcp`: the MCP server over streamable HTTP, and the metadata with which its clients find their issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import NotFound

from bus.identity.validity import can_end
from config.settings import Settings
from config.tracing import current_trace, current_trace_id
from web.auth.authentication import current_caller
from web.calls.bodies import read_object
from web.feeds.viewers import Viewer, Viewers
from web.problems import problem
from web.process import WebProcess, current_process
from web.sse import hand_over, lent_socket

if TYPE_CHECKING:
    from web.mcp.application import AsgiExchange, HttpServer

mcp = Blueprint("mcp", __name__)

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
"""RFC 9728, section 3.1: the path of a resource follows."""
QUICK_S = 0.03
"""Seconds that the request's thread waits for an answer; then the loop takes the connection over (decision 69)."""
SESSION = "Mcp-Session-Id"
INVALID_REQUEST = -32600
"""JSON-RPC's code of a message that is none."""
VALIDATOR = "Validation error: "
"""How the SDK begins to quote its validator, in the handshake era, about what is no message."""
NO_MESSAGE = (
    'the body is no message of JSON-RPC 2.0; it needs "jsonrpc": "2.0", a method, '
    "and an id that is a text or an integer."
)
EXTENSION = "callboard_mcp"


@mcp.post(PATH)
def endpoint() -> Response:
    """Answer one message of a client. There are no sessions, so one that is named is not known."""
    if SESSION in request.headers:
        sentence = "there is no such session, since this server has none; begin anew without Mcp-Session-Id."
        return problem(404, "not_found", sentence, retryable=False)
    body = request.get_data()
    message = read_object()  # refuses another content type, and JSON that is malformed or too large
    if "method" in message and not _is_id(message.get("id", "")):  # the SDK takes it for a notification
        return _refused(_error(NO_MESSAGE), 400)
    process = current_process()
    viewers = process.hub.viewers
    viewers.require_room(current_caller().principal)
    lent = lent_socket(request.environ)
    limit_s = QUICK_S if lent is not None else None
    work = _server(process).exchange(_scope(), body, _acting(), current_trace(), limit_s)
    exchange = process.journal.loop.run(work)
    if exchange.is_over:
        return _whole(exchange)
    return _Continued(viewers, exchange)


@mcp.get(METADATA)
@mcp.get(f"{METADATA}{PATH}")
def metadata() -> Response:
    """Return which issuer's tokens are taken (RFC 9728); 404 where there is none, only API keys."""
    settings = current_process().settings
    if not settings.service_issuer:
        raise NotFound
    document = {
        "resource": f"{_origin(settings)}{PATH}",
        "authorization_servers": [settings.service_issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Callboard",
    }
    return Response(orjson.dumps(document), content_type="application/json")


@mcp.after_app_request
def name_issuer(answer: Response) -> Response:
    """Let a client without a credential know where the metadata is, whatever its first request to ``/mcp`` is."""
    settings = current_process().settings
    if request.path == PATH and answer.status_code == 401 and settings.service_issuer:
        address = f"{_origin(settings)}{METADATA}{PATH}"
        parameter = 'error="invalid_token", ' if "Authorization" in request.headers else ""  # RFC 6750, section 3.1
        answer.headers["WWW-Authenticate"] = f'Bearer {parameter}resource_metadata="{address}"'
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


def _whole(exchange: AsgiExchange) -> Response:
    """Return an answer that is complete; a refusal names its trace, whichever part of the SDK refused."""
    body, status, headers = exchange.body, exchange.status, dict(exchange.headers)
    if status >= 400 and "error" in (refused := _refusal(body, status)):
        return _refused(refused, status)
    answer = Response(body, status, headers)
    if not body:
        del answer.headers["Content-Type"]
    return answer


def _refused(refused: dict[str, Any], status: int) -> Response:
    """Return an error of JSON-RPC with its trace."""
    error_data = refused["error"].get("data")
    data = error_data if isinstance(error_data, dict) else {"detail": error_data} if error_data else {}
    refused["error"]["data"] = {"trace_id": current_trace_id(), **data}
    return Response(orjson.dumps(refused), status, content_type="application/json")


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _error(sentence: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": sentence}}


def _refusal(body: bytes, status: int) -> dict[str, Any]:
    """Return what the SDK refused a message with; it says nothing about a missing `Accept` in the later era."""
    if not body:
        return _error("Accept has to name application/json and text/event-stream." if status == 406 else "Refused.")
    try:
        refused: dict[str, Any] = orjson.loads(body)
    except ValueError:
        return {}
    if not isinstance(refused.get("error"), dict):
        return {}
    if str(refused["error"].get("message")).startswith(VALIDATOR):
        refused["error"] |= {"code": INVALID_REQUEST, "message": NO_MESSAGE}
    return refused


def _server(process: WebProcess) -> HttpServer:
    """Return the server of this process, made at the first request."""
    from web.mcp.application import HttpServer  # the SDK, which few requests need

    by_journal: dict[Any, HttpServer] = current_app.extensions.setdefault(EXTENSION, {})
    server = by_journal.get(process.journal)  # after a fork the journal is another
    return server if server is not None else by_journal.setdefault(process.journal, HttpServer(process.runner))


def _acting() -> Any:
    from web.mcp.service import Acting

    caller = current_caller()
    credential = caller.credential.kind, caller.credential.id
    url = _origin(current_process().settings)
    return Acting(principal=caller.principal, credential=credential, url=url)


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
