"""The deliveries that an observer did not take: retried while their run waits, then dead until a person feeds them."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select, update

from bus.journal.tailing.log_rows import TailedRow, partition_of
from config.clock import epoch_ms
from config.database.tables import failed_deliveries

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 3600.0
MAX_ERROR_CHARS = 300


class DeliveryState(StrEnum):
    """What becomes of a failed delivery."""

    RETRYING = "retrying"
    """It is tried again; later events of its run wait."""
    DEAD = "dead"
    """It was given up: a dead letter. Later events of its run were delivered."""
    AGAIN = "again"
    """A dead letter that a person feeds again, by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedDelivery:
    """A delivery that failed."""

    run_id: str
    position: int
    seq: int
    type: str
    state: DeliveryState
    attempts: int
    error: str
    first_ms: int
    next_ms: int | None
    """When it is tried again; None: it is dead."""


def failed(
    row: TailedRow, error: str, earlier: FailedDelivery | None, retry_for_s: float, *, again_in_s: float = 0.0
) -> FailedDelivery:
    """Return the failure of a delivery, given that of the same delivery before; it is dead after ``retry_for_s``.

    ``again_in_s``: it is not tried again before, for up to the longest pause.
    """
    attempts, now_ms = (earlier.attempts if earlier is not None else 0) + 1, epoch_ms()
    first_ms = earlier.first_ms if earlier is not None else now_ms
    pause_ms = int(max(pause_s(attempts), min(again_in_s, LONGEST_PAUSE_S)) * 1000)
    is_single = earlier is not None and earlier.state is DeliveryState.AGAIN
    is_dead = is_single or now_ms + pause_ms - first_ms > retry_for_s * 1000
    return FailedDelivery(
        run_id=row.run_id,
        position=row.position,
        seq=row.payload.seq,
        type=row.payload.event_type,
        state=DeliveryState.DEAD if is_dead else DeliveryState.RETRYING,
        attempts=attempts,
        error=error[:MAX_ERROR_CHARS],
        first_ms=first_ms,
        next_ms=None if is_dead else now_ms + pause_ms,
    )


def due_now(row: TailedRow) -> FailedDelivery:
    """Return the delivery of an event that is due now, though none of it has failed yet."""
    earlier = failed(row, "", None, math.inf)
    return replace(earlier, attempts=0, next_ms=earlier.first_ms)


def pause_s(attempts: int) -> float:
    """Return the seconds between an attempt and the next: 1, 2, 4 and so on, an hour at most, a fifth of it random."""
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 20))
    return pause * random.uniform(0.8, 1.2)  # no secret


def store(connection: Connection, name: str, failures: Sequence[FailedDelivery], cleared: Collection[int]) -> None:
    """Write failures, and delete those of the ``cleared`` positions."""
    c = failed_deliveries.c
    if cleared:
        connection.execute(delete(failed_deliveries).where(c.observer == name, c.position.in_(sorted(cleared))))
    for failure in failures:
        values: dict[str, Any] = {name_: getattr(failure, name_) for name_ in FailedDelivery.__slots__}
        values |= {"observer": name, "partition": partition_of(failure.run_id)}
        is_this = c.observer == name, c.position == failure.position
        if not connection.execute(update(failed_deliveries).where(*is_this).values(values)).rowcount:
            connection.execute(insert(failed_deliveries).values(values))


def open_failures(connection: Connection, name: str, partitions: Collection[int]) -> list[FailedDelivery]:
    """Return the deliveries of these partitions that are to be tried again, now or later, in order."""
    c = failed_deliveries.c
    query = select(failed_deliveries).where(c.observer == name, c.state != DeliveryState.DEAD)
    return [_failure(row) for row in connection.execute(query.where(c.partition.in_(partitions)).order_by(c.position))]


def dead_letters(connection: Connection, name: str, limit: int = 1000) -> list[dict[str, Any]]:
    """Return the failed deliveries of an observer, the oldest first, as they are listed."""
    c = failed_deliveries.c
    query = select(failed_deliveries).where(c.observer == name).order_by(c.position).limit(limit)
    names = "id run_id seq type state attempts error first_ms next_ms".split()
    return [{name_: getattr(row, name_) for name_ in names} for row in connection.execute(query)]


def feed_again(connection: Connection, name: str, ids: Collection[int] | None) -> int:
    """Have dead letters delivered once more (None: all), and those that are retried now; return how many."""
    c = failed_deliveries.c
    chosen = [c.observer == name] if ids is None else [c.observer == name, c.id.in_(sorted(ids))]
    now_ms = epoch_ms()
    is_dead = c.state == DeliveryState.DEAD
    again = update(failed_deliveries).where(*chosen, is_dead).values(state=DeliveryState.AGAIN, next_ms=now_ms)
    sooner = update(failed_deliveries).where(*chosen, or_(c.next_ms > now_ms)).values(next_ms=now_ms)
    return connection.execute(again).rowcount + connection.execute(sooner).rowcount


def _failure(row: Any) -> FailedDelivery:
    values = {name: getattr(row, name) for name in FailedDelivery.__slots__}
    return FailedDelivery(**{**values, "state": DeliveryState(row.state)})
