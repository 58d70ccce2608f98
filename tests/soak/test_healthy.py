"""A run that has another owner without a wait and without a fault done to the first one is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, insert

from cli.crashlab.invariants import RecordedClaim
from config.database.tables import events, metadata
from tests.soak.healthy import REMEMBERED_MS, Struck, lost_by_healthy

CLAIMS = {
    "run_1": [
        RecordedClaim(fence=1, attempt=1, position=10, at_ms=1_000_000),
        RecordedClaim(fence=2, attempt=2, position=20, at_ms=1_009_000),
    ]
}
PIDS = {("run_1", 1): 77, ("run_1", 2): 78}


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def struck(pid: int, at_ms: int) -> list[Struck]:
    return [Struck(pid=pid, at_ms=at_ms)]


def test_a_run_lost_without_a_fault_is_found(connection: Connection) -> None:
    (problem,) = lost_by_healthy(connection, CLAIMS, PIDS, [])

    assert problem == "a healthy worker (pid 77) lost run_1: owner 1 had it 9.0 s"


@pytest.mark.parametrize("at_ms", [1_000_000 - REMEMBERED_MS, 1_004_000, 1_009_000])
def test_a_worker_that_was_struck_may_lose_its_runs(connection: Connection, at_ms: int) -> None:
    assert list(lost_by_healthy(connection, CLAIMS, PIDS, struck(77, at_ms))) == []


@pytest.mark.parametrize(("pid", "at_ms"), [(78, 1_004_000), (77, 1_009_001), (77, 1_000_000 - REMEMBERED_MS - 1)])
def test_a_fault_done_to_another_or_at_another_time_excuses_nothing(
    connection: Connection, pid: int, at_ms: int
) -> None:
    assert len(list(lost_by_healthy(connection, CLAIMS, PIDS, struck(pid, at_ms)))) == 1


@pytest.mark.parametrize(("status", "count"), [("waiting", 0), ("queued", 1)])
def test_a_run_that_waited_was_not_lost(connection: Connection, status: str, count: int) -> None:
    data = f'{{"status":"{status}"}}'
    between = {"run_id": "run_1", "first_seq": 5, "seq": 5, "position": 15, "type": "status", "fence": 1}
    connection.execute(insert(events).values(**between, data_json=data))

    assert len(list(lost_by_healthy(connection, CLAIMS, PIDS, []))) == count
