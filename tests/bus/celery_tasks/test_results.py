"""The readers of result backends, with what Celery itself wrote there."""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from bus.celery_tasks.application import ApplicationAddress, close_applications, results_in
from bus.celery_tasks.results import DatabaseResults, RedisResults
from bus.celery_tasks.state import MAX_BYTES
from bus.errors import RESULTS_UNREACHABLE
from config.definitions.errors import ToolUnknown
from config.redis.errors import RedisUnreachable
from config.settings import Settings
from tests.backends import PostgresCluster, RunningRedis, start_redis
from tests.on_loop import on_loop
from tests.raising import raises
from tests.scripted_shop import ScriptedShop, SentTask


def task(name: str, deployment: str) -> SentTask:
    return SentTask(f"{name}-{deployment}", "shop.refund", {}, {})


@pytest.fixture(params=["", "shop:", "shop"])
def shop(request: pytest.FixtureRequest, redis_url: str, deployment: str) -> Iterator[ScriptedShop]:
    scripted_shop = ScriptedShop(redis_url, deployment, key_prefix=request.param)
    yield scripted_shop
    scripted_shop.close()


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
    shop_task, arrived = task("one", deployment), asyncio.Event()
    results = RedisResults(shop.url, prefix_of(shop))
    assert await results.subscribe(shop_task.id, arrived.set)

    await asyncio.to_thread(shop.succeed, shop_task, "x" * 300_000)

    await asyncio.wait_for(arrived.wait(), 5)
    arrived.clear()
    results.unsubscribe(shop_task.id, arrived.set)
    await results.states([shop_task.id])  # in order behind the unsubscription of the other connection, or soon after
    results.close()


@on_loop
async def test_a_huge_entry_is_not_fetched_whole(shop: ScriptedShop, deployment: str) -> None:
    shop_task = task("huge", deployment)
    await asyncio.to_thread(shop.succeed, shop_task, "x" * (3 * MAX_BYTES))
    results = RedisResults(shop.url, prefix_of(shop))

    state = (await results.states([shop_task.id]))[shop_task.id]
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


def restart(server: RunningRedis, _client: redis.Redis) -> None:
    server.stop()
    server.process = RunningRedis(server.server).process


def empty(_server: RunningRedis, client: redis.Redis) -> None:
    client.flushdb()


def fail_over(_server: RunningRedis, client: redis.Redis) -> None:
    client.slaveof("127.0.0.1", 1)
    client.slaveof()


def evict(_server: RunningRedis, client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-random")
    client.set("one", "x" * 1_000_000)
    client.config_set("maxmemory", 1)


def nothing(_server: RunningRedis, client: redis.Redis) -> None:
    client.set("one", "1", px=1)
    client.delete("one")


@pytest.mark.parity
@pytest.mark.parametrize("event", [restart, empty, fail_over, evict, nothing])
@on_loop
async def test_an_incarnation_of_redis_ends_when_entries_may_be_lost(
    tmp_path: Path, event: Callable[[RunningRedis, redis.Redis], None]
) -> None:
    server = await asyncio.to_thread(start_redis, Settings(state_dir=tmp_path))
    results = RedisResults(server.url, "")
    before = await results.incarnation()

    with redis.Redis.from_url(server.url) as client:
        await asyncio.to_thread(event, server, client)
    await asyncio.sleep(0)  # the reader learns of a connection that the server closed
    after = await _asked_again(results)

    results.close()
    await asyncio.to_thread(server.stop)
    assert before is not None
    assert (after == before) is (event is nothing)


async def _asked_again(results: RedisResults) -> str | None:
    try:
        return await results.incarnation()
    except RedisUnreachable:  # of a connection that was lost
        return await results.incarnation()


@on_loop
async def test_a_redis_that_refuses_info_has_no_incarnation(redis_url: str, deployment: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.acl_setuser(deployment, enabled=True, nopass=True, keys="*", channels="*", categories=["+@all"])
        client.acl_setuser(deployment, enabled=True, commands=["-info"])
        results = RedisResults(redis_url.replace("unix://", f"unix://{deployment}:x@"), "")

        incarnation = await results.incarnation()

        results.close()
        client.acl_deluser(deployment)
    assert incarnation is None


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

    with raises(RESULTS_UNREACHABLE, match="cannot be read"):
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


@on_loop
async def test_an_incarnation_of_sqlite_is_its_file(tmp_path: Path) -> None:
    file = tmp_path / "results.db"
    results = DatabaseResults(f"sqlite:///{file}", "celery_taskmeta")
    file.touch()
    before, same = await results.incarnation(), await results.incarnation()
    file.rename(tmp_path / "moved.db")
    gone = await results.incarnation()
    file.touch()

    after = await results.incarnation()
    results.close()

    assert before == same is not None
    assert gone is None
    assert after != before


@pytest.mark.postgres
@pytest.mark.parametrize("statement", ["SELECT 1", "TRUNCATE celery_taskmeta"])
@on_loop
async def test_an_incarnation_of_postgres_ends_with_its_table(
    postgres_cluster: PostgresCluster, statement: str
) -> None:
    url = postgres_cluster.new_database()
    Celery("shop", backend=f"db+{url}", set_as_current=False).backend.store_result("one", 1, "SUCCESS")
    results = DatabaseResults(url, "celery_taskmeta")
    before = await results.incarnation()

    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(statement))
    after = await results.incarnation()
    results.close()

    assert before is not None
    assert (after == before) is (statement == "SELECT 1")
