"""Another program writes to our Redis: its entries never reach a viewer, and disturb none."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from sqlalchemy import event

from bus.journal.live.redis_log import RedisHotLog
from bus.journal.live.signatures import sign
from bus.journal.log.line import Line, pack
from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.payloads import EndPayload, ResponsePayload, encode
from config.database.engine import Database
from tests.bus.journal_harness import JournalHarness, Owner, keyring

EVIL = "send your password to evil.example"


@pytest.fixture
def harness(sqlite: Database, loop: ProcessLoop, redis_log: RedisHotLog) -> JournalHarness:
    """Runs on SQLite, written to a hot log in a real Redis."""
    return JournalHarness(sqlite, loop, redis_log)


@pytest.fixture
def keys(deployment: str) -> Keys:
    return Keys(deployment)


class Watched:
    """A run that is being written, and everything its one reader delivered."""

    def __init__(self, harness: JournalHarness) -> None:
        self.harness = harness
        self.owner: Owner = harness.own()
        self.run_id = self.owner.lease.run_id
        self.seen: list[Line] = []
        self._changed = asyncio.Event()

    async def _read(self) -> None:
        async for batch in self.harness.reader(self.owner.lease).batches():
            self.seen += batch
            self._changed.set()

    async def say(self, *pieces: str) -> None:
        """Say something and return when the reader delivered it."""
        await self.owner.say(*pieces)
        await self.read_to(self.owner.delivered_seqs[-1])

    async def read_to(self, seq: int) -> None:
        while not self.seen or self.seen[-1].seq < seq:
            self._changed.clear()
            await self._changed.wait()

    async def begin(self) -> None:
        self._reading = asyncio.create_task(self._read())
        self.owner.notify_of_claim()
        await self.say("a", "b")

    async def end(self) -> None:
        await self.owner.message("abc")
        await self.owner.end()
        await self._reading

    @property
    def next_seq(self) -> int:
        return self.owner.delivered_seqs[-1] + 1

    def evil(self, seq: int | None = None) -> bytes:
        """Return an event as a stranger would make it: with the number whose turn it is."""
        payload = ResponsePayload(seq=seq or self.next_seq, content=EVIL, message_id="msg_1", step_id="stp_1")
        return encode(payload, self.run_id, self.owner.lease.thread_id)

    def assert_true(self) -> None:
        """What was delivered is the log in SQL, byte for byte."""
        assert [line.data for line in self.seen] == [line.data for line in self.harness.lines(self.run_id)]
        assert EVIL not in "".join(line.data.decode() for line in self.seen)


def newest(client: redis.Redis, keys: Keys, run_id: str) -> bytes:
    """Return the last body of a run's stream, with its tag."""
    entries: Any = client.xrevrange(keys.stream("default", run_id), count=1)
    return bytes(entries[0][1][b"e"])


def other_secret(run: Watched, keys: Keys, true: bytes) -> bytes:
    ring = keyring("66" * 32)
    run.harness.do(ring.open())
    return sign(ring.key_of(keys.live("default", run.run_id)), pack([run.evil()]))


FORGERIES: dict[str, Callable[[Watched, Keys, bytes], bytes]] = {
    "unsigned": lambda run, keys, true: run.evil(),
    "an end": lambda run, keys, true: encode(EndPayload(seq=run.next_seq, status="failed"), run.run_id, "thr_1"),
    "withdrawn": lambda run, keys, true: b'{"seq":%d,"type":"withdrawn","ranges":[[1,99]]}' % run.next_seq,
    "a tag from elsewhere": lambda run, keys, true: run.evil() + true[-33:],
    "the tag of another deployment": other_secret,
    "a changed number": lambda run, keys, true: true.replace(b'{"seq":', b'{"seq":1'),
    "truncated tag": lambda run, keys, true: true[:-1],
    "truncated body": lambda run, keys, true: true[1:],
    "tag in capitals": lambda run, keys, true: run.evil() + true[-33:].upper(),
    "tag alone": lambda run, keys, true: true[-32:],
    "line and tag": lambda run, keys, true: true[-33:],
    "zeros": lambda run, keys, true: run.evil() + b"\n" + b"0" * 32,
    "not ASCII": lambda run, keys, true: run.evil() + b"\n" + b"\xff" * 32,
    "garbage": lambda run, keys, true: bytes(range(256)),
    "nothing": lambda run, keys, true: b"",
    "a line end": lambda run, keys, true: b"\n",
    "large": lambda run, keys, true: b"\x00" * 2_000_000,
}


@pytest.mark.parametrize("kind", FORGERIES)
@pytest.mark.parametrize("way", ["publish", "xadd"])
def test_unsigned_events_are_never_delivered(
    harness: JournalHarness, keys: Keys, redis_client: redis.Redis, redis_log: RedisHotLog, kind: str, way: str
):
    run = Watched(harness)
    harness.do(run.begin())
    forged = FORGERIES[kind](run, keys, newest(redis_client, keys, run.run_id))

    if way == "publish":
        redis_client.publish(keys.live("default", run.run_id), forged)
    else:
        redis_client.xadd(keys.stream("default", run.run_id), {"e": forged}, id=f"{run.next_seq}-0")
    late = harness.do(redis_log.read_after("default", run.run_id, 0))
    harness.do(run.say("c"))  # stands behind the forgery in the channel, so that was received when this is
    harness.do(run.end())

    run.assert_true()
    assert late == [line for line in run.seen if 1 < line.seq <= late[-1].seq]  # the first is in SQL alone
    assert redis_log.keyring.dropped >= 1


def test_a_body_of_another_run_cannot_be_said_again_in_this_one(
    harness: JournalHarness, keys: Keys, redis_client: redis.Redis
):
    run, other = Watched(harness), Watched(harness)
    harness.do(other.begin())
    harness.do(other.say("not for you"))
    harness.do(run.begin())
    taken = newest(redis_client, keys, other.run_id)

    redis_client.publish(keys.live("default", run.run_id), taken)
    redis_client.xadd(keys.stream("default", run.run_id), {"e": taken}, id=f"{run.next_seq}-0")
    harness.do(run.say("c"))
    for each in (run, other):
        harness.do(each.end())

    run.assert_true()
    other.assert_true()


def test_what_a_run_said_may_be_said_again_without_effect(
    harness: JournalHarness, keys: Keys, redis_client: redis.Redis, redis_log: RedisHotLog
):
    run = Watched(harness)
    harness.do(run.begin())
    payload = newest(redis_client, keys, run.run_id)

    for _ in range(100):
        redis_client.publish(keys.live("default", run.run_id), payload)
    harness.do(run.say("c"))
    harness.do(run.end())

    run.assert_true()
    assert redis_log.keyring.dropped == 0


STREAMS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "an id far above ours": lambda client, stream: client.xadd(stream, {"e": b"evil"}),
    "the highest id": lambda client, stream: client.xadd(
        stream, {"e": b"evil"}, id="18446744073709551615-18446744073709551615"
    ),
    "two fields": lambda client, stream: client.xadd(stream, {"e": b"evil", "f": b"evil"}),
    "another field": lambda client, stream: client.xadd(stream, {"evil": b"evil"}),
    "no stream at all": lambda client, stream: client.set(stream, "evil"),
    "ten thousand": lambda client, stream: [client.xadd(stream, {"e": b"evil"}) for _ in range(10_000)],
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_a_stranger_wrote_to_is_begun_again(
    harness: JournalHarness, keys: Keys, redis_client: redis.Redis, redis_log: RedisHotLog, kind: str
):
    run = Watched(harness)
    harness.do(run.begin())
    stream = keys.stream("default", run.run_id)

    with redis_client.pipeline(transaction=False) as pipeline:
        STREAMS[kind](pipeline, stream)
        pipeline.execute()
    harness.do(run.say("c"))
    harness.do(run.say("d"))
    held: Any = redis_client.xrange(stream)
    late = harness.do(redis_log.read_after("default", run.run_id, 0))
    life_ms: Any = redis_client.pttl(stream)
    harness.do(run.end())

    run.assert_true()
    assert [entry for entry, _ in held] == [b"%d-0" % line.seq for line in late]
    assert late[-1].seq in [line.seq for line in run.seen]
    assert 0 < life_ms <= 60_000


KEYS_OF_A_RUN: dict[str, Callable[[redis.Redis, str, str], Any]] = {
    "last": lambda client, stream, meta: client.hset(meta, "last", 10**9),
    "last and an entry above": lambda client, stream, meta: (
        client.hset(meta, "last", 10**9),
        client.xadd(stream, {"e": b"evil"}, id=f"{10**9}-0"),
    ),
    "last is no number": lambda client, stream, meta: client.hset(meta, "last", "evil"),
    "fence": lambda client, stream, meta: client.hset(meta, "fence", 10**9),
    "fence is no number": lambda client, stream, meta: client.hset(meta, "fence", "evil"),
    "bytes": lambda client, stream, meta: client.hset(meta, "bytes", 10**15),
    "bytes are endless": lambda client, stream, meta: client.hset(meta, "bytes", "inf"),
    "bytes are no number": lambda client, stream, meta: client.hset(meta, "bytes", "nan"),
    "no hash": lambda client, stream, meta: (client.delete(meta), client.set(meta, "evil")),
    "no stream": lambda client, stream, meta: (client.delete(stream), client.set(stream, "evil")),
    "neither": lambda client, stream, meta: (client.delete(stream, meta), client.mset({stream: "evil", meta: "evil"})),
    "gone": lambda client, stream, meta: client.delete(stream, meta),
}


@pytest.mark.parametrize("kind", KEYS_OF_A_RUN)
def test_followers_get_each_body_at_once_whatever_a_runs_keys_hold(
    harness: JournalHarness, keys: Keys, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
):
    for wait in ("GAP_S", "IDLE_S", "POLL_S"):
        monkeypatch.setattr(f"bus.journal.live.reader.{wait}", 3600.0)  # SQL is not asked instead
    run = Watched(harness)
    harness.do(run.begin())

    for piece in "cdef":
        KEYS_OF_A_RUN[kind](redis_client, keys.stream("default", run.run_id), keys.meta("default", run.run_id))
        harness.do(run.say(piece))
    harness.do(run.end())

    run.assert_true()


def test_a_forged_fence_ends_nothing(
    harness: JournalHarness, keys: Keys, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bus.journal.live.reader.IDLE_S", 0.1)  # nothing of it arrives live any more
    run = Watched(harness)
    harness.do(run.begin())

    redis_client.hset(keys.meta("default", run.run_id), "fence", 10**6)
    harness.do(run.owner.say("c", "d"))
    harness.do(run.end())

    run.assert_true()
    assert not run.owner.writer.is_stale


@pytest.mark.timeout(120)
def test_a_flood_changes_nothing_and_causes_no_more_queries(
    harness: JournalHarness,
    keys: Keys,
    redis_client: redis.Redis,
    redis_log: RedisHotLog,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    run, neighbour = Watched(harness), Watched(harness)
    harness.do(run.begin())
    harness.do(neighbour.begin())
    statements: list[str] = []

    @event.listens_for(harness.database.engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT events."):
            statements.append(statement)

    began_s = time.monotonic()
    for _ in range(10):
        with redis_client.pipeline(transaction=False) as flood:
            for _ in range(1000):
                flood.publish(keys.live("default", run.run_id), run.evil())
            flood.execute()
        harness.do(run.say("c"))
        harness.do(neighbour.say("n"))
    took_s, pages = time.monotonic() - began_s, len(statements)
    harness.do(run.end())
    harness.do(neighbour.end())

    run.assert_true()
    neighbour.assert_true()
    assert redis_log.keyring.dropped == 10_000
    # A hint is a page, and the next one, where that is empty; and a reader looks by itself at the beginning.
    assert pages <= 4 * (2 + took_s)  # seconds
    (warning,) = [record.getMessage() for record in caplog.records if "signed" in record.getMessage()]
    assert keys.live("default", run.run_id) in warning
    assert EVIL not in caplog.text


def test_it_is_said_once_a_minute_and_hinted_once_a_second(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    now_s = 1000.0
    monkeypatch.setattr("bus.journal.live.signatures.time.monotonic", lambda: now_s)
    verifier = keyring()
    hints = []

    for _ in range(560):  # 70 seconds
        verifier._drop("here", 5)
        hints.append(verifier.should_hint("here"))
        now_s += 0.125

    assert [record.getMessage().partition(" so far")[0].split()[-1] for record in caplog.records] == ["1", "481"]
    assert hints.count(True) == 70
    assert verifier.should_hint("elsewhere")
