"""On Postgres a smaller position may be committed behind a larger one: it is passed, and delivered when it appears."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Connection, insert

from bus.journal.log.events import event_row
from bus.journal.tailing import CursorSpan, LogReader
from config.database.engine import open_database
from config.database.tables import events
from tests.observers.tailing.conftest import Room
from tests.tailed_log import end, message, status

pytestmark = pytest.mark.postgres
ALL = frozenset(range(32))


@pytest.fixture
def each_database_url(postgres_url: str) -> str:
    """Postgres alone: SQLite has one writer at a time."""
    return postgres_url


@pytest.fixture
def late(room: Room) -> Iterator[Connection]:
    """A transaction that has written, and has its id therefore, and is not committed yet."""
    url = room.database.engine.url.render_as_string(hide_password=False)
    with closing(open_database(url)) as other, other.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE threads SET title = 'late' WHERE key = -1")
        connection.exec_driver_sql("SELECT pg_current_xact_id()")
        yield connection


def gaps(room: Room) -> set[str | None]:
    with room.database.read() as connection:
        return set(connection.exec_driver_sql("SELECT gaps_json FROM observer_cursors").scalars())


def test_an_event_that_is_committed_late_is_delivered_behind_later_ones(room: Room, late: Connection):
    slow, quick = room.log.runs(2)
    late.execute(insert(events), [event_row(status(1), slow, "thr", 1)])
    room.log.add(quick, status(1))
    member = room.member()
    room.drain(member)
    assert room.taken == {quick: [1]}

    late.commit()
    room.log.add(slow, message(2), end(3))
    room.drain(member)

    assert room.taken == {quick: [1], slow: [1, 2, 3]}
    room.drain(member)
    assert gaps(room) == {None}


def test_a_late_event_survives_the_death_of_the_process_that_saw_the_gap(room: Room, late: Connection):
    slow, quick = room.log.runs(2)
    late.execute(insert(events), [event_row(status(1), slow, "thr", 1)])
    room.log.add(quick, status(1))
    first = room.member()
    room.drain(first)
    assert gaps(room) != {None}
    room.cursors.leave("sink", first.member)

    late.commit()
    room.drain(room.member("own_2"))

    assert room.taken == {quick: [1], slow: [1]}


def test_a_gap_of_a_transaction_that_was_rolled_back_is_forgotten(room: Room, late: Connection):
    lost, quick = room.log.runs(2)
    late.execute(insert(events), [event_row(status(1), lost, "thr", 1)])
    room.log.add(quick, status(1))
    member = room.member()
    room.drain(member)

    late.rollback()
    room.log.add(quick, end(2))
    room.drain(member)
    room.log.add(quick, end(3))
    room.drain(member)

    assert room.taken == {quick: [1, 2, 3]}
    assert gaps(room) == {None}


def test_a_transaction_that_lasts_for_hours_delays_no_event_of_others(room: Room, late: Connection):
    member = room.member()
    for _ in range(3):
        run = room.log.run()
        room.log.turn([run])
        room.drain(member)
        assert room.taken[run] == [1, 2, 3]


def test_gaps_that_removed_runs_have_left_are_not_noted(room: Room):
    gone, there = room.log.runs(2)
    room.log.turn([gone, there])
    with room.database.write() as connection:
        connection.exec_driver_sql(f"DELETE FROM events WHERE run_id = '{gone}'")

    with room.database.read() as connection:
        batch = LogReader("sink").read(connection, CursorSpan(partitions=ALL, position=0))

    assert [row.run_id for row in batch.rows] == [there] * 3
    assert batch.gaps == ()
