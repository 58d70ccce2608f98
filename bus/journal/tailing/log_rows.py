"""The log of all runs in the order of its rows' positions, as observers that tail it read it.

On Postgres a transaction that began earlier may commit later, so that a smaller position appears behind a larger one.
A reader passes such a gap, notes it, and looks there again until every transaction that could fill it has ended. The
order within a run is kept all the same: its transactions lock its row, one after the other. SQLite has one writer at a
time, and no gaps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, and_, bindparam, func, or_, select, text

from bus.journal.log.results import RESULT_BYTES, refers, with_results_of
from bus.journal.paging import PAGE_BYTES, Pages
from bus.journal.tailing.errors import OBSERVER_AHEAD
from bus.payloads import Payload, decode
from config.database.tables import events, runs
from config.ids import ALPHABET

PARTITIONS = len(ALPHABET)
"""Parts of the runs, by the last character of their ids, which is random."""
_AT = len("run_") + 26
BATCH = 1000
"""Rows read at a time."""
AHEAD = 20_000
"""Positions that one read passes at most, however few rows of them are wanted."""
FACTS = """
    id kind thread_id tenant principal fence detached metadata_json trace_id correlation_id context_json labels_json
    agent_id agent_name model handed_from_json parent_id
""".split()


def partition_of(run_id: str) -> int:
    """Return the part of the runs to which this one belongs."""
    return ALPHABET.index(run_id[_AT - 1])


class TailedRow(NamedTuple):
    """A committed event of a run."""

    position: int
    run_id: str
    payload: Payload


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorSpan:
    """Partitions whose cursors are at one place."""

    partitions: frozenset[int]
    position: int
    """Of the last row that was passed."""
    gaps: tuple[int, ...] = ()
    """Smaller positions that no row had when they were passed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What follows a span's cursors."""

    rows: Sequence[TailedRow]
    """In order; the first ones may fill gaps."""
    position: int
    """Where the cursors are behind the rows."""
    gaps: tuple[int, ...]
    head: int
    """The position of the newest row."""


class LogReader:
    """Reads the rows behind cursors; one for each thread, since it remembers up to where the log is settled."""

    def __init__(self, name: str) -> None:
        """``name``: of the observer."""
        self._name = name
        self._settled = 0
        self._sample: tuple[int, int] | None = None

    def read(self, connection: Connection, span: CursorSpan, types: Collection[str] = (), limit: int = BATCH) -> Batch:
        """Return a batch of committed events: at most ``limit`` or 1 MB, without pieces of text.

        Raises:
            OBSERVER_AHEAD: the log does not reach to the cursor; the database is an older copy.
        """
        head = self._look(connection)
        if span.position > head:
            raise OBSERVER_AHEAD(name=self._name, position=span.position, last=head)
        upto = min(head, span.position + AHEAD)
        first = min(upto, max(span.position, self._settled))
        present = _positions(connection, first, upto) if upto > first else ()
        filled = _those_of(connection, span.gaps) if span.gaps else ()
        rows, is_cut = _rows(connection, span, upto, filled, types, limit)
        if is_cut:
            upto = max(span.position, rows[-1].position)
        gaps = {gap for gap in span.gaps if gap > self._settled} - {*filled}
        gaps |= {*range(first + 1, upto + 1)} - {*present} - {row.position for row in rows}
        if is_cut:
            gaps |= {gap for gap in filled if gap > rows[-1].position}
        payloads = with_payloads(connection, rows)
        return Batch(rows=payloads, position=upto, gaps=tuple(sorted(gaps)), head=head)

    def _look(self, connection: Connection) -> int:
        """Return the newest row's position, and note up to where no row can appear any more."""
        head = head_of(connection)
        if connection.dialect.name != "postgresql":
            self._settled = head
        elif head > self._settled:
            # A transaction has its id before it takes a position. So each position up to the head belongs to one with
            # a smaller id than a transaction that begins now, and none of these runs once the oldest has that id.
            if self._sample is None:
                self._sample = head, connection.execute(_NEXT_TRANSACTION).scalar_one()
            if connection.execute(_OLDEST_TRANSACTION).scalar_one() >= self._sample[1]:
                self._settled, self._sample = self._sample[0], None
        return head


def head_of(connection: Connection) -> int:
    """Return the highest position that was given out; rows with it may be removed, or not be committed yet."""
    is_postgres = connection.dialect.name == "postgresql"
    return connection.execute(_LAST_OF_POSTGRES if is_postgres else _LAST_OF_SQLITE).scalar() or 0


_LAST_OF_POSTGRES = text("SELECT last_value FROM events_position_seq WHERE is_called")
_LAST_OF_SQLITE = text("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
_NEXT_TRANSACTION = text("SELECT pg_current_xact_id()::text::bigint")
_OLDEST_TRANSACTION = text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")


def _positions(connection: Connection, after: int, upto: int) -> Collection[int]:
    return connection.execute(_PRESENT, {"after": after, "upto": upto}).scalars().all()


def _those_of(connection: Connection, positions: Sequence[int]) -> Collection[int]:
    return connection.execute(_VISIBLE, {"positions": list(positions)}).scalars().all()


_c = events.c
_PRESENT = select(_c.position).where(_c.position > bindparam("after"), _c.position <= bindparam("upto"))
_VISIBLE = select(_c.position).where(_c.position.in_(bindparam("positions", expanding=True)))
_ROWS = select(*_c["position", "run_id", "seq", "type", "data_json"]).where(_c.type != "block")


def _rows(
    connection: Connection, span: CursorSpan, upto: int, filled: Collection[int], types: Collection[str], limit: int
) -> tuple[Sequence[Row[Any]], bool]:
    """Return the rows behind a span's cursors, and whether there are more up to this position."""
    chars = [ALPHABET[number] for number in sorted(span.partitions)]
    values = {"after": span.position, "upto": upto, "limit": limit, "filled": list(filled)}
    values |= {"types": sorted(types), "chars": chars}
    rows, is_cut = _fitting(*_pages(bool(types), len(chars) < PARTITIONS).read(connection, values))
    return rows, is_cut or len(rows) == limit


_PAGES: dict[tuple[bool, bool], Pages] = {}


def _pages(has_types: bool, is_part: bool) -> Pages:
    """Return the query of a batch, with the conditions that it needs."""
    key = has_types, is_part
    if key not in _PAGES:
        behind = and_(_c.position > bindparam("after"), _c.position <= bindparam("upto"))
        query = _ROWS.where(or_(behind, _c.position.in_(bindparam("filled", expanding=True))))
        if has_types:
            query = query.where(_c.type.in_(bindparam("types", expanding=True)))
        if is_part:
            query = query.where(func.substr(_c.run_id, _AT, 1).in_(bindparam("chars", expanding=True)))
        query = query.order_by(_c.position).limit(bindparam("limit"))
        _PAGES[key] = Pages(query=query, text=_c.data_json, order=(_c.position,))
    return _PAGES[key]


def _fitting(rows: Sequence[Row[Any]], is_cut: bool) -> tuple[Sequence[Row[Any]], bool]:
    """Return as many of the rows as fit into a batch together with the results that they refer to, at least one."""
    size = 0
    for index, row in enumerate(rows):
        size += len(row.data_json)
        if row.type == "tool_result" and RESULT_BYTES in row.data_json:
            size += int(orjson.loads(row.data_json).get(RESULT_BYTES, 0))
        if size >= PAGE_BYTES and index + 1 < len(rows):
            return rows[: index + 1], True
    return rows, is_cut


def with_payloads(connection: Connection, rows: Sequence[Row[Any]]) -> list[TailedRow]:
    """Return the rows with their events, which have the results that they refer to."""
    payloads = [decode(row.data_json) for row in rows]
    if any(refers(payload) for payload in payloads):
        payloads = with_results_of(connection, [row.run_id for row in rows], payloads)
    return [TailedRow(row.position, row.run_id, payload) for row, payload in zip(rows, payloads, strict=True)]


def count_rows(connection: Connection, span: CursorSpan, upto: int, types: Collection[str]) -> int:
    """Return how many rows a span has behind its cursors, up to a position."""
    values = {"after": span.position, "upto": upto, "limit": 2**31 - 1, "filled": [0], "types": sorted(types)}
    values |= {"chars": [ALPHABET[number] for number in sorted(span.partitions)]}
    query = _pages(bool(types), len(span.partitions) < PARTITIONS).query
    return connection.execute(select(func.count()).select_from(query.subquery()), values).scalar_one()


# --- a run's rows, and what observers get of it


def rows_of_run(connection: Connection, run_id: str, first: int, upto: int) -> list[TailedRow]:
    """Return a run's committed events between two positions, both included; a batch at most."""
    values = {"run_": run_id, "first": first, "upto": upto, "limit": BATCH}
    rows, _ = _fitting(*_RUN_PAGES.read(connection, values))
    return with_payloads(connection, rows)


_RUN_PAGES = Pages(
    query=_ROWS.where(_c.run_id == bindparam("run_"))
    .where(_c.position >= bindparam("first"), _c.position <= bindparam("upto"))
    .order_by(_c.position)
    .limit(bindparam("limit")),
    text=_c.data_json,
    order=(_c.position,),
)


def runs_by_id(connection: Connection, run_ids: Collection[str]) -> dict[str, Row[Any]]:
    """Return what observers get of these runs; a removed one is left out."""
    rows = connection.execute(_RUNS, {"ids": list(run_ids)}).all() if run_ids else ()
    return {row.id: row for row in rows}


_RUNS = select(*(runs.c[name] for name in FACTS)).where(runs.c.id.in_(bindparam("ids", expanding=True)))


def hand_overs(connection: Connection, run_id: str) -> list[int]:
    """Return the numbers of the events by which a run was handed over, in order."""
    return list(connection.execute(_HAND_OVERS, {"run_": run_id}).scalars())


_HAND_OVERS = select(_c.seq).where(_c.run_id == bindparam("run_"), _c.type == "handover").order_by(_c.seq)


# --- places to start at


def position_at(connection: Connection, at: str) -> int:
    """Return the position before the first row of that time, as ``2026-11-20T12:00:00.123Z``; by bisection."""
    low, high = 0, head_of(connection)
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(_NEAREST, {"position": middle}).first()
        if row is not None and orjson.loads(row.data_json)["at"] < at:
            low = middle
        else:
            high = middle - 1
    return low


_NEAREST = (
    select(_c.data_json)
    .where(_c.position <= bindparam("position"), _c.type != "block")
    .order_by(_c.position.desc())
    .limit(1)
)


def oldest_after(connection: Connection, position: int) -> str | None:
    """Return when the first event behind a position was numbered; None where there is none."""
    row = connection.execute(_OLDEST, {"position": position}).first()
    return orjson.loads(row.data_json)["at"] if row is not None else None


_OLDEST = (
    select(_c.data_json).where(_c.position > bindparam("position"), _c.type != "block").order_by(_c.position).limit(1)
)
