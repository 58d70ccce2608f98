"""A tenant's runs have keys and channels of their own; a process of an earlier release names them otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from bus.journal.live.redis_log import RedisHotLog
from bus.journal.log.line import Line
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.identity.principal import Principal
from tests.bus.journal.live.test_hotlog import Follower, Source, line, sent, seqs
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, keyring

ACME = Principal(tenant="acme", id="ann")


class EarlierKeys(Keys):
    """The names before tenants were part of them."""

    def stream(self, tenant: str, run_id: str) -> str:
        return f"{self.prefix}{{{run_id}}}:log"

    def meta(self, tenant: str, run_id: str) -> str:
        return f"{self.prefix}{{{run_id}}}:meta"

    def live(self, tenant: str, run_id: str) -> str:
        return f"{self.prefix}{{{run_id}}}:live"


@contextmanager
def opened(loop: ProcessLoop, url: str, keys: Keys) -> Iterator[RedisHotLog]:
    log = RedisHotLog(url, keys, keyring(), ttl_s=60, max_bytes=1_000_000)
    yield log
    loop.run(log.close())


@pytest.fixture
def warm(loop: ProcessLoop) -> Callable[[Any], Any]:
    return lambda work: loop.run(work, 30)


def test_an_event_signed_for_one_tenant_is_not_valid_in_another(redis_log: RedisHotLog, redis_client, warm) -> None:
    """A client that may write into the keys of one tenant cannot pass its events off as those of another."""
    keys, follower = redis_log._keys, Follower()

    async def play() -> list[Line]:
        redis_log.attach("run_1", 1, Source(tenant="acme"))
        redis_log.append("run_1", 1, line(1))
        await sent(redis_log)
        await redis_log.follow("other", "run_1", follower)
        redis_client.copy(keys.stream("acme", "run_1"), keys.stream("other", "run_1"))
        ((_, fields),) = redis_client.xrange(keys.stream("acme", "run_1"))
        redis_client.publish(keys.live("other", "run_1"), fields[b"e"])
        await follower.until(lambda: follower.gaps > 0)
        assert seqs(await redis_log.read_after("acme", "run_1", 0)) == [1]
        return await redis_log.read_after("other", "run_1", 0)

    assert warm(play()) == []
    assert follower.lines == []


def test_a_redis_user_of_one_tenant_reaches_its_keys_and_channels_alone(
    redis_log: RedisHotLog, redis_client: redis.Redis, redis_url: str, warm
) -> None:
    keys = redis_log._keys
    names = [
        (keys.stream(tenant, "run_1"), keys.meta(tenant, "run_1"), keys.board(tenant))
        for tenant in ("acme", "acm", "acme2")
    ]
    prefix, user = f"{keys.prefix}acme:", f"audit-{keys.deployment}"
    redis_client.acl_setuser(
        user, enabled=True, nopass=True, keys=[f"{prefix}*"], channels=[f"{prefix}*"], commands=["+@all"]
    )

    def may(command: str, name: str) -> bool:
        reply = redis_client.execute_command(
            "ACL", "DRYRUN", user, *command.split(), name, *(["x"] * (command == "PUBLISH"))
        )
        return reply in (b"OK", "OK")

    allowed = [[may("TYPE", stream), may("HGETALL", meta), may("PUBLISH", board)] for stream, meta, board in names]
    of_deployment = [may("PUBLISH", keys.nudges), may("GET", keys.probe)]
    redis_client.acl_deluser(user)

    assert allowed == [[True] * 3, [False] * 3, [False] * 3]
    assert of_deployment == [False, False]


@pytest.mark.parametrize("is_writer_earlier", [True, False])
def test_processes_of_an_earlier_release_and_of_this_one_read_each_others_runs(
    small_steps, sqlite: Database, loop: ProcessLoop, redis_url: str, deployment: str, is_writer_earlier: bool
) -> None:
    """A viewer gets what one process writes under its names from SQL, where another process follows its own names."""
    kinds = [EarlierKeys(deployment), Keys(deployment)]
    writing, reading = kinds if is_writer_earlier else reversed(kinds)
    with opened(loop, redis_url, writing) as written, opened(loop, redis_url, reading) as read:
        harness = JournalHarness(sqlite, loop, read)
        lease = harness.claim(harness.accept(principal=ACME).run_id)
        assert lease is not None
        owner = Owner(harness, lease, written)

        async def play() -> tuple[list[Line], list[Line]]:
            following = asyncio.ensure_future(harness.read_all(lease))
            owner.notify_of_claim()
            await owner.say("a", "b", "c")
            await owner.message("abc")
            await owner.end()
            return await following, await harness.read_all(lease)

        live, late = harness.do(play())

    assert_whole(live)
    assert live == late
    assert [line.seq for line in live] == [1, *owner.delivered_seqs]
