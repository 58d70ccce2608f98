"""Answers the messages of an MCP client: those of the versions with a handshake and those of 2026-07-28.

Of the protocol it has what a server of tools needs: ``initialize`` or ``server/discover``, ``ping``, ``tools/list``,
``tools/call`` and ``notifications/cancelled``. It keeps no state between requests but the calls under way, so each
request is answered in the version that it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from callboard_client.tools.described import Tool
from callboard_client.tools.running import Call, CallFailed, Calls, CallTimedOut
from callboard_client.tools.values import Misfit
from callboard_client.version import VERSION

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions that a client agrees on by ``initialize``, the newest last."""
MODERN_VERSIONS = ("2026-07-28",)
"""The versions that each request names in its ``_meta``."""
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
IDEMPOTENCY_KEY = "callboard/idempotency_key"
"""The member of a call's ``_meta`` with its idempotency key."""
MAX_BYTES = 4 * 1024 * 1024
"""The largest answer, in bytes; Callboard reads no larger one."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION = -32022
TIMED_OUT = -32001
"""The code of the SDKs' clients for a request whose time is up: with it, a client does not know what a call did."""


class Refused(Exception):
    """A request is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message} | ({} if data is None else {"data": data})


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request whose envelope is in order."""

    id: str | int
    method: str
    params: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        value = self.params.get("_meta")
        return value if isinstance(value, dict) else {}

    @property
    def is_modern(self) -> bool:
        return VERSION_KEY in self.meta


class Service:
    """A server of tools, without its wire. ``send`` takes an encoded message and is called from several threads."""

    def __init__(self, tools: Sequence[Tool], name: str, send: Callable[[bytes], None]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._server = {"name": name, "version": VERSION}
        self._send = send
        self._calls = Calls()
        self._answers: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": lambda request: {},
            "tools/list": self._list,
        }

    def take(self, line: bytes) -> None:
        """Answer one message, or start the call that it asks for."""
        try:
            message = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            self.refuse(None, Refused(PARSE_ERROR, "this is not JSON; send one message on one line."))
            return
        request_id = message.get("id") if isinstance(message, dict) else None
        request_id = request_id if _is_id(request_id) else None
        try:
            self._take(message, request_id)
        except Refused as refused:
            self.refuse(request_id, refused)

    def refuse(self, request_id: str | int | None, refused: Refused) -> None:
        """Answer with an error; the id is None where the request has none that can be read."""
        self._send(_encoded({"jsonrpc": "2.0", "id": request_id, "error": refused.error}))

    def _take(self, message: Any, request_id: str | int | None) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise Refused(INVALID_REQUEST, "this is no message of JSON-RPC 2.0.")
        if "method" not in message:
            if "result" in message or "error" in message:  # an answer, and nothing was asked
                return
            raise Refused(INVALID_REQUEST, "the message has no method.")
        method, params = message["method"], message.get("params") or {}
        if not isinstance(method, str) or not isinstance(params, dict):
            raise Refused(INVALID_REQUEST, "the method has to be text, and the params an object.")
        if "id" not in message:
            self._notice(method, params)
        elif request_id is None:
            raise Refused(INVALID_REQUEST, "the id has to be text or a whole number.")
        else:
            self._request(Request(id=request_id, method=method, params=params))

    def _notice(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/cancelled" and _is_id(params.get("requestId")):
            self._calls.cancel(params["requestId"])

    def _request(self, request: Request) -> None:
        _require_version(request)
        if request.method == "tools/call":
            self._call(request)
        elif request.method in self._answers:
            self._answer(request, self._answers[request.method](request))
        else:
            raise Refused(METHOD_NOT_FOUND, "Method not found", request.method)

    def _initialize(self, request: Request) -> dict[str, Any]:
        version = request.params.get("protocolVersion")
        agreed = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": agreed, "capabilities": {"tools": {}}, "serverInfo": self._server}

    def _discover(self, request: Request) -> dict[str, Any]:
        if not request.is_modern:
            raise Refused(METHOD_NOT_FOUND, "Method not found", request.method)
        return {"supportedVersions": list(MODERN_VERSIONS), "capabilities": {"tools": {}}} | _NOT_CACHED

    def _list(self, request: Request) -> dict[str, Any]:
        if request.params.get("cursor") is not None:
            raise Refused(INVALID_PARAMS, "there is no such cursor: the list of tools has one page.")
        listed = {"tools": [tool.definition for tool in self._tools.values()]}
        return listed | _NOT_CACHED if request.is_modern else listed

    def _call(self, request: Request) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise Refused(INVALID_PARAMS, f"there is no tool {str(name)[:80]!r}; known: {', '.join(self._tools)}.")
        if not isinstance(arguments, dict | None):
            raise Refused(INVALID_PARAMS, f"the arguments of {name} have to be an object.")
        if request.id in self._calls:
            raise Refused(INVALID_REQUEST, "a call with this id is under way; give each request an id of its own.")
        key = request.meta.get(IDEMPOTENCY_KEY)
        call = Call(tool=tool, arguments=arguments or {}, key=key if isinstance(key, str) else None)
        self._calls.start(request.id, call, lambda value, error: self._answer_call(request, tool, value, error))

    def _answer_call(self, request: Request, tool: Tool, value: Any, error: Exception | None) -> None:
        if isinstance(error, CallTimedOut):
            self.refuse(request.id, Refused(TIMED_OUT, str(error)))
            return
        try:
            result = _failed(str(error)) if isinstance(error, CallFailed) else _succeeded(tool, value)
        except Exception as misfit:  # also of a property or a serializer of the user's
            text = str(misfit) if isinstance(misfit, Misfit) else f"{type(misfit).__name__}: {misfit}"
            result = _failed(f"{tool.name} was called, and its result cannot be used: {text[:2000]}.")
        self._answer(request, result)

    def _answer(self, request: Request, result: dict[str, Any]) -> None:
        if request.is_modern:
            result = {"resultType": "complete", "_meta": {SERVER_KEY: self._server}} | result
        encoded = _encoded({"jsonrpc": "2.0", "id": request.id, "result": result})
        if len(encoded) > MAX_BYTES and request.method == "tools/call":
            tool, size = request.params["name"], f"{len(encoded):,} bytes, of at most {MAX_BYTES:,}"
            self._answer(request, _failed(f"{tool} was called, and its result has {size}; return less."))
            return
        self._send(encoded)


_NOT_CACHED: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"}


def _require_version(request: Request) -> None:
    """Refuse a request of a version that is not served, or of the newer ones without what they need."""
    if not request.is_modern:
        return
    version = request.meta[VERSION_KEY]
    if CAPABILITIES_KEY not in request.meta:
        raise Refused(INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {CAPABILITIES_KEY}")
    if not isinstance(version, str):
        raise Refused(INVALID_PARAMS, "the protocol version has to be text.")
    if version not in MODERN_VERSIONS or request.method == "initialize":
        details = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", details)


def _succeeded(tool: Tool, value: Any) -> dict[str, Any]:
    """Return the result of a call; its text is that of the value, and of a text the text itself."""
    plain, structured = tool.write(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    content = [] if plain is None else [{"type": "text", "text": text}]
    return {"content": content, "isError": False} | ({} if structured is None else {"structuredContent": structured})


def _failed(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _encoded(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line; half a surrogate pair, which JSON readers refuse, becomes a question mark."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
