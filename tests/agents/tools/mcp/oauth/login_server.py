"""An MCP server and its authorization server on one port, in this process; what they say can be changed."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import jwt
import orjson

ALL: dict[str, Any] = {"type": "object"}
TOOLS = [
    {"name": "whoami", "inputSchema": ALL, "annotations": {"readOnlyHint": True}},
    {"name": "slow", "inputSchema": ALL},
]


class LoginServer:
    """What the server knows, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.person = "ann"
        """Who signs in next."""
        self.lifetime_s: int | None = 3600
        self.resource: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.come_back: dict[str, str] = {}
        """Other parameters of the browser's way back."""
        self.overrides: dict[str, tuple[int, dict[str, str], bytes]] = {}
        """Answers by path: status, headers, body."""
        self.tokens: dict[str, str] = {}
        """Access tokens, and whose they are."""
        self.refreshes: dict[str, str] = {}
        self.codes: dict[str, tuple[str, str]] = {}
        """Codes: whose they are, and the challenge."""
        self.asked: list[tuple[str, dict[str, str], str]] = []
        """Path, form, and ``Authorization`` of each request."""
        self.public_key = ""
        self.sessions: list[str] = []
        """Who greeted, in turn."""
        self.lock = threading.Lock()
        self.count = 0
        self.mark = uuid.uuid4().hex
        """Tokens of another test are others: a process redacts some of them as long as it lives."""

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def asked_for(self, grant: str) -> list[dict[str, str]]:
        return [form for path, form, _ in self.asked if path == "/token" and form.get("grant_type") == grant]

    def revoke(self, person: str, *, everything: bool = True) -> None:
        self.tokens = {token: whose for token, whose in self.tokens.items() if whose != person}
        if everything:
            self.refreshes = {token: whose for token, whose in self.refreshes.items() if whose != person}

    def said(self, path: str) -> dict[str, Any] | None:
        """Return the document at a path."""
        if path == "/.well-known/oauth-protected-resource/mcp":
            return {"resource": self.url, "authorization_servers": [self.origin], **self.resource}
        if path == "/.well-known/oauth-authorization-server":
            ends = {f"{name}_endpoint": f"{self.origin}/{path}" for name, path in _ENDPOINTS.items()}
            methods = {"code_challenge_methods_supported": ["S256"]}
            return {"issuer": self.origin, **ends, **methods, "scopes_supported": ["read"], **self.metadata}
        return None

    def authorize(self, query: dict[str, str]) -> str:
        code = self.fresh("code")
        self.codes[code] = (self.person, query["code_challenge"])
        params = {"code": code, "state": query["state"], "iss": self.origin, **self.come_back}
        return f"{query['redirect_uri']}?{urlencode(params)}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        grant = form["grant_type"]
        if grant == "client_credentials":
            whose = self._client(form, authorization)
        elif grant == "authorization_code":
            whose, challenge = self.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == challenge
        else:
            whose = self.refreshes.pop(form["refresh_token"], "")
        if not whose:
            return 400, {"error": "invalid_grant"}
        access, refresh = self.fresh("access"), self.fresh("refresh")
        self.tokens[access] = whose
        token_response: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if grant != "client_credentials":
            self.refreshes[refresh] = whose
            token_response["refresh_token"] = refresh
        return 200, token_response | ({} if self.lifetime_s is None else {"expires_in": self.lifetime_s})

    def _client(self, form: dict[str, str], authorization: str) -> str:
        if "client_assertion" in form:
            claims = jwt.decode(form["client_assertion"], self.public_key, ["ES256"], audience=self.origin)
            return f"client {claims['sub']}"
        return "client robot" if authorization == f"Basic {base64.b64encode(b'robot:s3cret-of-robot').decode()}" else ""

    def fresh(self, kind: str) -> str:
        with self.lock:
            self.count += 1
            return f"{kind}-{self.count}-{self.mark}"


_ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    guarded: LoginServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if self._overridden(parts.path):
            return
        document = self.guarded.said(parts.path)
        if parts.path == "/authorize":
            query = dict(parse_qsl(parts.query))
            self.guarded.asked.append(("/authorize", query, ""))
            self._answer(302, b"", Location=self.guarded.authorize(query))
        elif document is not None:
            self._answer(200, orjson.dumps(document))
        else:
            self._answer(405 if parts.path == "/mcp" else 404, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, authorization = urlsplit(self.path).path, self.headers.get("Authorization", "")
        if path == "/mcp":
            self._mcp(body, authorization)
            return
        is_form = "form" in self.headers.get("Content-Type", "")
        form = dict(parse_qsl(body.decode())) if is_form else orjson.loads(body)
        self.guarded.asked.append((path, form, authorization))
        if self._overridden(path):
            return
        if path == "/register":
            self._answer(201, orjson.dumps({**form, "client_id": self.guarded.fresh("client")}))
        elif path == "/token":
            status, answer = self.guarded.token(form, authorization)
            self._answer(status, orjson.dumps(answer))
        elif path == "/revoke":
            self.guarded.tokens.pop(form["token"], None)
            self.guarded.refreshes.pop(form["token"], None)
            self._answer(200, b"")

    def do_DELETE(self) -> None:
        self._answer(200, b"")

    def _mcp(self, body: bytes, authorization: str) -> None:
        whose = self.guarded.tokens.get(authorization.removeprefix("Bearer "))
        self.guarded.asked.append(("/mcp", {}, authorization))
        if self._overridden("/mcp"):
            return
        if whose is None:
            where = f"{self.guarded.origin}/.well-known/oauth-protected-resource/mcp"
            self._answer(401, b"", WWW_Authenticate=f'Bearer resource_metadata="{where}"')
            return
        request = orjson.loads(body)
        if "id" not in request:
            self._answer(202, b"")
            return
        result = self._result(request, whose)
        response = (
            {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        )
        self._answer(200, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], **response}))

    def _result(self, request: dict[str, Any], whose: str) -> dict[str, Any] | None:
        if request["method"] == "initialize":
            self.guarded.sessions.append(whose)
            version = request["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "g", "version": "1"},
            }
        if request["method"] == "tools/list":
            return {"tools": TOOLS}
        if request["method"] == "tools/call":
            if request["params"]["name"] == "slow":
                time.sleep(0.5)
            return {"content": [{"type": "text", "text": whose}]}
        return None

    def _overridden(self, path: str) -> bool:
        if path not in self.guarded.overrides:
            return False
        status, headers, body = self.guarded.overrides[path]
        self._answer(status, body, **headers)
        return True

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # the default resets the sixth of connections at once


@contextmanager
def guarding() -> Iterator[LoginServer]:
    """Serve, until the block is left."""
    server = _Server(("127.0.0.1", 0), _Handler)
    guarded = LoginServer(server.server_port)
    server.RequestHandlerClass = type("Bound", (_Handler,), {"guarded": guarded})
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield guarded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def browse(url: str) -> None:
    """Open an address as a browser does that is signed in everywhere, and come back."""
    threading.Thread(target=lambda: httpx2.get(url, follow_redirects=True), daemon=True).start()
