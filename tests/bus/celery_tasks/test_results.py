"""The readers of result backends, with what Celery itself wrote there."""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from bus.celery_tasks.application import ApplicationAddress, close_applications, results_in
from bus.celery_tasks.database_results import DatabaseResults
from bus.celery_tasks.redis_results import RedisResults
from bus.celery_tasks.state import MAX_BYTES
from bus.errors import ResultsUnreachable
from config.definitions.errors import ToolUnknown
from config.redis.errors import RedisUnreachable
from tests.backends import PostgresCluster
from tests.on_loop import on_loop
from tests.scripted_shop import ScriptedShop, SentTask


def task(name: str, deployment: str) -> SentTask:
    return SentTask(f"{name}-{deployment}", "shop.refund", {}, {})


@pytest.fixture(params=["", "shop:", "shop"])
def shop(request: pytest.FixtureRequest, redis_url: str, deployment: str) -> Iterator[ScriptedShop]:
    made = ScriptedShop(redis_url, deployment, key_prefix=request.param)
    yield made
    made.close()


def prefix_of(shop: ScriptedShop) -> str:
    return str(shop.app.conf.result_backend_transport_options.get("global_keyprefix", ""))


@on_loop
async def test_redis_results_are_read_under_celerys_key(shop: ScriptedShop, deployment: str) -> None:
    done, begun, unknown = (task(name, deployment) for name in ("done", "begun", "unknown"))
    shop.succeed(done, {"paid": 1})
    shop.begin(begun)
    results = RedisResults(shop.url, prefix_of(shop))

    states = await results.states([done.id, begun.id, unknown.id])
    results.close()

    assert [state.name for state in states.values()] == ["SUCCESS", "STARTED", "PENDING"]
    assert states[done.id].result == {"paid": 1}


@on_loop
async def test_a_change_in_redis_arrives_by_itself(shop: ScriptedShop, deployment: str) -> None:
    one, arrived = task("one", deployment), asyncio.Event()
    results = RedisResults(shop.url, prefix_of(shop))
    assert await results.subscribe(one.id, arrived.set)

    await asyncio.to_thread(shop.succeed, one, "x" * 300_000)

    await asyncio.wait_for(arrived.wait(), 5)
    arrived.clear()
    results.unsubscribe(one.id, arrived.set)
    await results.states([one.id])  # in order behind the unsubscription of the other connection, or soon after
    results.close()


@on_loop
async def test_a_huge_entry_is_not_fetched_whole(shop: ScriptedShop, deployment: str) -> None:
    one = task("huge", deployment)
    await asyncio.to_thread(shop.succeed, one, "x" * (3 * MAX_BYTES))
    results = RedisResults(shop.url, prefix_of(shop))

    state = (await results.states([one.id]))[one.id]
    results.close()

    assert (state.name, "more than" in state.result) == ("SUCCESS", True)


@on_loop
async def test_a_key_of_another_type_is_an_error_with_its_reason(redis_url: str, deployment: str) -> None:
    shop = ScriptedShop(redis_url, deployment)
    shop.redis.rpush(f"celery-task-meta-{deployment}", "a list")
    results = RedisResults(redis_url, "")

    with pytest.raises(RedisUnreachable, match="WRONGTYPE"):
        await results.states([deployment])
    results.close()
    shop.close()


@pytest.mark.parity
@on_loop
async def test_a_redis_that_is_not_there_is_an_error_and_polled(tmp_path: Path) -> None:
    results = RedisResults(f"unix://{tmp_path}/none.sock", "")

    assert not await results.subscribe("key_1", lambda: None)
    with pytest.raises(RedisUnreachable):
        await results.states(["key_1"])
    results.close()


# --- databases ------------------------------------------------------------------------------------


def test_a_database_that_celery_wrote_is_read(tmp_path: Path) -> None:
    written_and_read(f"sqlite:///{tmp_path / 'results.db'}", f"sqlite:///{tmp_path / 'results.db'}")


@pytest.mark.postgres
def test_a_postgres_that_celery_wrote_is_read(postgres_cluster: PostgresCluster) -> None:
    url = postgres_cluster.new_database()
    written_and_read(url, url)


def written_and_read(written: str, read: str) -> None:
    backend = Celery("shop", backend=f"db+{written}", set_as_current=False).backend
    backend.store_result("done", {"paid": 1}, "SUCCESS")
    backend.store_result("begun", {"pid": 1}, "STARTED")
    backend.mark_as_failure("failed", ValueError("no order"))
    backend.store_result("huge", "x" * (MAX_BYTES + 10), "SUCCESS")
    results = DatabaseResults(read, "celery_taskmeta")

    states = asyncio.run(_read(results, ["done", "begun", "failed", "huge", "unknown"]))
    results.close()
    backend.close() if hasattr(backend, "close") else None

    assert [state.name for state in states.values()] == ["SUCCESS", "STARTED", "FAILURE", "SUCCESS", "PENDING"]
    assert states["done"].result == {"paid": 1}
    assert (states["failed"].error, states["failed"].message) == ("ValueError", "no order")
    assert "more than" in states["huge"].result


async def _read(results: DatabaseResults, ids: list[str]):
    return await results.states(ids)


@on_loop
async def test_pickled_rows_of_older_releases_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute("CREATE TABLE celery_taskmeta (task_id TEXT, status TEXT, result BLOB)")
        row = ("old", "SUCCESS", pickle.dumps({"paid": 1}))
        connection.execute("INSERT INTO celery_taskmeta VALUES (?, ?, ?)", row)
    results = DatabaseResults(f"sqlite:///{tmp_path / 'old.db'}", "celery_taskmeta")

    state = (await results.states(["old"]))["old"]
    results.close()

    assert "pickle is never read" in str(state.unreadable)


@pytest.mark.parametrize("table", ["celery_taskmeta", "shop.tasks"])
@on_loop
async def test_a_table_that_is_not_there_is_an_error(tmp_path: Path, table: str) -> None:
    results = DatabaseResults(f"sqlite:///{tmp_path / 'empty.db'}", table)

    with pytest.raises(ResultsUnreachable, match="cannot be read"):
        await results.states(["one"])
    results.close()


@pytest.mark.parametrize("url", ["db+nosuch://host/name", "db+", "db+oracle://host/name"])
@on_loop
async def test_a_database_without_a_driver_is_refused_with_the_remedy(url: str) -> None:
    address = ApplicationAddress(
        broker="redis://x", results=url, broker_key_prefix="", result_key_prefix="", result_table="t"
    )

    with pytest.raises(ToolUnknown, match="install its driver"):
        results_in(address)
    close_applications()
