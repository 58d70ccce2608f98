"""`./callboard mcp serve` at an HTTP address: a process for each session, whose messages are passed on as they are.

The suite reaches servers by HTTP alone, where clients of the handshake era have no sessions with Callboard.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from config.folders import ROOT

ANSWER_S = 60.0


class StdioSession:
    """One process, and what it wrote."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-P", "-m", "cli", "mcp", "serve"),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._written: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message to the process."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def until_ready(self) -> None:
        """Return once the process answers: importing what it needs takes seconds on a busy machine."""
        self.send({"jsonrpc": "2.0", "id": "ready", "method": "ping"})
        assert list(self.answers("ready"))[-1]["result"] == {}

    def answers(self, request_id: Any) -> Iterator[dict[str, Any]]:
        """Yield what the process writes, up to the answer of this request."""
        while True:
            message = self._written.get(timeout=ANSWER_S)
            yield message
            if "method" not in message and message.get("id") == request_id:
                return

    def close(self) -> None:
        """End it as clients do, by the end of its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(ANSWER_S)
        self._reading.join(ANSWER_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._written.put(json.loads(line))


@contextmanager
def bridge(environment: Mapping[str, str], count: int) -> Iterator[str]:
    """Yield the address; so many processes are started beforehand, with this environment, one for each session."""
    started = [StdioSession(environment) for _ in range(count)]
    for program in started:
        program.until_ready()
    free, sessions = iter(started), dict[str, StdioSession]()

    class BridgedRequest(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = self.headers.get("Mcp-Session-Id") or uuid.uuid4().hex
            session = sessions.get(name) or sessions.setdefault(name, next(free))
            session.send(message)
            is_request = "method" in message and "id" in message
            self.send_response(200 if is_request else 202)
            self.send_header("Mcp-Session-Id", name)
            if not is_request:
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for answer in session.answers(message["id"]):
                self.wfile.write(f"data: {json.dumps(answer)}\n\n".encode())
                self.wfile.flush()
            self.close_connection = True

        def do_GET(self) -> None:
            self.send_error(405)

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), BridgedRequest) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            serving.join()
            for program in started:
                program.close()
