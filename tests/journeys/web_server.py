"""A real gunicorn for journeys, and a viewer who watches a run on it."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from config.folders import ROOT
from config.settings import Settings
from tests.fleet import environment
from tests.fork_server import Process, fork_server

Answer = tuple[int, dict[str, str], Any, float]
"""Status, headers, body, and how many seconds it took."""


class Web:
    """A real gunicorn."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.log = settings.state / "web.log"
        self.address = f"{'https' if settings.tls_certificate else 'http'}://127.0.0.1:{settings.port}"
        self.tls: ssl.SSLContext | None = None
        """The context of requests to a server that serves TLS."""

    def __enter__(self) -> Web:
        arguments = ("--config", "web/gunicorn_conf.py", "web.app:create_app()")
        chosen = environment(self.settings) | {"PYTHONPATH": str(ROOT)}
        server = fork_server("web")
        with self.log.open("wb") as out:
            if server is not None and server.suits(chosen):
                self.process: Process = server.start(
                    "gunicorn", *arguments, environment=chosen, output=out, own_session=False
                )
            else:
                command = (sys.executable, "-P", "-m", "gunicorn", *arguments)
                self.process = subprocess.Popen(command, cwd=ROOT, env=chosen, stdout=out, stderr=out)
        self.until(200, "/health")  # a worker may come later
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(15)

    def ask(self, path: str, body: object = None, **headers: str) -> Answer:
        """Return status, headers, body and how long it took."""
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json", **named})
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls) as answer:
                return answer.status, dict(answer.headers), json.load(answer), time.monotonic() - began
        except urllib.error.HTTPError as refused:
            return refused.code, dict(refused.headers), json.load(refused), time.monotonic() - began

    def until(self, status: int, path: str) -> None:
        """Return once the path answers so."""
        deadline = time.monotonic() + 30
        while True:
            try:
                if self.ask(path)[0] == status:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.05)  # another process; only its answers tell

    def events(self, run_id: str, cursor: int = 0) -> list[dict[str, Any]]:
        """Return a run's events from one stream, read until it is closed."""
        url = f"{self.address}/v1/runs/{run_id}/events?after={cursor}"
        with urllib.request.urlopen(url, timeout=60, context=self.tls) as feed:
            return [json.loads(line[6:]) for line in feed if line.startswith(b"data: ")]


class Watching:
    """A viewer who watches a run while other things happen, and comes back by cursor when the stream breaks."""

    def __init__(self, web: Web, run_id: str) -> None:
        self.run_id = run_id
        self.events: list[dict[str, Any]] = []
        self.arrived_ns: list[int] = []
        """When each came, by the machine's monotonic clock."""
        self.connects = 0
        self.move(web)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self.until(lambda: bool(self.events))

    def move(self, web: Web) -> None:
        """Come back to this web process when the stream breaks."""
        self._url = f"{web.address}/v1/runs/{self.run_id}/events"

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """The pieces of text, each with when it came."""
        both = zip(self.events, self.arrived_ns, strict=False)
        return [(event["content"], at) for event, at in both if event["type"] == "response"]

    def until(self, is_enough: Any, timeout_s: float = 30.0) -> None:
        """Return once what has come is enough."""
        with self._changed:
            assert self._changed.wait_for(is_enough, timeout_s), self.events[-3:]

    def to_the_end(self, timeout_s: float = 90.0) -> list[dict[str, Any]]:
        """Return all events, once the last one is there."""
        self.until(lambda: self._is_over, timeout_s)
        return self.events

    @property
    def _is_over(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] == "end"

    def _watch(self) -> None:
        while not self._is_over and self.connects < 20:
            self.connects += 1
            try:
                self._read(self.events[-1]["seq"] if self.events else 0)
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)  # as a browser does, though sooner

    def _read(self, cursor: int) -> None:
        request = urllib.request.Request(self._url, headers={"Last-Event-ID": str(cursor)} if cursor else {})
        with urllib.request.urlopen(request, timeout=90) as feed:
            for line in feed:
                if line.startswith(b"data: "):
                    at, event = time.monotonic_ns(), json.loads(line[6:])
                    with self._changed:
                        self.arrived_ns.append(at)
                        self.events.append(event)
                        self._changed.notify_all()
