"""The hot log: the newest events of every run, deltas before they are sealed. It may lose everything at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from bus.journal.live.trimmer import Trimmer
from bus.journal.log.line import Line, stored_line, to_line

T = TypeVar("T")
Listener = Callable[[list[Line]], None]
"""Called on the loop with what was appended; an empty list says that something may have been missed."""


class LogSource(Protocol):
    """The writer of a run, as the hot log sees it."""

    @property
    def tenant(self) -> str:
        """Whose run it is."""

    @property
    def sealed_to(self) -> int:
        """Every number up to here is in SQL."""

    def seal_soon(self) -> None:
        """The hot log lacks earlier events, is full, or saw another owner: write the deltas held to SQL, which also
        shows whether the run still has this owner."""

    def lost_ownership(self) -> None:
        """A later owner's fence was seen: stop writing."""


class HotLog(Protocol):
    """Append, follow, read. All methods are called on the process's loop."""

    def attach(self, run_id: str, fence: int, source: LogSource) -> bool:
        """Let ``source`` write the run's log from now on, and return whether it does: of two in this process the
        older owner is notified that it lost the run."""

    def is_written_by(self, run_id: str, fence: int) -> bool:
        """Return whether the owner with this fence writes the run's log here."""

    def append(self, run_id: str, seq: int, line: bytes) -> None:
        """Add one event behind the others; returns at once."""

    def hint_stored(self, run_id: str, upto: int) -> None:
        """Have the run's followers read in SQL what it has up to this number and was not appended here."""

    async def detach(self, run_id: str, fence: int | None = None) -> None:
        """Let the run's log expire, after everything appended has left; with a ``fence``, only if it is
        that owner who writes here."""

    async def follow(self, tenant: str, run_id: str, listener: Listener) -> None:
        """Call ``listener`` with everything appended after this returned."""

    async def unfollow(self, tenant: str, run_id: str, listener: Listener) -> None:
        """Call ``listener`` no more."""

    async def read_after(self, tenant: str, run_id: str, cursor: int) -> list[Line]:
        """Return what is held with numbers above ``cursor``, in order."""

    @property
    def is_live(self) -> bool:
        """Whether listeners get at once what is appended; where not, readers query SQL more often."""

    @property
    def is_down(self) -> bool:
        """Whether the last attempt to write failed, so that other processes get no events of this one."""

    async def keep(self, runs: Iterable[tuple[str, str]]) -> None:
        """Put off the expiry of these runs' logs; each is a tenant and a run id."""

    def nudge(self, channel: str, text: str) -> None:
        """Send a hint to every process that listens on ``channel``, where possible."""

    def announce(self, database_id: str) -> None:
        """Say that workers of this database are at work, and find out whether other processes can be reached."""

    async def listen(self, channel: str, function: Callable[[str], None]) -> None:
        """Call ``function`` with each text nudged on ``channel``."""

    def unlisten(self, channel: str, function: Callable[[str], None]) -> None:
        """Call ``function`` no more."""

    async def close(self) -> None:
        """Send what is pending and close every connection."""


def remove_from(registered: dict[str, list[T]], name: str, entry: T) -> bool:
    """Remove one of those registered under a name, and return whether it was the last."""
    others = registered.get(name, [])
    if entry in others:
        others.remove(entry)
    return not others and registered.pop(name, None) is not None


@dataclass(slots=True)
class _HeldRun:
    """A run that this process writes."""

    fence: int
    source: LogSource
    lines: list[Line]


class MemoryHotLog:
    """The hot log of a process that is alone: `callboard run` without Redis, and the one-process mode."""

    def __init__(self, max_events: int = 10_000) -> None:
        self._runs: dict[str, _HeldRun] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._channels: dict[str, list[Callable[[str], None]]] = {}
        self._max_events = max_events

    def attach(self, run_id: str, fence: int, source: LogSource) -> bool:
        earlier = self._runs.get(run_id)
        if earlier is not None and earlier.source is not source:
            if fence < earlier.fence:
                source.lost_ownership()
                return False
            earlier.source.lost_ownership()
        self._runs[run_id] = _HeldRun(fence, source, earlier.lines if earlier is not None else [])
        return True

    def is_written_by(self, run_id: str, fence: int) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.fence == fence

    def append(self, run_id: str, seq: int, line: bytes) -> None:
        run = self._runs.get(run_id)
        if run is None or (run.lines and run.lines[-1].seq >= seq):  # this process no longer writes it, or did so
            return
        entry = to_line(line)
        run.lines.append(entry)
        if len(run.lines) > self._max_events:
            self._trim(run)
        self._notify(run_id, entry)

    def hint_stored(self, run_id: str, upto: int) -> None:
        run = self._runs.get(run_id)
        if run is None or not run.lines or run.lines[-1].seq < upto:
            self._notify(run_id, to_line(stored_line(upto)))

    def _notify(self, run_id: str, line: Line) -> None:
        for listener in tuple(self._listeners.get(run_id, ())):
            listener([line])

    def _trim(self, run: _HeldRun) -> None:
        """Forget what SQL has; where that is too little, have more put there."""
        sealed_to = run.source.sealed_to
        run.lines = [line for line in run.lines if line.seq > sealed_to]
        if len(run.lines) > self._max_events // 2:
            run.source.seal_soon()

    async def detach(self, run_id: str, fence: int | None = None) -> None:
        run = self._runs.get(run_id)
        if run is not None and fence in (None, run.fence):
            del self._runs[run_id]  # SQL has all of it, and no other process can read this one's memory

    async def follow(self, tenant: str, run_id: str, listener: Listener) -> None:
        self._listeners.setdefault(run_id, []).append(listener)

    async def unfollow(self, tenant: str, run_id: str, listener: Listener) -> None:
        remove_from(self._listeners, run_id, listener)

    async def read_after(self, tenant: str, run_id: str, cursor: int) -> list[Line]:
        run = self._runs.get(run_id)
        return [line for line in run.lines if line.seq > cursor] if run is not None else []

    @property
    def is_live(self) -> bool:
        return True

    @property
    def is_down(self) -> bool:
        return False

    async def keep(self, runs: Iterable[tuple[str, str]]) -> None:
        """Nothing expires while the process lives."""

    def nudge(self, channel: str, text: str) -> None:
        for function in tuple(self._channels.get(channel, ())):
            function(text)

    def announce(self, database_id: str) -> None:
        """There is no other process."""

    async def listen(self, channel: str, function: Callable[[str], None]) -> None:
        self._channels.setdefault(channel, []).append(function)

    def unlisten(self, channel: str, function: Callable[[str], None]) -> None:
        remove_from(self._channels, channel, function)

    async def close(self) -> None:
        self._listeners.clear()


# --- a run that this process writes into Redis


@dataclass(slots=True)
class Pending:
    """What one run has appended since the last batch left."""

    first: int
    last: int
    lines: list[bytes]
    size: int


@dataclass(slots=True, eq=False)
class WrittenRun:
    """One owner's part of a run's hot log."""

    run_id: str
    fence: int
    source: LogSource
    stream: str
    meta: str
    channel: str
    trimmer: Trimmer
    """Decides what stays in Redis when this owner detaches."""
    key: bytes = b""
    """What its events are signed with; made when the first leave."""
    pending: list[Pending] = field(default_factory=list)
    last: int = 0
    """The number of the last event appended."""
    stored_to: int = 0
    """Up to which number followers are to read SQL, where a hint is to leave with the next batch."""
    held: int = 0
    """Bytes that Redis holds of the run, as the last answer said."""
    accounted: int = 0
    """Bytes that its tenant's account has of it."""

    @property
    def left_bytes(self) -> int:
        """Bytes that Redis holds of it after its owner has detached."""
        kept_bytes = self.trimmer.kept_bytes
        return self.held if kept_bytes is None else min(self.held, kept_bytes)
