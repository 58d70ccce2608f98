"""gunicorn's thread worker, changed to read and write on its poller, so that threads get complete requests only.

gunicorn's own worker reads and writes on the request's thread, so as many slow clients as there are threads block it
(docs/decisions/0028-no-thread-waits-for-a-client.md). Neither is a Celery worker: this one serves HTTP alone.
"""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from gunicorn.workers import gthread

from config.database.timeouts import time_limit
from config.errors import SettingInvalid
from config.settings import settings
from web.errors import is_exhausted
from web.server.certificates import certificates_of
from web.server.connection import (
    ANSWER_S,
    BODY_S,
    HEAD_S,
    LINGER_BYTES,
    LINGER_S,
    Connection,
    OneRequest,
    Phase,
    transfer_s,
)
from web.server.incoming import Incoming, named_trace_id
from web.server.refusals import refusal, refusal_of
from web.server.sockets import ClientSocket, PlainHttp, TlsSocket

log = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
ACCEPTS_AT_ONCE = 64
POLL_S = 0.5
"""Seconds between two checks of the connections' deadlines."""
MAX_HELD_BYTES = 12 * 1024 * 1024
"""Bytes held for all clients together; beyond it the oldest large transfer is refused."""
LARGE_BYTES = 64 * 1024
PLAIN_HTTP = "this port serves TLS, and the request was plain HTTP; begin the address with https://."
WAITING = frozenset(Phase) - {Phase.ANSWERING}


class ThreadWorker(gthread.ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves many connections on few threads, none of which waits for a client."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Return if this worker can serve so.

        Raises:
            SettingInvalid: gunicorn's own options ask for TLS, which this worker would not serve.
        """
        if cfg.is_ssl:
            raise SettingInvalid(
                "gunicorn's options certfile and keyfile are not used here; set CALLBOARD_TLS_CERTIFICATE and "
                "CALLBOARD_TLS_KEY instead."
            )
        super().check_config(cfg, log)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.certificates = certificates_of(settings())
        self.request_s = settings().request_timeout_s
        self.connections: dict[Connection, None] = {}
        self.held_bytes = 0
        self._next_check = 0.0

    # --- called by gunicorn's loop on the poller's thread

    def accept(self, listener: Any) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            if self.nr_conns >= self.worker_connections - 1:
                self._shed_oldest()  # if all are in progress, gunicorn's loop accepts no more until one ends
            try:
                taken, client = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if is_exhausted(error) and not self._shed_oldest():
                    time.sleep(POLL_S / 10)  # every connection is in progress; new ones stay in the backlog
                return
            self._register(taken, client, listener.getsockname())

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Send the response of a handled request."""
        conn.parser = None
        conn.is_kept = not fs.cancelled() and fs.exception() is None and bool(fs.result())
        self._guard(conn, self._send)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close all waiting connections when the worker ends."""
        if force:
            for conn in [conn for conn in self.connections if conn.phase in WAITING]:
                self._drop(conn)

    def murder_pending(self) -> None:
        """Close or refuse every connection whose deadline has passed."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + POLL_S
        for conn in [conn for conn in self.connections if conn.deadline < now and conn.phase in WAITING]:
            if conn.phase in (Phase.HEAD, Phase.BODY):
                self._guard(conn, self._refuse, refusal(408, trace_id=conn.incoming.trace_id))
            else:
                self._guard(conn, self._drop)

    def _cap_keepalive(self, deadline: float) -> None:
        """Limit all deadlines to ``deadline``, since this worker ends."""
        for conn in self.connections:
            conn.deadline = min(conn.deadline, deadline)

    # --- on the threads

    def handle(self, conn: Connection) -> Any:
        """Handle the request, and send what the kernel accepts at once.

        One that has waited too long for a thread is refused: its client may be gone, and the work would delay others.
        """
        if time.monotonic() - conn.since > self.request_s:
            conn.sock.sendall(refusal(503, trace_id=conn.parser.trace_id if conn.parser else None))
            keeps_alive = False
        else:
            with time_limit(self.request_s, conn.since):
                keeps_alive = super().handle(conn)
        try:
            conn.sock.flush()
        except OSError:
            return False
        return keeps_alive

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Send an error response in the application's format."""
        client.sendall(refusal_of(exc, named_trace_id(req)))

    # --- one connection, on the poller's thread

    def _register(self, taken: socket.socket, client: Any, server: Any) -> None:
        context = self.certificates.context()
        try:
            sock = ClientSocket(taken) if context is None else TlsSocket(taken, context)
        except OSError:  # the client has reset the connection: macOS sets no option of such a socket
            return
        now = time.monotonic()
        conn = Connection(sock, client, server, Incoming(self.cfg, client), now, now + HEAD_S)
        self.connections[conn] = None
        self.nr_conns += 1
        self._on_event(conn)  # most clients have sent their request already

    def _on_event(self, conn: Connection) -> None:
        steps = {Phase.SENDING: self._send, Phase.CLOSING: self._drain}
        self._guard(conn, steps.get(conn.phase, self._receive))

    def _guard(self, conn: Connection, step: Callable[..., None], *args: bytes) -> None:
        """Take a step; an error in it closes this connection, never the worker."""
        try:
            step(conn, *args)
        except OSError:  # the client is gone
            self._drop(conn)
        except Exception:
            log.exception("connection dropped")
            self._drop(conn)

    def _receive(self, conn: Connection) -> None:
        try:
            data = self._received(conn)
        except PlainHttp:
            self._refuse(conn, refusal(400, PLAIN_HTTP))
            return
        if data:
            conn.incoming.feed(data)
            self._advance(conn)
        elif data is not None:
            self._drop(conn)

    def _advance(self, conn: Connection) -> None:
        """Pass the request to a thread if it is complete, else wait for the rest."""
        before = len(conn.incoming)
        try:
            request = conn.incoming.take()
        except Exception as error:
            self._refuse(conn, refusal_of(error, conn.incoming.trace_id))
            return
        if request is None:
            self._await_rest(conn)
            return
        if isinstance(conn.sock, TlsSocket):
            request.scheme = "https"
        conn.parser = OneRequest(request, before - len(conn.incoming))
        conn.enter(Phase.ANSWERING, time.monotonic(), 0)
        conn.since = time.monotonic()  # a pipelined request does not enter another phase
        self._watch(conn, 0)
        self._limit_held(conn)
        self.enqueue_req(conn)

    def _await_rest(self, conn: Connection) -> None:
        now = time.monotonic()
        if conn.incoming.is_in_body:
            conn.enter(Phase.BODY, now, BODY_S)
            conn.deadline = conn.since + transfer_s(len(conn.incoming), BODY_S)
            if conn.incoming.take_expectation():
                conn.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                conn.sock.flush()
        elif len(conn.incoming):
            conn.enter(Phase.HEAD, now, HEAD_S)
        else:
            conn.enter(Phase.IDLE, now, self.cfg.keepalive)
        self._watch(conn, selectors.EVENT_READ)
        self._limit_held(conn)

    def _send(self, conn: Connection) -> None:
        """Send what the kernel accepts; after the last byte, read the next request or close."""
        if not conn.sock.flush():
            conn.enter(Phase.SENDING, time.monotonic(), transfer_s(conn.sock.unsent_bytes, ANSWER_S))
            self._watch(conn, selectors.EVENT_WRITE)
            self._limit_held(conn)
        elif conn.is_kept:
            self._limit_held(conn)
            self._advance(conn)
        else:  # read for a moment: an immediate close might reset the connection and lose the response
            conn.sock.shutdown(socket.SHUT_WR)
            conn.enter(Phase.CLOSING, time.monotonic(), LINGER_S)
            self._drain(conn)

    def _refuse(self, conn: Connection, answer: bytes) -> None:
        conn.is_kept = False
        conn.incoming.discard()
        conn.sock.sendall(answer)
        self._send(conn)

    def _drain(self, conn: Connection) -> None:
        data = self._received(conn)
        if data is not None:
            conn.drained += len(data)
            if not data or conn.drained > LINGER_BYTES:
                self._drop(conn)
            else:
                self._watch(conn, selectors.EVENT_READ)

    def _received(self, conn: Connection) -> bytes | None:
        """Return what the client has sent, empty if it has closed; None if it has to be waited for."""
        try:
            return conn.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            self._watch(conn, selectors.EVENT_READ)
            return None

    def _drop(self, conn: Connection) -> None:
        """Close the connection and forget it."""
        if conn in self.connections:
            del self.connections[conn]
            self._watch(conn, 0)
            self.held_bytes -= conn.weight
            self.nr_conns -= 1
            conn.close()

    def _watch(self, conn: Connection, events: int) -> None:
        """Call ``_on_event`` when one of the events happens; 0 stops that."""
        if events == conn.watched:
            return
        if conn.watched:
            self.poller.unregister(conn.sock)
        if events:
            self.poller.register(conn.sock, events, lambda _: self._on_event(conn))
        conn.watched = events

    # --- limits of all connections together

    def _limit_held(self, conn: Connection) -> None:
        """Count the connection's held bytes, and refuse the oldest large transfers while the total is too large."""
        self._count(conn)
        while self.held_bytes > MAX_HELD_BYTES:
            large = [conn for conn in self.connections if conn.weight > LARGE_BYTES and conn.phase in WAITING]
            if not large:
                return
            oldest = min(large, key=lambda conn: conn.since)
            if oldest.phase is Phase.BODY:
                self._guard(oldest, self._refuse, refusal(503, trace_id=oldest.incoming.trace_id))
            else:
                self._guard(oldest, self._drop)
            self._count(oldest)

    def _count(self, conn: Connection) -> None:
        if conn in self.connections:
            self.held_bytes += conn.size - conn.weight
            conn.weight = conn.size

    def _shed_oldest(self) -> bool:
        """Close the connection that has waited longest, and return whether there was one."""
        waiting = [conn for conn in self.connections if conn.phase in WAITING]
        if not waiting:
            return False
        self._drop(min(waiting, key=lambda conn: conn.since))
        return True
