"""A governance engine on a real socket, whose answers a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

Respond = Callable[[dict[str, Any]], Any]


def allows(_event: dict[str, Any]) -> Any:
    """Answer that everything continues."""
    return {"action": "continue"}


class EngineServer:
    """Keeps every event, and answers each by ``respond``: a mapping, or bytes, or a status alone."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        """Of each event, by lower-case name, with the ``path`` that was asked."""
        self.respond: Respond = allows
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
                own.events.append(event)
                own.headers.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
                reply = own.respond(event)
                status, body = (reply, b"") if isinstance(reply, int) else (200, reply)
                body = body if isinstance(body, bytes) else orjson.dumps(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):  # the client has given up
                    self.wfile.write(body)
                    self.wfile.flush()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def types(self) -> list[str]:
        """Return what was sent, as ``event type, activity``."""
        return [f"{event['event_type']} {event.get('activity_type', '')}".strip() for event in self.events]

    def of(self, event_type: str, activity: str) -> list[dict[str, Any]]:
        """Return the events of one type about one activity."""
        named = (event for event in self.events if event.get("activity_type") == activity)
        return [event for event in named if event["event_type"] == event_type]

    def __enter__(self) -> EngineServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
