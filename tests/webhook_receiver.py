"""An endpoint that takes webhooks on a real socket, verifies them by the reference library, and answers by script."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from standardwebhooks.webhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TAKEN = b"HTTP/1.1 204 Taken\r\nConnection: close\r\n\r\n"
Script = Callable[["Delivery"], bytes]


class Delivery(NamedTuple):
    """A delivery as it arrived; ``event`` is what the reference library made of it."""

    id: str
    headers: dict[str, str]
    body: bytes
    event: Any

    @property
    def place(self) -> tuple[str, str]:
        """Which event of which run it is about."""
        return self.event["data"]["run_id"], self.event["type"]


def answering(status: int, body: bytes = b"", **headers: str) -> Script:
    """Return the script that answers with this status."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode()
    return lambda _: head + body


class Receiver:
    """Keeps the deliveries that it took (with a success), and all attempts."""

    def __init__(self, *secrets: str) -> None:
        self.script: Script = lambda _: TAKEN
        self.attempts: list[Delivery] = []
        self.taken: list[Delivery] = []
        self._secrets = secrets or (SECRET,)
        self._changed = threading.Condition()
        receiver = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                receiver._take(self.rfile, self.wfile)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/hooks?key=1"

    def wait_for(self, is_there: Callable[[list[Delivery]], bool], for_s: float = 60.0) -> None:
        """Wait until what was taken is what the test expects."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_there(self.taken), for_s), [each.place for each in self.taken]

    def _take(self, source: Any, sink: Any) -> None:
        lines = iter(source.readline, b"\r\n")
        next(lines)
        headers = {name.lower(): value.strip() for name, _, value in (line.decode().partition(":") for line in lines)}
        body = source.read(int(headers["content-length"]))
        for secret in self._secrets:
            event = Webhook(secret).verify(body, headers)
        delivery = Delivery(headers["webhook-id"], headers, body, event)
        with self._changed:
            self.attempts.append(delivery)
        answer = self.script(delivery)
        if answer.startswith(b"HTTP/1.1 2"):
            with self._changed:
                self.taken.append(delivery)
                self._changed.notify_all()
        sink.write(answer)


def dribbling(delivery: Delivery) -> bytes:
    """Answer only after the sender has given up."""
    time.sleep(2)
    return TAKEN
