"""The viewers of one process: clients that follow a stream.

Each is an asyncio protocol on the process's loop, which serves thousands of them with one thread.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Collection
from typing import cast

from bus.identity.credentials.credential import Caller
from bus.loop import ProcessLoop
from config.errors import CallboardError
from config.identity.principal import LOCAL, Principal
from config.tracing import current_trace_id
from web.errors import Overloaded, Unauthenticated
from web.feeds.backlog import Backlog
from web.feeds.page import BEAT, RETRY
from web.feeds.tls_transport import TlsTransport
from web.feeds.viewer_counts import ViewerCounts
from web.server.sockets import TlsChannel

log = logging.getLogger(__name__)

MAX_VIEWERS = 10_000
SPARE_FILES = 768
"""Descriptors kept for everything but viewers: 512 connections (web/gunicorn_conf.py), databases, files."""
HIGH_BYTES, LOW_BYTES = 128 * 1024, 16 * 1024
"""Unsent bytes at which a viewer is paused, and at which it is resumed."""
MAX_INBOUND_BYTES = 4096
"""Bytes that a client may send after its request; one that sends more is disconnected."""
BEAT_S = 15.0
STUCK_S = 12.0
"""Seconds that a viewer may not read; checked every ``LOOK_S``, so that it is dropped after at most 15 s."""
LOOK_S = 2.0
RECHECK_S = 0.5
"""Seconds between two checks of the credentials of open streams."""
ENDS = (
    "this server process ends, and what the request has started continues; send it again, with the same idempotency "
    "key if it has one."
)
ENDS_RETRY_S = 2
SLICE = 200
"""Viewers that get a comment before the loop continues with other work."""


class Stream:
    """A feed, as its viewers use it: called on the loop. A method that a feed does not need does nothing."""

    is_kept_alive = True
    """Whether its viewers get comments while nothing happens."""

    def attach(self, viewer: Viewer) -> None:
        """Send the viewer all events after its cursor, and later ones as they come."""

    def detach(self, viewer: Viewer) -> None:
        """Forget the viewer, which has disconnected."""

    def refuse(self, viewer: Viewer, error: CallboardError) -> None:
        """Send the viewer, which is about to be disconnected, the error if it was sent nothing yet."""

    def paused(self, viewer: Viewer) -> None:
        """Send the viewer nothing until it is resumed: its buffer is full."""

    def resumed(self, viewer: Viewer) -> None:
        """Continue from the viewer's cursor: its buffer has room."""


class Viewer(asyncio.Protocol):
    """One client of one stream: small, since there may be thousands."""

    __slots__ = """
        _open _viewers _waiter caller cursor head inbound_bytes owner stream stuck_since task trace_id transport write
        """.split()

    transport: asyncio.WriteTransport
    write: Callable[[bytes], None]
    """Appends bytes to the connection's buffer; returns at once."""

    def __init__(
        self,
        viewers: Viewers,
        open_stream: Callable[[], Stream],
        cursor: int,
        caller: Caller | None = None,
        owner: Principal = LOCAL,
    ) -> None:
        self._viewers = viewers
        self.owner = owner
        """Whose limit it counts for."""
        self.trace_id = current_trace_id()
        """The trace id of its request, which is being handled when the viewer is made."""
        self.caller = caller
        """Whose stream it is, if the caller's credential can end; the stream then ends with it."""
        self._open: Callable[[], Stream] | None = open_stream
        self._waiter: asyncio.Future[None] | None = None
        self.cursor = cursor
        """The last number it was sent; not updated while a feed counts for it."""
        self.head = RETRY
        """What is sent before the stream's own bytes."""
        self.stream: Stream | None = None
        self.task: asyncio.Task[None] | None = None
        """The task that sends it missed events, if there is one."""
        self.stuck_since = 0.0
        """Since when it has not been reading, on the loop's clock; 0 while it does."""
        self.inbound_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert self._open is not None
        self.transport = cast(asyncio.WriteTransport, transport)
        self.transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)
        self.write = self.transport.write
        self._viewers.add(self)
        if self.head:
            self.write(self.head)
        self.head = b""
        self.stream, self._open = self._open(), None
        self.stream.attach(self)

    def data_received(self, data: bytes) -> None:
        self.inbound_bytes += len(data)
        if self.inbound_bytes > MAX_INBOUND_BYTES:
            self.transport.abort()

    def pause_writing(self) -> None:
        self.stuck_since = self._viewers.loop.time()
        if self.stream is not None:
            self.stream.paused(self)

    def resume_writing(self) -> None:
        if self.is_gone:  # what is left in the buffer has to be read in time, too
            return
        self.stuck_since = 0.0
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self.stream is not None:
            self.stream.resumed(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._viewers.remove(self)
        if self.task is not None:
            self.task.cancel()
            self.task = None
        if self.stream is not None:
            self.stream.detach(self)
            self.stream = None

    @property
    def is_kept_alive(self) -> bool:
        """Whether it gets comments while nothing happens."""
        return self.stream is not None and self.stream.is_kept_alive

    @property
    def log_fields(self) -> dict[str, str | None]:
        """The fields of a log record about it; the loop's context has neither its caller nor its trace."""
        return {"tenant": self.owner.tenant, "principal": self.owner.id, "trace_id": self.trace_id}

    @property
    def is_gone(self) -> bool:
        """Whether its connection is closed or closing."""
        return self.transport.is_closing()

    async def room(self) -> None:
        """Return when the buffer has room."""
        while self.stuck_since and not self.is_gone:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._waiter = None

    def finish(self) -> None:
        """Close the connection after the buffered data, for which the client has ``STUCK_S``."""
        self.stuck_since = self._viewers.loop.time()
        self.transport.close()

    def drop(self, error: CallboardError | None = None) -> None:
        """Close the connection now, because of the error if there is one; the client resumes by its cursor."""
        if error is not None and self.stream is not None and not self.is_gone:
            self.stream.refuse(self, error)
        self.transport.abort()


class Viewers:
    """All viewers of one process: counts them, sends comments, and drops those that do not read. Used on the loop."""

    def __init__(
        self,
        loop: ProcessLoop,
        ended: Callable[[Collection[Caller]], Collection[Caller]],
        counts: ViewerCounts,
    ) -> None:
        self.backlog = Backlog()
        self.counts = counts
        self._ended = ended
        self._read = loop.read
        self.max_viewers = min(MAX_VIEWERS, _open_files() - SPARE_FILES)
        self._submit = loop.submit
        self.loop = loop.loop
        self._all: set[Viewer] = set()
        self._by_caller: dict[Caller, set[Viewer]] = {}
        self._keeping: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, viewer: Viewer) -> bool:
        return viewer in self._all

    # --- from any thread

    def require_room(self, owner: Principal) -> None:
        """Return if there is room for one more viewer of this principal.

        Streams that are opened at the same moment do not see each other, so a limit can be exceeded by these.

        Raises:
            Overloaded: this process has as many viewers as it can serve.
            TOO_MANY_VIEWERS: the principal or its tenant has as many as a limit allows.
        """
        if len(self) >= self.max_viewers:
            raise Overloaded(
                f"this server streams to {self.max_viewers:,} viewers already; try again in a moment, or read pages "
                "with Accept: application/json.",
                retry_after_s=5,
            )
        self.counts.require_room(owner)

    def welcome(self, taken: socket.socket, viewer: Viewer, channel: TlsChannel | None = None) -> None:
        """Serve the viewer on this socket, and in this TLS session, on the loop."""
        protocol = viewer if channel is None else TlsTransport(viewer, channel)

        async def connect() -> None:
            try:
                await self.loop.connect_accepted_socket(lambda: protocol, taken)
            except OSError as error:  # it disconnected meanwhile
                log.debug("viewer disconnected before it was served: %s", error, extra=viewer.log_fields)
                taken.close()

        self._submit(connect())

    # --- on the loop

    def add(self, viewer: Viewer) -> None:
        """Count the viewer, and send it comments at intervals."""
        self._all.add(viewer)
        self.counts.add(viewer.owner)
        if viewer.caller is not None:
            self._by_caller.setdefault(viewer.caller, set()).add(viewer)
        if not self._keeping:
            self._keeping = [self.loop.create_task(keep()) for keep in (self._beat, self._drop_stuck, self._drop_ended)]

    def remove(self, viewer: Viewer) -> None:
        """Forget the viewer, which has disconnected."""
        if viewer in self._all:
            self._all.remove(viewer)
            self.counts.remove(viewer.owner)
        self.backlog.release(viewer)
        if viewer.caller is not None and (others := self._by_caller.get(viewer.caller)) is not None:
            others.discard(viewer)
            if not others:
                del self._by_caller[viewer.caller]
        if not self._all:
            for task in self._keeping:
                task.cancel()
            self._keeping = []

    def drop_all(self) -> None:
        """Close every viewer's connection now; clients reconnect to another process with their cursors."""
        for viewer in tuple(self._all):
            viewer.drop(Overloaded(ENDS, retry_after_s=ENDS_RETRY_S))

    async def _beat(self) -> None:
        """Send a comment every ``BEAT_S``, so that proxies keep connections open and dead clients are noticed."""
        while True:
            await asyncio.sleep(BEAT_S)
            for number, viewer in enumerate(tuple(self._all)):
                if not viewer.stuck_since and not viewer.is_gone and viewer.is_kept_alive:
                    viewer.write(BEAT)
                if number % SLICE == SLICE - 1:
                    await asyncio.sleep(0)

    async def _drop_stuck(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            too_long = self.loop.time() - STUCK_S
            for viewer in [viewer for viewer in self._all if 0 < viewer.stuck_since < too_long]:
                log.info("viewer dropped: it did not read for %s s", STUCK_S, extra=viewer.log_fields)
                viewer.drop()

    async def _drop_ended(self) -> None:
        """Drop the viewers whose credential ended; those connect again and are refused.

        Asks once for all viewers of a caller. While the database does not answer, the streams stay open, as they do
        otherwise; it would not take a revocation either.
        """
        is_away = False
        while True:
            await asyncio.sleep(RECHECK_S)
            if not self._by_caller:
                continue
            try:
                ended = await self._read(self._ended, tuple(self._by_caller))
                is_away = False
            except CallboardError as error:
                if not is_away:
                    log.warning("credentials of open streams not checked until the database answers: %s", error)
                is_away = True
                continue
            for viewer in [viewer for caller in ended for viewer in self._by_caller.get(caller, ())]:
                log.info("viewer dropped: its credential is no longer valid", extra=viewer.log_fields)
                viewer.drop(Unauthenticated())


def _open_files() -> int:
    """Allow this process as many open files as it may have, and return how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_VIEWERS + SPARE_FILES
    most = target if hard == resource.RLIM_INFINITY else min(hard, target)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return target if soft == resource.RLIM_INFINITY else soft
