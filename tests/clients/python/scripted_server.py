"""A server on a real socket that answers each request as a test says, or loses its connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer."""

    status: int = 200
    body: Any = None
    """JSON, or bytes as they stand."""
    headers: dict[str, str] = field(default_factory=dict)
    is_lost: bool = False
    """Whether the connection is closed instead, after the request was read."""
    stays_open: bool = False
    """Whether the connection stays open behind the body, without a byte."""


LOST = Answer(is_lost=True)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any


class ScriptedServer:
    """Answers in order; the last answer is repeated."""

    def __init__(self, *answers: Answer) -> None:
        self._answers: Sequence[Answer] = answers
        self.requests: list[Request] = []
        self.data: list[bytes] = []
        """The body of each request, as it came."""
        self._is_over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ScriptedServer:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                scripted.answer(self)

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815  # the names that the base class looks for

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Note a request, and send its answer."""
        data = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = json.loads(data) if data else None
        self.data.append(data)
        self.requests.append(Request(method=handler.command, path=handler.path, headers=headers, body=body))
        answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
        handler.close_connection = True
        if answer.is_lost:
            return
        sent = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(b"" if answer.status == 204 else sent)
        if answer.stays_open:
            handler.wfile.flush()
            self._is_over.wait(60)
