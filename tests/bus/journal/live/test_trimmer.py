"""How much of Redis a run takes: bounded while it streams, little after its end, nothing after its expiry."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
import redis

from bus.journal.live.redis_log import RedisHotLog
from bus.journal.live.trimmer import KEPT_BYTES, Trimmer
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, keyring

MOST_AFTER_END = 64 * 1024
PIECES = 6000
PIECE = "forty characters of an answer, or so ... "


@pytest.fixture
def redis_harness(sqlite: Database, loop: ProcessLoop, redis_url: str, deployment: str) -> Iterator[JournalHarness]:
    log = RedisHotLog(redis_url, Keys(deployment), keyring(), ttl_s=60, max_bytes=4_000_000)
    yield JournalHarness(sqlite, loop, log)
    loop.run(log.close())


async def stream(owner: Owner, pieces: int = PIECES, *, at_once: int = 20) -> None:
    """Say so many pieces, a batch of a few at a time, and the whole message."""
    for begin in range(0, pieces, at_once):
        while owner.writer.is_full:
            await owner.writer.room()
        await owner.say(*[PIECE] * min(at_once, pieces - begin))
        await owner.hot_log._idle.wait()  # type: ignore[attr-defined]  # so that each batch is an entry of its own
    await owner.message(PIECE * pieces)


async def leave(owner: Owner) -> None:
    await owner.hot_log.detach(owner.lease.run_id, owner.lease.fence)
    await owner.hot_log._idle.wait()  # type: ignore[attr-defined]


def memory(client: redis.Redis, deployment: str, run_id: str) -> int:
    keys = Keys(deployment)
    names = (keys.stream("default", run_id), keys.meta("default", run_id))
    return sum(client.memory_usage(name, samples=0) or 0 for name in names)


@pytest.mark.parametrize("at_once", [1, 20, 1000])
def test_little_is_left_after_the_end_and_readers_miss_nothing(
    redis_harness: JournalHarness, redis_client: redis.Redis, deployment: str, at_once: int
) -> None:
    harness, owner = redis_harness, redis_harness.own()
    run_id = owner.lease.run_id
    owner.harness.loop.run(_say_first(owner))
    harness.do(stream(owner, at_once=at_once))
    harness.do(owner.end())
    during = memory(redis_client, deployment, run_id)
    harness.do(leave(owner))

    assert during > MOST_AFTER_END, "or there was nothing to take away"
    assert memory(redis_client, deployment, run_id) <= MOST_AFTER_END
    lines = harness.do(harness.read_all(owner.lease))
    assert_whole(lines)
    assert "".join(orjson.loads(li.data)["content"] for li in lines if li.type == "response") == PIECE * PIECES
    assert harness.do(harness.read_all(owner.lease, cursor=PIECES // 2)) == lines[PIECES // 2 :]


async def _say_first(owner: Owner) -> None:
    owner.notify_of_claim()


def test_nothing_is_left_after_the_expiry(
    sqlite: Database, loop: ProcessLoop, redis_url: str, redis_client: redis.Redis, deployment: str
) -> None:
    keys, ring = Keys(deployment), keyring()
    log = RedisHotLog(redis_url, keys, ring, ttl_s=60, max_bytes=1_000_000)
    harness = JournalHarness(sqlite, loop, log)
    owner = harness.own()
    harness.do(stream(owner, 3000))
    harness.do(owner.end())
    log._ttl_ms = 50  # what it lives from here on
    harness.do(leave(owner))

    names = [keys.stream("default", owner.lease.run_id), keys.meta("default", owner.lease.run_id)]
    left_ms = [redis_client.pttl(name) for name in names]
    assert all(-2 <= left <= 50 for left in left_ms), "each key has its end, or is gone"
    for name in names:
        redis_client.pexpire(name, 0)  # the time has come
    assert redis_client.keys(f"*{owner.lease.run_id}*") == []
    loop.run(log.close())


def test_what_an_earlier_owner_left_goes_with_the_last_one(
    redis_harness: JournalHarness, redis_client: redis.Redis, deployment: str
) -> None:
    harness, lost = redis_harness, redis_harness.own()
    harness.do(stream(lost))  # and it writes nothing more
    harness.expire_lease(lost.lease.run_id)
    owner = harness.own(lost.lease.run_id, owner="own_2")
    harness.do(_say_first_and_end(owner))

    assert memory(redis_client, deployment, owner.lease.run_id) <= MOST_AFTER_END
    assert_whole(harness.do(harness.read_all(owner.lease)))


async def _say_first_and_end(owner: Owner) -> None:
    owner.notify_of_claim()
    await owner.end()
    await leave(owner)


def test_an_owner_that_lost_the_run_takes_nothing_of_its_successors_away(
    redis_harness: JournalHarness, redis_client: redis.Redis, deployment: str, redis_url: str
) -> None:
    harness, lost = redis_harness, redis_harness.own()
    harness.do(stream(lost))
    harness.expire_lease(lost.lease.run_id)
    elsewhere = RedisHotLog(redis_url, Keys(deployment), keyring(), ttl_s=60, max_bytes=1_000_000)
    lease = harness.claim(lost.lease.run_id, "own_2")
    assert lease is not None
    owner = Owner(harness, lease, elsewhere)

    async def both() -> list[int]:
        owner.notify_of_claim()
        await owner.say(*[PIECE] * 100)
        await elsewhere._idle.wait()
        await leave(lost)
        return [line.seq for line in await elsewhere.read_after("default", lease.run_id, lease.next_seq - 1)]

    numbers = harness.do(both())
    delivered = [payload.seq for payload in owner.delivered if payload.seq >= lease.next_seq]
    assert numbers == delivered
    assert len(numbers) == 100
    harness.loop.run(elsewhere.close())


def test_a_stream_stays_within_its_budget_however_long_it_is(
    sqlite: Database, loop: ProcessLoop, redis_url: str, redis_client: redis.Redis, deployment: str
) -> None:
    budget = 200_000
    log = RedisHotLog(redis_url, Keys(deployment), keyring(), ttl_s=60, max_bytes=budget)
    harness = JournalHarness(sqlite, loop, log)
    owner = harness.own()
    seen: list[int] = []

    async def long_answer() -> None:
        for _ in range(60):
            while owner.writer.is_full:
                await owner.writer.room()
            await owner.say(*[PIECE] * 100)
            await log._idle.wait()
            while owner.writer._sealing is not None and not owner.writer._sealing.done():
                await owner.writer._sealing
            seen.append(memory(redis_client, deployment, owner.lease.run_id))

    harness.do(long_answer())
    assert max(seen) <= 1.5 * budget
    assert len(seen) * 100 * len(PIECE) > budget, "it was longer than what is kept"
    harness.loop.run(log.close())


def test_a_tail_never_takes_what_sql_has_not() -> None:
    trimmer = Trimmer(fence=1)
    for seq in range(1, 200):
        trimmer.add(seq, 1000)

    (trim, size) = trimmer.trim("stream", "meta", sealed_to=7)

    assert trim == ("XTRIM", "stream", "MINID", "8-0")
    assert isinstance(size[3], int)
    assert 0 < size[3] <= KEPT_BYTES


def test_a_short_run_costs_no_command() -> None:
    trimmer = Trimmer(fence=1)
    trimmer.add(1, 500)

    assert trimmer.trim("stream", "meta", sealed_to=1) == []
