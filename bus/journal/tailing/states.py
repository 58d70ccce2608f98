"""How the observers that tail the log are: how far behind, who feeds them, and what they did not take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, func, select

from bus.journal.ownership.workers import is_gone
from bus.journal.tailing.cursors import ALIVE_MS
from bus.journal.tailing.failures import DeliveryState
from bus.journal.tailing.log_rows import head_of, oldest_after
from config.clock import ms_of
from config.database.engine import WALL_MS
from config.database.tables import failed_deliveries, observer_cursors, observer_members, observers


@dataclass(frozen=True, kw_only=True, slots=True)
class ObserverState:
    """How an observer that tails the log is."""

    name: str
    class_path: str
    delivery: str
    selection: Mapping[str, Sequence[str]]
    """Which events it takes; empty: all."""
    state: str
    """``running``, ``paused``, or ``stopped``: no process feeds it."""
    threads: Sequence[Mapping[str, Any]]
    """Which threads feed it: ``host``, ``pid`` and ``version`` of their processes."""
    position: int
    """Of the last row of the log that it has had, whatever its partitions have had behind it."""
    behind: int
    """Positions from there to the end of the log."""
    behind_s: float
    """Seconds since the first event behind it was numbered, or since a delivery failed that is tried again; else 0."""
    delivered: int
    dropped: int
    retrying: int
    """Deliveries that failed and are tried again; their runs wait."""
    dead: int
    """Dead letters."""

    @property
    def is_late(self) -> bool:
        """Whether a person should look at it."""
        return self.behind_s > LATE_S or self.dead > 0 or (self.state == "stopped" and self.behind + self.retrying > 0)


LATE_S = 60.0
"""An observer that is further behind is named by the doctor, by ``/health`` and by the page."""


def observer_states(connection: Connection) -> list[ObserverState]:
    """Return all observers that tail the log, by name."""
    head, now_ms = head_of(connection), connection.execute(select(WALL_MS)).scalar_one()
    return [_state(connection, row, head, now_ms) for row in connection.execute(_OBSERVERS)]


_OBSERVERS = select(observers).order_by(observers.c.name)


def _state(connection: Connection, row: Any, head: int, now_ms: int) -> ObserverState:
    cursors, members, failures = observer_cursors.c, observer_members.c, failed_deliveries.c
    sums = select(func.min(cursors.position), func.sum(cursors.delivered), func.sum(cursors.dropped))
    position, delivered, dropped = connection.execute(sums.where(cursors.observer == row.name)).one()
    feeding = connection.execute(select(observer_members).where(members.observer == row.name).order_by(members.id))
    threads = [each for each in feeding if each.seen_ms >= now_ms - ALIVE_MS and not is_gone(each.id)]
    counting = select(failures.state, func.count(), func.min(failures.first_ms)).where(failures.observer == row.name)
    by_state = {each[0]: each for each in connection.execute(counting.group_by(failures.state))}
    dead = by_state.pop(DeliveryState.DEAD, None)
    oldest = oldest_after(connection, position) if position < head else None
    since_ms = [now_ms, *(ms for _, _, ms in by_state.values()), *([ms_of(oldest)] if oldest is not None else [])]
    return ObserverState(
        name=row.name,
        class_path=row.class_path,
        delivery=row.delivery,
        selection=orjson.loads(row.selection_json or "{}"),
        state="paused" if row.paused else "running" if threads else "stopped",
        threads=[{"host": each.host, "pid": each.pid, "version": each.version} for each in threads],
        position=position,
        behind=head - position,
        behind_s=(now_ms - min(since_ms)) / 1000,
        delivered=int(delivered),  # Postgres's sums are decimals
        dropped=int(dropped),
        dead=dead[1] if dead is not None else 0,
        retrying=sum(count for _, count, _ in by_state.values()),
    )
