"""A run that this process writes into Redis: its names, what is pending, and how much of it Redis holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from bus.journal.live.hotlog import LogSource
from bus.journal.live.trimmer import Trimmer


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
