"""The durable cursors of observers that tail the log, and which members feed which partitions of the runs.

A member is one thread of one process. It owns partitions as long as it renews its row; those of a member that does not
are free. Each moves its cursors with a comparison (the owner and the position that it knows), so that a member that was
taken for dead, or whose observer was reset meanwhile, moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bus.journal.ownership.workers import is_gone
from bus.journal.tailing.errors import OBSERVER_AHEAD, OBSERVER_UNKNOWN
from bus.journal.tailing.failures import DeliveryState, FailedDelivery, store
from bus.journal.tailing.log_rows import (
    PARTITIONS,
    CursorSpan,
    TailedRow,
    head_of,
    partition_of,
    position_at,
)
from config.clock import ms_of, stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import failed_deliveries, observer_cursors, observer_members, observers
from config.errors import SettingInvalid

ALIVE_MS = 10_000
"""A member that has not renewed its row for so long has lost its partitions."""
BEAT_MS = 2_000
"""A member renews its row when it is so old."""
NOW, BEGINNING = "now", "beginning"


class NotWritten(Exception):
    """What the observer writes in the transaction of its cursor failed; nothing was stored. The cause says why."""


class CursorLost(Exception):
    """Another member owns the partitions, or the observer was reset or removed: nothing was stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A thread that feeds an observer."""

    id: str
    host: str
    pid: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberClaim:
    """What a member feeds now."""

    spans: Sequence[CursorSpan]
    is_paused: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorProgress:
    """What a member has delivered, and what follows from that."""

    before: CursorSpan
    after: CursorSpan
    delivered: int = 0
    dropped: int = 0
    failures: Sequence[FailedDelivery] = ()
    """New and changed ones."""
    cleared: Collection[int] = ()
    """The positions of failed deliveries that are over."""


class ObserverCursors:
    """The cursors of all observers; the methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, name: str, class_path: str, delivery: str, selection_json: str | None, start: str) -> bool:
        """Store what the observer is, and return whether it is new: then its cursors are set to ``start``.

        Raises:
            OBSERVER_AHEAD: it is to start beyond the end of the log.
            SettingInvalid: a process feeds another class under this name.
        """
        values = {"class_path": class_path, "delivery": delivery, "selection_json": selection_json}
        with self._database.write() as connection:
            dialect = sqlite if self._database.is_sqlite else postgresql
            row = {"name": name, "paused": False, "created_ms": WALL_MS, **values}
            inserting = dialect.insert(observers).values(row).on_conflict_do_nothing().returning(observers.c.name)
            if connection.execute(inserting).first() is None:
                _require_class(connection, name, class_path)
                connection.execute(update(observers).where(observers.c.name == name).values(values))
                return False
            place = place_of(connection, start, name)
            rows = [_cursor(name, number, place) for number in range(PARTITIONS)]
            connection.execute(insert(observer_cursors), rows)
            return True

    def claim(self, name: str, member: Member) -> MemberClaim:
        """Renew the member, take or free partitions so that all members have as many, and return what it feeds.

        Raises:
            OBSERVER_UNKNOWN: the observer was removed.
        """
        with self._database.read() as connection:
            claim = _unchanged(connection, name, member)
        if claim is not None:
            return claim
        with self._database.write() as connection:
            is_paused = _is_paused(connection, name, lock=True)
            _renew(connection, name, member)
            alive, rows = _alive(connection, name, forget=True), _cursors(connection, name)
            owned = [row for row in rows if row.owner == member.id]
            free = [row for row in rows if row.owner not in alive]
            fair = -(-PARTITIONS // len(alive))
            if len(owned) > fair:
                _give(connection, name, owned[fair:], None)
            elif free and len(owned) < fair:
                more = free[: fair - len(owned)]
                _give(connection, name, more, member.id)
                owned += more
            return MemberClaim(spans=merged(_span(row) for row in owned[:fair]), is_paused=is_paused)

    def beat(self, name: str, member: Member) -> None:
        """Renew the member, so that it keeps its partitions during a long delivery."""
        c = observer_members.c
        renewing = update(observer_members).where(c.observer == name, c.id == member.id)
        with self._database.write() as connection:  # no row is inserted: the observer may have been removed meanwhile
            connection.execute(renewing.values(seen_ms=WALL_MS))

    def leave(
        self,
        name: str,
        member: Member,
        failure: FailedDelivery | None = None,
        *,
        dropped: TailedRow | None = None,
    ) -> None:
        """Free the member's partitions at once, with a delivery that has failed meanwhile.

        ``dropped``: the event is not delivered again, nor what its partition had before it.
        """
        c, cursors = observer_members.c, observer_cursors.c
        with self._database.write() as connection:
            store(connection, name, [failure] if failure is not None else [], ())
            owned = cursors.observer == name, cursors.owner == member.id
            if dropped is not None:
                is_its = cursors.partition == partition_of(dropped.run_id), cursors.position < dropped.position
                passing = update(observer_cursors).where(*owned, *is_its)
                connection.execute(passing.values(position=dropped.position, dropped=cursors.dropped + 1))
            connection.execute(update(observer_cursors).where(*owned).values(owner=None))
            connection.execute(delete(observer_members).where(c.observer == name, c.id == member.id))

    def advance(
        self,
        name: str,
        member: Member,
        progress: CursorProgress,
        store_too: Callable[[Connection], object] | None = None,
    ) -> None:
        """Move the cursors and store failed deliveries, and what the observer writes itself, in one transaction.

        Raises:
            CursorLost: they are not this member's any more, or not where it left them.
            NotWritten: the observer has not written what it has to.
        """
        before, after = progress.before, progress.after
        first = min(before.partitions)
        with self._database.write() as connection:
            c = observer_cursors.c
            is_held = c.observer == name, c.owner == member.id, c.position == before.position
            moving = update(observer_cursors).where(*is_held, c.partition.in_(sorted(before.partitions)))
            gaps = orjson.dumps(after.gaps).decode() if after.gaps else None
            moved = connection.execute(moving.values(position=after.position, gaps_json=gaps))
            if moved.rowcount != len(before.partitions):
                raise CursorLost(name)
            if progress.delivered or progress.dropped:  # one row has the sums
                counted = {"delivered": c.delivered + progress.delivered, "dropped": c.dropped + progress.dropped}
                counting = update(observer_cursors).where(c.observer == name, c.partition == first)
                connection.execute(counting.values(counted))
            store(connection, name, progress.failures, progress.cleared)
            if store_too is not None:
                _write_too(store_too, connection)

    def reset(self, name: str, start: str) -> int:
        """Set all cursors to ``start``, forget failed deliveries that come again, and return the position.

        Raises:
            OBSERVER_UNKNOWN: there is no such observer.
            OBSERVER_AHEAD: the place is beyond the end of the log.
        """
        with self._database.write() as connection:
            _is_paused(connection, name, lock=True)
            place = place_of(connection, start, name)
            setting = update(observer_cursors).where(observer_cursors.c.observer == name)
            connection.execute(setting.values(position=place, gaps_json=None, owner=None))
            c = failed_deliveries.c
            is_over = or_(c.state != DeliveryState.DEAD, c.position > place)
            connection.execute(delete(failed_deliveries).where(c.observer == name, is_over))
            return place

    def pause(self, name: str, *, is_paused: bool) -> None:
        """Stop feeding the observer within a second, or feed it again.

        Raises:
            OBSERVER_UNKNOWN: there is no such observer.
        """
        with self._database.write() as connection:
            _is_paused(connection, name, lock=True)
            connection.execute(update(observers).where(observers.c.name == name).values(paused=is_paused))

    def remove(self, name: str) -> None:
        """Forget the observer with its cursors and failed deliveries; the log is kept for it no longer.

        Raises:
            OBSERVER_UNKNOWN: there is no such observer.
        """
        with self._database.write() as connection:
            _is_paused(connection, name, lock=True)
            connection.execute(delete(observers).where(observers.c.name == name))


def _write_too(write: Callable[[Connection], object], connection: Connection) -> None:
    try:
        write(connection)
    except Exception as error:  # also of the database: a table that is missing is no database that is away
        raise NotWritten from error


def place_of(connection: Connection, start: str, name: str) -> int:
    """Return the position behind which an observer starts: ``now``, ``beginning``, a time, or a position.

    Raises:
        OBSERVER_AHEAD: the position is beyond the end of the log.
    """
    head = head_of(connection)
    if start == NOW:
        return head
    if start == BEGINNING:
        return 0
    if not start.isdigit():
        return position_at(connection, stamp(ms_of(start)))
    if int(start) > head:
        raise OBSERVER_AHEAD(name=name, position=start, last=head)
    return int(start)


def merged(spans: Any) -> list[CursorSpan]:
    """Return the spans with those at the same place as one, the earliest first."""
    by_place: dict[tuple[int, tuple[int, ...]], frozenset[int]] = {}
    for span in spans:
        place = span.position, span.gaps
        by_place[place] = by_place.get(place, frozenset()) | span.partitions
    return [
        CursorSpan(partitions=partitions, position=position, gaps=gaps)
        for (position, gaps), partitions in sorted(by_place.items())
    ]


def _cursor(name: str, partition: int, position: int) -> dict[str, Any]:
    return {"observer": name, "partition": partition, "position": position, "delivered": 0, "dropped": 0}


def _span(row: Any) -> CursorSpan:
    gaps = tuple(orjson.loads(row.gaps_json)) if row.gaps_json is not None else ()
    return CursorSpan(partitions=frozenset({row.partition}), position=row.position, gaps=gaps)


def _is_paused(connection: Connection, name: str, *, lock: bool = False) -> bool:
    """Return whether the observer is paused; with ``lock`` one member at a time changes who owns what."""
    query = select(observers.c.paused).where(observers.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise OBSERVER_UNKNOWN(name=name)
    return bool(row.paused)


def _require_class(connection: Connection, name: str, class_path: str) -> None:
    """Check that no process feeds another class under the name: each would get a part of the runs."""
    feeding = select(observer_members).where(observer_members.c.observer == name)
    alive = _alive(connection, name)
    members = [row for row in connection.execute(feeding) if row.id in alive]
    other = connection.execute(select(observers.c.class_path).where(observers.c.name == name)).scalar_one()
    if members and other != class_path:
        place = f"process {members[0].pid} on {members[0].host}"
        raise SettingInvalid(
            f"observer '{name}' is fed with the class {other} by {place}; end that process before this one feeds "
            f"{class_path}, or choose another name."
        )


def _cursors(connection: Connection, name: str) -> Sequence[Any]:
    query = select(observer_cursors).where(observer_cursors.c.observer == name)
    return connection.execute(query.order_by(observer_cursors.c.partition)).all()


def _unchanged(connection: Connection, name: str, member: Member) -> MemberClaim | None:
    """Return what a member feeds where nothing has to be written: its row is fresh, and it has its share."""
    is_paused = _is_paused(connection, name)
    c = observer_members.c
    is_fresh = c.observer == name, c.id == member.id, c.seen_ms > WALL_MS - BEAT_MS
    if connection.execute(select(c.id).where(*is_fresh)).first() is None:
        return None
    alive, rows = _alive(connection, name), _cursors(connection, name)
    owned = [row for row in rows if row.owner == member.id]
    fair, are_free = -(-PARTITIONS // len(alive)), any(row.owner not in alive for row in rows)
    if len(owned) > fair or (are_free and len(owned) < fair):
        return None
    return MemberClaim(spans=merged(_span(row) for row in owned), is_paused=is_paused)


def _renew(connection: Connection, name: str, member: Member) -> None:
    c = observer_members.c
    is_member = c.observer == name, c.id == member.id
    if not connection.execute(update(observer_members).where(*is_member).values(seen_ms=WALL_MS)).rowcount:
        row = {"id": member.id, "host": member.host, "pid": member.pid, "version": member.version}
        connection.execute(insert(observer_members).values(observer=name, seen_ms=WALL_MS, **row))


def _alive(connection: Connection, name: str, *, forget: bool = False) -> set[str]:
    """Return the members that feed the observer; with ``forget`` delete the rows of those that do not any more."""
    c = observer_members.c
    query = select(c.id, c.seen_ms, WALL_MS.label("now_ms")).where(c.observer == name)
    rows = connection.execute(query).all()
    dead = {row.id for row in rows if row.seen_ms < row.now_ms - ALIVE_MS or is_gone(row.id)}
    if dead and forget:
        connection.execute(delete(observer_members).where(c.observer == name, c.id.in_(dead)))
    return {row.id for row in rows} - dead


def _give(connection: Connection, name: str, rows: Sequence[Any], owner: str | None) -> None:
    c = observer_cursors.c
    partitions = [row.partition for row in rows]
    connection.execute(
        update(observer_cursors).where(c.observer == name, c.partition.in_(partitions)).values(owner=owner)
    )
