"""The list of the living workers, on each database."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from bus.journal.ownership.workers import (
    ALIVE_MS,
    KEPT_MS,
    WorkerRow,
    Workers,
    abandoned_calls,
    missing_keys,
    new_owner_id,
    serves,
)
from config.clock import epoch_ms
from config.database.engine import Database
from config.database.tables import workers


def row(name: str = "own_1", **fields: Any) -> WorkerRow:
    defaults: dict[str, Any] = {
        "host": "h1",
        "pid": 7,
        "pool": "threads",
        "slots": 200,
        "busy": 0,
        "queue": "runs",
        "version": "9.9",
    }
    return WorkerRow(id=name, **(defaults | fields))


def living(database: Database) -> list[dict[str, Any]]:
    return Workers(database).alive()


def age(database: Database, name: str, by_ms: int) -> None:
    with database.write() as connection:
        connection.execute(update(workers).where(workers.c.id == name).values(seen_ms=workers.c.seen_ms - by_ms))


def test_a_worker_says_what_it_consumes_and_which_release_it_is(database: Database):
    Workers(database).renew(row())

    (worker,) = living(database)

    assert (worker["queue"], worker["version"], worker["host"], worker["pid"]) == ("runs", "9.9", "h1", 7)


def test_a_worker_of_this_machine_whose_process_has_ended_is_not_alive(database: Database):
    mine = new_owner_id()
    _, machine, pid, started, last = mine.split("_")
    Workers(database).renew(row(mine))
    Workers(database).renew(row(f"own_{machine}_{pid}_{int(started) - 1}_{last}"))

    assert [worker["worker_id"] for worker in living(database)] == [mine]


@pytest.mark.parametrize("ahead_ms", [0, 75_000, -75_000])
def test_a_worker_whose_clock_is_wrong_is_alive_and_shows_by_how_much(database: Database, ahead_ms: int):
    for _ in range(2):  # the first makes the row, the second renews it
        Workers(database).renew(row(), lambda: epoch_ms() + ahead_ms)

        (worker,) = living(database)

        assert abs(worker["skew_ms"] - ahead_ms) < 30_000  # a machine that is busy; the skew is far more


def test_a_worker_says_how_its_mcp_servers_are(database: Database):
    server_states = {"files": {"state": "ready", "tools": 3}}
    Workers(database).renew(row(mcp_servers=server_states))

    (worker,) = living(database)

    assert worker["mcp_servers"] == server_states


def test_a_worker_of_a_release_that_said_less_is_listed_too(database: Database):
    Workers(database).renew(row(queue=None, version=None))
    with database.write() as connection:
        connection.execute(update(workers).values(clock_ms=None))

    (worker,) = living(database)

    assert (worker["queue"], worker["version"], worker["skew_ms"]) == (None, None, None)
    assert serves(worker, None)
    assert not serves(worker, "gpu")


def test_a_worker_of_a_release_with_one_queue_serves_that_one(database: Database):
    Workers(database).renew(row(queue="runs", queues=()))

    (worker,) = living(database)

    assert worker["queues"] == ["runs"]
    assert serves(worker, None)
    assert not serves(worker, "gpu")


def test_a_worker_serves_the_queues_its_row_lists_and_the_default_one_only_if_it_is_among_them(database: Database):
    Workers(database).renew(row(queues=("gpu", "mail")))

    (worker,) = living(database)

    assert [serves(worker, queue) for queue in ("gpu", "mail", "runs", None)] == [True, True, False, False]


def test_who_sends_no_heartbeat_is_off_the_list_and_later_out_of_the_table(database: Database):
    Workers(database).renew(row("quiet"))
    Workers(database).renew(row("leaves"))
    age(database, "quiet", ALIVE_MS + 1000)
    Workers(database).forget("leaves")
    assert living(database) == []

    age(database, "quiet", KEPT_MS)
    Workers(database).renew(row("new"))

    with database.read() as connection:
        assert list(connection.execute(workers.select()).scalars()) == ["new"]


def test_calls_that_a_worker_gave_up_are_listed_with_it(database: Database):
    Workers(database).renew(row("own_1", abandoned={"slow": 2, "other": 1}))
    Workers(database).renew(row("own_2", abandoned={"slow": 1}))
    Workers(database).renew(row("own_3"))

    fleet = living(database)

    assert sorted(len(worker["abandoned"]) for worker in fleet) == [0, 1, 2]
    assert abandoned_calls(fleet) == {"other": 1, "slow": 3}


def test_the_keys_that_workers_lack_are_listed_and_who_has_one_is_named(database: Database):
    table = Workers(database)
    table.renew(row("own_1", queues=("runs",), missing_keys={"A": ["x"], "B or C": ["y"]}))
    table.renew(row("own_2", queues=("runs",), missing_keys={"A": ["z"]}))
    table.renew(row("own_3", queues=("gpu",)))

    assert missing_keys(living(database)) == {
        "A": {"agents": ["x", "z"], "workers": 2},
        "B or C": {"agents": ["y"], "workers": 1},
    }
    assert table.with_key(None, "A", apart_from="own_1") == []
    assert [worker["worker_id"] for worker in table.with_key("runs", "B or C", apart_from="own_1")] == ["own_2"]
    assert table.with_key("gpu", "A", apart_from="own_3") == []
