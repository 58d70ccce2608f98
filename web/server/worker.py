"""gunicorn's thread worker, with all waiting for clients on its poller: a thread is only given whole requests.

gunicorn's own reads a request on the thread that answers it and writes there too, so as many slow clients as there
are threads stop it (docs/decisions/0028-no-thread-waits-for-a-client.md).
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from gunicorn.workers import gthread

from web.server.client_socket import ClientSocket
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
from web.server.refusals import refusal, refusal_of

log = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
ACCEPTS_AT_ONCE = 64
LOOK_S = 0.5
"""Seconds between two looks for connections whose time is over."""
MAX_HELD_BYTES = 12 * 1024 * 1024
"""What all clients together may let lie here; beyond it the oldest large transfer is refused."""
LARGE_BYTES = 64 * 1024
NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
WAITING = frozenset(Phase) - {Phase.ANSWERING}


class ThreadWorker(gthread.ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves many connections on few threads, of which none waits for a client."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return gunicorn's own worker where TLS ends here: its handshakes and reads need a thread each."""
        cfg = kwargs["cfg"] if "cfg" in kwargs else args[5]
        return gthread.ThreadWorker(*args, **kwargs) if cfg.is_ssl else super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connections: dict[Connection, None] = {}
        self.held_bytes = 0
        self._look_at = 0.0

    # --- what gunicorn's loop calls on the poller's thread

    def accept(self, listener: Any) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            if self.nr_conns >= self.worker_connections - 1:
                self._shed_oldest()  # where all are at work, gunicorn's loop accepts no more until one has ended
            try:
                taken, client = listener.accept()
            except BlockingIOError:
                return
            except OSError as wrong:
                if wrong.errno in NO_FILES and not self._shed_oldest():
                    time.sleep(LOOK_S / 10)  # every connection is at work; those that wait stay in the backlog
                return
            self._welcome(taken, client, listener.getsockname())

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Go on with a connection whose request was answered."""
        conn.parser = None
        conn.is_kept = not fs.cancelled() and fs.exception() is None and bool(fs.result())
        self._guard(conn, self._send)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close everything that waits, when the worker ends."""
        if force:
            for conn in [conn for conn in self.connections if conn.phase in WAITING]:
                self._drop(conn)

    def murder_pending(self) -> None:
        """End every connection whose phase has lasted too long."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for conn in [conn for conn in self.connections if conn.deadline < now and conn.phase in WAITING]:
            self._guard(conn, self._give_up if conn.phase in (Phase.HEAD, Phase.BODY) else self._drop)

    def _cap_keepalive(self, deadline: float) -> None:
        """Give those that wait until ``deadline``, since this worker ends."""
        for conn in self.connections:
            conn.deadline = min(conn.deadline, deadline)

    # --- on the threads

    def handle(self, conn: Connection) -> Any:
        """Answer the request, and send what the client takes at once."""
        kept = super().handle(conn)
        try:
            conn.sock.flush()
        except OSError:
            return False
        return kept

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Say what is wrong in the application's own form."""
        client.sendall(refusal_of(exc))

    # --- one connection, on the poller's thread

    def _welcome(self, taken: socket.socket, client: Any, server: Any) -> None:
        self.nr_conns += 1
        now = time.monotonic()
        conn = Connection(self.cfg, ClientSocket(taken), client, server, now)
        conn.deadline = now + HEAD_S
        self.connections[conn] = None
        self._on_event(conn)  # most clients have sent their request already

    def _on_event(self, conn: Connection) -> None:
        if conn.phase is Phase.SENDING:
            self._guard(conn, self._send)
        else:
            self._guard(conn, self._drain if conn.phase is Phase.CLOSING else self._receive)

    def _guard(self, conn: Connection, step: Callable[[Connection], None]) -> None:
        """Take a step; whatever goes wrong in it ends this connection, and never the worker."""
        try:
            step(conn)
        except OSError:  # the client is gone
            self._drop(conn)
        except Exception:
            log.exception("connection dropped")
            self._drop(conn)

    def _receive(self, conn: Connection) -> None:
        try:
            data = conn.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            self._watch(conn, selectors.EVENT_READ)
            return
        if not data:
            self._drop(conn)
            return
        conn.incoming.feed(data)
        self._advance(conn)

    def _advance(self, conn: Connection) -> None:
        """Hand the request to a thread if all of it is there, else wait for the rest."""
        before = len(conn.incoming)
        try:
            request = conn.incoming.take()
        except Exception as wrong:
            self._refuse(conn, refusal_of(wrong))
            return
        now = time.monotonic()
        if request is not None:
            conn.parser = OneRequest(request, before - len(conn.incoming))
            conn.enter(Phase.ANSWERING, now, 0)
            self._watch(conn, 0)
            self._weigh(conn)
            self.enqueue_req(conn)
            return
        self._await_rest(conn, now)

    def _await_rest(self, conn: Connection, now: float) -> None:
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
        self._weigh(conn)

    def _send(self, conn: Connection) -> None:
        """Send what the client takes; behind the last of it, read on or close."""
        if not conn.sock.flush():
            conn.enter(Phase.SENDING, time.monotonic(), transfer_s(conn.sock.unsent_bytes, ANSWER_S))
            self._watch(conn, selectors.EVENT_WRITE)
            self._weigh(conn)
        elif conn.is_kept:
            self._weigh(conn)
            self._advance(conn)
        else:
            self._linger(conn)

    def _give_up(self, conn: Connection) -> None:
        self._refuse(conn, refusal(408))

    def _refuse(self, conn: Connection, answer: bytes) -> None:
        conn.is_kept = False
        conn.incoming.discard()
        conn.sock.sendall(answer)
        self._send(conn)

    def _linger(self, conn: Connection) -> None:
        """Send no more, and read what the client sends for a moment: closed at once it might lose its answer."""
        conn.sock.shutdown(socket.SHUT_WR)
        conn.enter(Phase.CLOSING, time.monotonic(), LINGER_S)
        self._drain(conn)

    def _drain(self, conn: Connection) -> None:
        try:
            data = conn.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            self._watch(conn, selectors.EVENT_READ)
            return
        conn.drained += len(data)
        if not data or conn.drained > LINGER_BYTES:
            self._drop(conn)
        else:
            self._watch(conn, selectors.EVENT_READ)

    def _drop(self, conn: Connection) -> None:
        """Close the connection and forget it."""
        if conn in self.connections:
            del self.connections[conn]
            self._watch(conn, 0)
            self.held_bytes -= conn.weight
            self.nr_conns -= 1
            conn.close()

    def _watch(self, conn: Connection, events: int) -> None:
        """Call ``_on_event`` when one of the events happens; 0 is none."""
        if events == conn.watched:
            return
        if conn.watched:
            self.poller.unregister(conn.sock)
        if events:
            self.poller.register(conn.sock, events, lambda _: self._on_event(conn))
        conn.watched = events

    # --- limits of all connections together

    def _weigh(self, conn: Connection) -> None:
        """Count what is held for the connection, and refuse the oldest large transfer while that is too much."""
        self._count(conn)
        while self.held_bytes > MAX_HELD_BYTES and (victim := self._oldest_large()) is not None:
            self._guard(victim, self._turn_away if victim.phase is Phase.BODY else self._drop)
            self._count(victim)

    def _turn_away(self, conn: Connection) -> None:
        self._refuse(conn, refusal(503))

    def _count(self, conn: Connection) -> None:
        if conn in self.connections:
            self.held_bytes += conn.size - conn.weight
            conn.weight = conn.size

    def _oldest_large(self) -> Connection | None:
        large = [conn for conn in self.connections if conn.weight > LARGE_BYTES and conn.phase in WAITING]
        return min(large, key=lambda conn: conn.since, default=None)

    def _shed_oldest(self) -> bool:
        """Close the connection that has waited longest, for one that may have something to say."""
        waiting = [conn for conn in self.connections if conn.phase in WAITING]
        if not waiting:
            return False
        self._drop(min(waiting, key=lambda conn: conn.since))
        return True
