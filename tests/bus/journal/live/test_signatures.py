"""The secret behind live events: one for a deployment, read when needed, and no outage is made worse by it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

import pytest

from agents.governance.guardrails.guardrails import Guardrails
from bus.journal.journal import Journal
from bus.journal.live import signatures as keyrings
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.live.signatures import Keyring, sign, verified_body
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.database.errors import DatabaseUnreachable
from config.settings import Settings
from tests.bus.journal.live.test_hotlog import Follower, Source, line, sent, seqs


def test_opening_a_journal_reads_nothing(redis_settings: Settings):
    journal = Journal(
        redis_settings.model_copy(update={"database_url": "sqlite:////nowhere/at/all.db"}),
        publish=print,
        guard=Guardrails,
    )

    assert isinstance(journal.live.hot_log, RedisHotLog)
    journal.close()


def test_two_processes_believe_each_other(sqlite: Database, redis_settings: Settings, sqlite_url: str):
    chosen = redis_settings.model_copy(update={"database_url": sqlite_url})
    journals = [Journal(chosen, publish=lambda message: None, guard=Guardrails, loop=ProcessLoop()) for _ in range(2)]

    async def follow(follower: Follower) -> None:
        await journals[1].live.hot_log.follow("default", "run_1", follower)

    async def write() -> None:
        journals[0].live.hot_log.attach("run_1", 1, Source())
        journals[0].live.hot_log.append("run_1", 1, line(1))

    follower = Follower()
    journals[1].loop.run(follow(follower), 20)
    journals[0].loop.run(write(), 20)
    journals[1].loop.run(follower.received(1), 20)
    for journal in journals:
        journal.close()

    assert seqs(follower.lines) == [1]


class Secret:
    """A secret that cannot be read for a while."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        await asyncio.sleep(0)
        if self.asked <= self.failures:
            raise DatabaseUnreachable("gone")
        return "5e" * 32


def test_many_who_need_it_wait_for_one_attempt(loop: ProcessLoop):
    secret = Secret(failures=0)
    ring = Keyring(secret)

    async def play() -> list[bool]:
        return list(await asyncio.gather(*(ring.open() for _ in range(20))))

    assert loop.run(play(), 20) == [True] * 20
    assert secret.asked == 1


def test_a_database_that_is_away_is_not_asked_at_every_need(loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch):
    secret = Secret(failures=1)
    ring = Keyring(secret)

    async def play() -> tuple[list[bool], bool]:
        early = [await ring.open() for _ in range(20)]
        monkeypatch.setattr(keyrings, "RETRY_S", 0.0)
        return early, await ring.open()

    assert loop.run(play(), 20) == ([False] * 20, True)
    assert secret.asked == 2


def test_what_cannot_be_signed_is_sealed_and_what_cannot_be_checked_is_hinted(
    redis_url: str, deployment: str, loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keyrings, "RETRY_S", 0.0)
    monkeypatch.setattr("bus.journal.live.redis_log.DOWN_S", 0.01)
    blind = RedisHotLog(redis_url, Keys(deployment), Keyring(Secret(failures=3)), ttl_s=60, max_bytes=10**6)
    writer = RedisHotLog(redis_url, Keys(deployment), Keyring(Secret(failures=1)), ttl_s=60, max_bytes=10**6)
    source, follower = Source(), Follower()

    async def play() -> tuple[bool, list[int], list[int]]:
        await blind.follow("default", "run_1", follower)  # the first failure
        was_heard = blind.is_live
        unread = seqs(await blind.read_after("default", "run_1", 0))  # the second
        writer.attach("run_1", 1, source)
        writer.append("run_1", 1, line(1))
        await sent(writer)
        writer.append("run_1", 2, line(2))
        await sent(writer)
        await follower.until(lambda: follower.gaps > 0)  # the third
        while not await blind.keyring.open():
            await asyncio.sleep(0)
        writer.append("run_1", 3, line(3))
        await follower.received(3)
        numbers = seqs(await blind.read_after("default", "run_1", 0))
        for log in (blind, writer):
            await log.close()
        return was_heard, unread, numbers

    assert loop.run(play(), 30) == (False, [], [2, 3])
    assert source.calls[0] == "seal"
    assert seqs(follower.lines) == [3]


def test_a_tag_is_a_standard_hmac():
    key, body = b"k" * 32, b'{"seq":1,"type":"end"}'

    signed = sign(key, body)

    assert signed == body + b"\n" + hmac.new(key, body, hashlib.sha256).hexdigest()[:32].encode()
    assert verified_body(key, signed) == body
    assert verified_body(b"K" * 32, signed) is None
    assert [verified_body(key, signed[:cut]) for cut in range(len(signed))] == [None] * len(signed)
