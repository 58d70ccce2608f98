"""The board: the runs that a principal may see, queried once for all viewers of the same principal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import orjson

from bus.journal.readers import Line
from config.errors import CallboardError
from config.identity.principal import Principal
from web.feeds.page import frame
from web.feeds.viewers import Stream, Viewer

if TYPE_CHECKING:
    from bus.journal import Journal

log = logging.getLogger(__name__)

POLL_S = 2.0
"""Seconds between two queries without a hint that something changed, since hints may be lost."""
GATHER_S = 0.1
"""Seconds for which hints are gathered, since changes come in bursts."""
MIN_PAUSE_S = 0.4
"""The shortest pause between two queries; forged hints may arrive in floods."""
PAUSE_FACTOR = 10
"""The pause is this many times as long as the last query, so that the board takes at most a tenth of the time."""


class TenantBoards:
    """The boards of one tenant's principals in this process. They share the subscription to hints about its runs."""

    def __init__(self, journal: Journal, tenant: str, on_empty: Callable[[TenantBoards], None]) -> None:
        self.tenant = tenant
        self._journal = journal
        self._on_empty = on_empty
        self._channel = journal.live.keys.board(tenant)
        self._boards: dict[Principal, BoardFeed] = {}
        self._subscribing: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[BoardFeed]:
        return iter(tuple(self._boards.values()))

    def board(self, principal: Principal) -> BoardFeed:
        """Return the one board of a principal of the tenant."""
        if principal not in self._boards:
            self._boards[principal] = BoardFeed(
                principal, self._journal, subscribe=self._subscribe, on_stopped=self._forget
            )
        return self._boards[principal]

    def _forget(self, board: BoardFeed) -> None:
        if self._boards.get(board.principal) is not board:
            return
        del self._boards[board.principal]
        if not self._boards:
            self._on_empty(self)
            if self._subscribing is not None:
                self._subscribing.add_done_callback(self._unsubscribe)

    def _unsubscribe(self, _subscribed: asyncio.Task[None]) -> None:
        self._journal.live.hot_log.unlisten(self._channel, self._on_nudge)

    async def _subscribe(self) -> None:
        """Subscribe to hints about changes, once; a board that ends meanwhile does not cancel it."""
        if self._subscribing is None:
            listening = self._journal.live.hot_log.listen(self._channel, self._on_nudge)
            self._subscribing = asyncio.get_running_loop().create_task(listening)
        await asyncio.shield(self._subscribing)

    def _on_nudge(self, _run_id: str) -> None:
        for board in self:
            board.nudge()


class BoardFeed(Stream):
    """A ``snapshot`` first, then a ``run`` for each summary that changed, and a ``board`` with the counts and the ids
    of runs that are no longer shown. Numbers only grow within a process."""

    def __init__(
        self,
        principal: Principal,
        journal: Journal,
        *,
        subscribe: Callable[[], Awaitable[None]],
        on_stopped: Callable[[BoardFeed], None],
    ) -> None:
        self.principal = principal
        self._journal = journal
        self._subscribe = subscribe
        self._on_stopped = on_stopped
        self._viewers: set[Viewer] = set()
        self._shown = _EncodedBoard({}, b"{}")
        self._number = 0
        self._is_database_away = False  # logged once per outage
        self._snapshot: bytes | None = None
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    # --- viewers (Stream)

    def attach(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        self.resumed(viewer)

    def detach(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        if not self._viewers:
            self.stop()

    def resumed(self, viewer: Viewer) -> None:
        if self._number:  # else the first query sends it
            viewer.write(self._snapshot_frame())
            self.nudge()

    def nudge(self) -> None:
        """Query SQL soon: something may have changed."""
        self._changed.set()

    def stop(self) -> None:
        self._on_stopped(self)
        if self._watching is not None:
            self._watching.cancel()

    # --- querying

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._subscribe()
            while True:
                began = loop.time()
                await self._refresh()
                await asyncio.sleep(max(MIN_PAUSE_S, (loop.time() - began) * PAUSE_FACTOR))
                await self._wait()
        except Exception:
            log.exception("board failed; its viewers reconnect")
            self._on_stopped(self)
            for viewer in tuple(self._viewers):
                viewer.drop()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._changed.wait()
            await asyncio.sleep(GATHER_S)
        self._changed.clear()

    async def _refresh(self) -> None:
        try:
            board = await self._journal.loop.read(self._read)
        except CallboardError as error:
            if not self._is_database_away:
                log.warning("board not refreshed until the database answers: %s", error)
            self._is_database_away = True
            return
        self._is_database_away = False
        before, self._shown = self._shown, board
        if not self._number:
            self._number = 1
            for viewer in tuple(self._viewers):
                viewer.write(self._snapshot_frame())
        elif board != before:
            self._snapshot = None
            self._send(board.changes_since(before))

    def _read(self) -> _EncodedBoard:
        board = self._journal.readers.runs.board(self.principal)
        return _EncodedBoard({run["run_id"]: orjson.dumps(run) for run in board.runs}, orjson.dumps(board.counts))

    def _send(self, changes: list[tuple[str, bytes]]) -> None:
        frames = []
        for event, data in changes:
            self._number += 1
            frames.append(frame(Line(self._number, event, data)))
        joined = b"".join(frames)
        for viewer in tuple(self._viewers):
            if not viewer.stuck_since:
                viewer.write(joined)

    def _snapshot_frame(self) -> bytes:
        if self._snapshot is None:
            self._snapshot = frame(Line(self._number, "snapshot", self._shown.as_json()))
        return self._snapshot


class _EncodedBoard(NamedTuple):
    """What the board shows, encoded."""

    runs: dict[str, bytes]
    counts: bytes

    def as_json(self) -> bytes:
        return b'{"runs":[%s],"counts":%s}' % (b",".join(self.runs.values()), self.counts)

    def changes_since(self, before: _EncodedBoard) -> list[tuple[str, bytes]]:
        """Return the events that make a client that shows ``before`` show this."""
        events = [("run", data) for run_id, data in self.runs.items() if before.runs.get(run_id) != data]
        gone = [run_id for run_id in before.runs if run_id not in self.runs]
        if gone or self.counts != before.counts:
            events.append(("board", b'{"counts":%s,"gone":%s}' % (self.counts, orjson.dumps(gone))))
        return events
