"""What comes of a batch of events, and where the cursors are behind a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bus.journal.tailing import CursorSpan, FailedDelivery, TailedRow
from config.redaction import redact
from observers.base import NotTaken


class PendingCall(NamedTuple):
    """A delivery that is under way."""

    row: TailedRow
    began_s: float


@dataclass(kw_only=True, slots=True)
class BatchOutcome:
    """What became of a batch."""

    count: int = 0
    """Rows that were looked at."""
    delivered: int = 0
    dropped: int = 0
    failures: list[FailedDelivery] = field(default_factory=list)


def cursor_behind(span: CursorSpan, after: CursorSpan, rows: Sequence[TailedRow], count: int) -> CursorSpan:
    """Return where the cursors are when so many of the rows between two places were delivered."""
    position = max(span.position, rows[count - 1].position)
    left = {row.position for row in rows[count:]}
    gaps = {gap for gap in after.gaps if gap <= position} | {number for number in left if number <= position}
    return replace(after, position=position, gaps=tuple(sorted(gaps)))


def reason_of(error: BaseException) -> str:
    """Return what a failed delivery is listed with."""
    text = " ".join(redact(str(error)).split())
    if isinstance(error, NotTaken):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
