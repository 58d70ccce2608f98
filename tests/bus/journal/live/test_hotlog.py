"""The hot tail of the log: what it takes, what it refuses, and that losing it loses nothing."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from bus.journal.live import redis_log as redis_logs
from bus.journal.live import subscriber as subscribers
from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.redis_log import SCRIPT, SCRIPT_SHA, RedisHotLog
from bus.journal.log.line import Line, pack
from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.payloads import ResponsePayload, encode
from config.logs import acting_for
from tests.backends import RedisServer
from tests.bus.journal_harness import keyring


class Source:
    """A writer as the hot log sees it."""

    def __init__(self, sealed_to: int = 0, tenant: str = "default") -> None:
        self.tenant = tenant
        self.sealed_to = sealed_to
        self.calls: list[str] = []
        self.called = asyncio.Event()

    def seal_soon(self) -> None:
        self.calls.append("seal")
        self.called.set()

    def lost_ownership(self) -> None:
        self.calls.append("lost")
        self.called.set()


def line(seq: int, text: str = "x") -> bytes:
    return encode(ResponsePayload(seq=seq, content=text, message_id="msg_1"), "run_1", "thr_1")


def seqs(lines: list[Line]) -> list[int]:
    return [each.seq for each in lines]


class Follower:
    """A listener that can be waited for."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.gaps = 0
        self._changed = asyncio.Event()

    def __call__(self, lines: list[Line]) -> None:
        self.lines += lines
        self.gaps += not lines
        self._changed.set()

    async def until(self, is_enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not is_enough():
                self._changed.clear()
                await self._changed.wait()

    async def received(self, seq: int) -> None:
        await self.until(lambda: bool(self.lines) and self.lines[-1].seq >= seq)


async def sent(log: HotLog) -> None:
    """Return when everything appended has left."""
    if isinstance(log, RedisHotLog):
        async with asyncio.timeout(20):
            await log._idle.wait()


@pytest.fixture
def warm(loop: ProcessLoop) -> Callable[[Any], Any]:
    """Run a coroutine on the loop."""
    return lambda work: loop.run(work, 30)


# --- both kinds


def test_what_is_appended_can_be_read_after_any_cursor(hot_log: HotLog, warm):
    async def play() -> list[list[int]]:
        hot_log.attach("run_1", 1, Source())
        for seq in range(1, 8):
            hot_log.append("run_1", seq, line(seq))
        await sent(hot_log)
        hot_log.append("run_1", 8, line(8))
        await sent(hot_log)
        return [seqs(await hot_log.read_after("default", "run_1", cursor)) for cursor in (0, 3, 7, 8, 99)]

    assert warm(play()) == [list(range(1, 9)), [4, 5, 6, 7, 8], [8], [], []]


def test_a_follower_gets_what_is_appended_after_and_reads_what_came_before(hot_log: HotLog, warm):
    async def play() -> tuple[list[int], list[int]]:
        hot_log.attach("run_1", 1, Source())
        hot_log.append("run_1", 1, line(1))
        await sent(hot_log)
        follower = Follower()
        await hot_log.follow("default", "run_1", follower)
        before = await hot_log.read_after("default", "run_1", 0)
        hot_log.append("run_1", 2, line(2))
        await follower.received(2)
        await hot_log.unfollow("default", "run_1", follower)
        hot_log.append("run_1", 3, line(3))
        await sent(hot_log)
        return seqs(before), seqs(follower.lines)

    assert warm(play()) == ([1], [2])


def test_runs_do_not_get_each_others_events(hot_log: HotLog, warm):
    async def play() -> list[int]:
        follower = Follower()
        await hot_log.follow("default", "run_a", follower)
        for run_id, seq in (("run_b", 1), ("run_a", 2)):
            hot_log.attach(run_id, 1, Source())
            hot_log.append(run_id, seq, line(seq))
        await follower.received(2)
        return seqs(follower.lines)

    assert warm(play()) == [2]


def test_a_nudge_reaches_all_listeners(hot_log: HotLog, warm):
    async def play() -> list[str]:
        texts: list[str] = []
        both = asyncio.Event()

        def take(text: str) -> None:
            texts.append(text)
            if len(texts) == 2:
                both.set()

        await hot_log.listen("news", take)
        await hot_log.listen("news", take)
        hot_log.nudge("silence", "not this")
        hot_log.nudge("news", "stop run_1")
        async with asyncio.timeout(20):
            await both.wait()
        return texts

    assert warm(play()) == ["stop run_1"] * 2


def test_what_serves_all_runs_has_the_context_of_none(redis_log: RedisHotLog, warm):
    seen: list[object] = []

    async def play() -> None:
        hinted = asyncio.Event()

        def take(_: str) -> None:
            seen.append(acting_for.get())
            hinted.set()

        token = acting_for.set(("acme", "ann"))  # as a run does that is the first to use the log
        await redis_log.listen("hints", take)
        redis_log.nudge("hints", "wake run_1")
        acting_for.reset(token)
        await asyncio.wait_for(hinted.wait(), 10)

    warm(play())

    assert seen == [None]


def test_an_older_owner_in_the_same_process_is_notified_that_it_lost_the_run(hot_log: HotLog, warm):
    old, new = Source(), Source()

    async def play() -> None:
        hot_log.attach("run_1", 1, old)
        hot_log.attach("run_1", 2, new)
        hot_log.attach("run_1", 2, new)

    warm(play())

    assert (old.calls, new.calls) == (["lost"], [])


def test_a_late_owner_is_notified_and_takes_nothing_over(hot_log: HotLog, warm):
    old, new = Source(), Source()

    async def play() -> list[int]:
        assert hot_log.attach("run_1", 2, new)
        assert not hot_log.attach("run_1", 1, old)
        hot_log.append("run_1", 1, line(1))
        await sent(hot_log)
        return seqs(await hot_log.read_after("default", "run_1", 0))

    assert warm(play()) == [1]
    assert (old.calls, "lost" in new.calls) == (["lost"], False)


def test_an_owner_that_leaves_does_not_take_its_successors_log_along(hot_log: HotLog, warm):
    async def play() -> list[int]:
        hot_log.attach("run_1", 1, Source())
        hot_log.attach("run_1", 2, Source())
        await hot_log.detach("run_1", 1)
        assert [hot_log.is_written_by("run_1", fence) for fence in (1, 2)] == [False, True]
        hot_log.append("run_1", 5, line(5))
        await sent(hot_log)
        numbers = seqs(await hot_log.read_after("default", "run_1", 0))
        await hot_log.detach("run_1", 2)
        await hot_log.detach("run_1", 2)
        return numbers

    assert warm(play()) == [5]
    assert not hot_log.is_written_by("run_1", 2)


def test_nothing_is_kept_of_a_run_without_a_writer(redis_log: RedisHotLog, warm):
    async def play() -> list[int]:
        redis_log.append("run_1", 1, line(1))
        await sent(redis_log)
        return seqs(await redis_log.read_after("default", "run_1", 0))

    assert warm(play()) == []


def test_a_log_in_memory_forgets_only_what_sql_has(warm):
    log, source = MemoryHotLog(max_events=10), Source()

    async def play() -> None:
        log.attach("run_1", 1, source)
        for seq in range(1, 12):
            log.append("run_1", seq, line(seq))
        assert seqs(await log.read_after("default", "run_1", 0)) == list(range(1, 12))
        assert source.calls == ["seal"]
        source.sealed_to = 9
        log.append("run_1", 12, line(12))
        assert seqs(await log.read_after("default", "run_1", 0)) == [10, 11, 12]

    warm(play())


# --- the script, in a real Redis and in a fake one


class Script:
    """Calls the script as the batcher does."""

    def __init__(self, client: redis.Redis, run_id: str) -> None:
        self.client = client
        self.keys = Keys("script")
        self.run_id = run_id
        client.delete(self.stream, self.meta)

    @property
    def stream(self) -> str:
        return self.keys.stream("default", self.run_id)

    @property
    def meta(self) -> str:
        return self.keys.meta("default", self.run_id)

    def __call__(self, fence: int, first: int, last: int, *, text: str = "x", budget: int = 10**6, sealed_to: int = 0):
        body, channel = pack(line(seq, text) for seq in range(first, last + 1)), self.keys.live("default", self.run_id)
        arguments = (fence, first, last, body, channel, 60_000, budget, sealed_to)
        reply = self.client.eval(SCRIPT, 2, self.stream, self.meta, *arguments)
        answer, held = (b"ok", reply) if isinstance(reply, int) else reply
        assert held == int(self.client.hget(self.meta, "bytes") or 0)
        return answer.decode()

    def ids(self) -> list[Any]:
        return [entry for entry, _ in self.client.xrange(self.stream) or ()]


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.parity), "fake"])
def script(request: pytest.FixtureRequest, deployment: str) -> Iterator[Script]:
    if request.param == "redis":
        client = request.getfixturevalue("redis_client")
    else:
        import fakeredis

        client = fakeredis.FakeRedis()
    yield Script(client, f"run_{deployment}")
    if request.param == "fake":
        client.close()


def test_batches_are_appended_under_their_last_number(script: Script):
    assert [script(1, 1, 3), script(1, 4, 4)] == ["ok", "ok"]
    assert script.ids() == [b"3-0", b"4-0"]
    assert script.client.hget(script.meta, "last") == b"4"


def test_a_batch_sent_twice_is_there_once(script: Script):
    script(1, 1, 3)

    assert [script(1, 1, 3), script(1, 1, 3)] == ["same", "same"]
    assert script.ids() == [b"3-0"]


def test_an_older_fence_is_refused_and_a_newer_one_is_taken(script: Script):
    script(1, 1, 3)

    assert script(2, 4, 4) == "ok"
    assert script(1, 5, 5) == "stale"
    assert script.ids() == [b"3-0", b"4-0"]


def test_a_fence_is_adopted_when_redis_lost_its_memory(script: Script):
    script(5, 1, 3)
    script.client.delete(script.stream, script.meta)

    assert script(4, 4, 4) == "missing"
    assert script(4, 5, 5) == "ok"
    assert script(3, 6, 6) == "stale"


def test_what_is_neither_here_nor_in_sql_is_missed(script: Script):
    assert script(1, 2, 2, sealed_to=1) == "ok"
    assert script(1, 5, 5, sealed_to=4) == "ok"
    assert script(1, 9, 9, sealed_to=7) == "missing"
    assert script.ids() == [b"2-0", b"5-0", b"9-0"]


MUCH = "x" * 10_000
"""Beside which what Redis itself needs for an entry is little."""


def test_over_half_of_its_budget_it_keeps_what_sql_has_not(script: Script):
    for seq in range(1, 10):
        assert script(1, seq, seq, text=MUCH) == "ok"
    budget = int(int(script.client.hget(script.meta, "bytes") or 0) * 1.5)

    assert script(1, 10, 10, text=MUCH, budget=budget) == "full"
    assert len(script.ids()) == 10
    assert script(1, 11, 11, text=MUCH, budget=budget, sealed_to=9) == "ok"
    assert script.ids() == [b"10-0", b"11-0"]
    assert 0 < int(script.client.hget(script.meta, "bytes") or 0) <= budget / 2


def test_it_is_never_over_its_budget_though_sql_has_nothing(script: Script):
    script(1, 1, 1, text=MUCH)
    budget = int(script.client.hget(script.meta, "bytes") or 0) * 10

    answers = [script(1, seq, seq, text=MUCH, budget=budget) for seq in range(2, 51)]

    assert answers == ["ok"] * 4 + ["full"] * 45
    assert 4 <= len(script.ids()) <= 10
    assert script.ids()[-1] == b"50-0", "the newest are kept"
    assert 0 < int(script.client.hget(script.meta, "bytes") or 0) <= budget


def test_redis_itself_weighs_no_more_than_the_budget_however_uneven_the_entries_are(redis_client, deployment: str):
    script, budget, most = Script(redis_client, f"run_{deployment}"), 500_000, 0
    for seq in range(1, 371):  # SQL has the first 300, which are small, and then falls behind
        script(1, seq, seq, text="x" if seq <= 300 else MUCH, budget=budget, sealed_to=300 if seq > 300 else 0)
        most = max(most, int(redis_client.memory_usage(script.stream, samples=0) or 0))

    assert budget / 2 < most <= budget


def test_the_log_expires_by_itself_and_appending_does_not_shorten_its_life(script: Script):
    script(1, 1, 1)
    assert 0 < script.client.pttl(script.stream) <= 60_000
    script.client.pexpire(script.stream, 500_000)
    script.client.pexpire(script.meta, 500_000)

    script(1, 2, 2)

    assert script.client.pttl(script.stream) > 60_000
    assert script.client.pttl(script.meta) > 60_000


def test_the_script_is_named_by_its_digest():
    assert hashlib.sha1(SCRIPT.encode()).hexdigest() == SCRIPT_SHA


# --- in Redis


def test_many_runs_leave_in_one_batch(redis_log: RedisHotLog, warm):
    async def play() -> list[int]:
        await redis_log.read_after("default", "run_0", 0)
        batches: list[int] = []
        wire = redis_log._writer
        assert wire is not None
        send = wire.send

        def counting(commands):
            batches.append(len(commands))
            return send(commands)

        wire.send = counting  # type: ignore[method-assign]  # to count what leaves
        for run in range(20):
            redis_log.attach(f"run_{run}", 1, Source())
            for seq in range(1, 6):
                redis_log.append(f"run_{run}", seq, line(seq))
        await sent(redis_log)
        return batches

    counts = warm(play())

    assert counts[0] == 20
    assert sum(counts) in (20, 41)  # a fresh Redis is taught the script, and asked again


def test_a_long_batch_is_cut(redis_log: RedisHotLog, redis_client, warm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redis_logs, "MAX_ENTRY_BYTES", 1000)

    async def play() -> list[int]:
        redis_log.attach("run_1", 1, Source())
        for seq in range(1, 31):
            redis_log.append("run_1", seq, line(seq, "x" * 90))
        await sent(redis_log)
        return seqs(await redis_log.read_after("default", "run_1", 0))

    assert warm(play()) == list(range(1, 31))
    assert 3 < redis_client.xlen(redis_log._keys.stream("default", "run_1")) < 10


def test_a_later_owner_elsewhere_is_noticed_with_the_next_append(redis_url: str, deployment: str, warm):
    logs = [RedisHotLog(redis_url, Keys(deployment), keyring(), ttl_s=60, max_bytes=10**6) for _ in range(2)]
    sources = [Source(), Source()]

    async def play() -> list[int]:
        for number, log in enumerate(logs):
            log.attach("run_1", number + 1, sources[number])
        logs[1].append("run_1", 1000, line(1000))
        await sent(logs[1])
        logs[0].append("run_1", 5, line(5))
        await sent(logs[0])
        after = await logs[0].read_after("default", "run_1", 0)
        for log in logs:
            await log.close()
        return seqs(after)

    assert warm(play()) == [1000]
    assert sources[0].calls == ["seal"]  # what it puts into SQL there tells it whether Redis spoke the truth
    assert "lost" not in sources[1].calls


def test_a_flush_in_the_middle_makes_the_writer_seal_and_the_stream_continues(own_redis: RedisServer, warm):
    log, source = RedisHotLog(own_redis.url, Keys("own"), keyring(), ttl_s=60, max_bytes=10**6), Source()

    async def play() -> list[int]:
        log.attach("run_1", 1, source)
        log.append("run_1", 1, line(1))
        await sent(log)
        assert log._writer is not None
        await log._writer.send([("FLUSHALL",), ("SCRIPT", "FLUSH")])
        log.append("run_1", 2, line(2))
        await sent(log)
        log.append("run_1", 3, line(3))
        await sent(log)
        after = await log.read_after("default", "run_1", 0)
        await log.close()
        return seqs(after)

    assert warm(play()) == [2, 3]
    assert source.calls == ["seal"]


def test_a_log_outlives_its_run_for_a_while(redis_log: RedisHotLog, redis_client, warm):
    keys = redis_log._keys

    async def play() -> None:
        redis_log.attach("run_1", 1, Source())
        redis_log.append("run_1", 1, line(1))
        await sent(redis_log)
        redis_client.persist(keys.stream("default", "run_1"))
        await redis_log.keep([("default", "run_1"), ("default", "run_without_a_log")])
        await sent(redis_log)
        assert 0 < redis_client.pttl(keys.stream("default", "run_1")) <= 60_000
        redis_client.persist(keys.meta("default", "run_1"))
        redis_log.append("run_1", 2, line(2))
        await redis_log.detach("run_1")
        await sent(redis_log)

    warm(play())

    assert redis_client.xlen(keys.stream("default", "run_1")) == 2
    assert 0 < redis_client.pttl(keys.meta("default", "run_1")) <= 60_000


def test_redis_away_and_back(own_redis: RedisServer, warm, loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subscribers, "RETRY_FIRST_S", 0.02)
    monkeypatch.setattr(redis_logs, "DOWN_S", 0.02)
    log, source = RedisHotLog(own_redis.url, Keys("own"), keyring(), ttl_s=60, max_bytes=10**6), Source()
    followers: list[Follower] = []
    nudges: list[str] = []
    is_nudged = threading.Event()

    def take(text: str) -> None:
        nudges.append(text)
        is_nudged.set()

    async def away() -> None:
        followers.append(Follower())
        await log.follow("default", "run_1", followers[0])
        await log.listen("news", take)
        log.attach("run_1", 1, source)
        log.append("run_1", 1, line(1))
        await followers[0].received(1)
        assert log.is_live
        await loop.read(own_redis._running.stop)
        await followers[0].until(lambda: followers[0].gaps > 0)
        assert not log.is_live
        source.called.clear()
        log.append("run_1", 2, line(2))
        async with asyncio.timeout(20):
            await source.called.wait()
        followers.append(Follower())
        await log.follow("default", "run_2", followers[1])
        assert await log.read_after("default", "run_1", 0) == []

    async def back(gaps: int) -> None:
        await followers[0].until(lambda: followers[0].gaps > gaps)
        log.append("run_1", 3, line(3))
        log.attach("run_2", 1, source)
        log.append("run_2", 1, line(1))
        log.nudge("news", "hello")
        await followers[0].received(3)
        await sent(log)
        assert log.is_live
        await followers[1].received(1)
        assert await loop.read(is_nudged.wait, 20)
        await log.close()

    warm(away())
    gaps = followers[0].gaps  # counted before Redis is back: the subscriber may connect again before `back` begins
    with RedisServer(own_redis._settings.state_dir) as again:
        own_redis._running = again._running
        warm(back(gaps))

    assert seqs(followers[0].lines) == [1, 3]
    assert set(nudges) == {"hello"}  # a Redis that had to be taught the script got it twice


def test_many_readers_of_a_new_process_share_its_connections(redis_url: str, deployment: str, redis_client, warm):
    log = RedisHotLog(redis_url, Keys(deployment), keyring(), ttl_s=60, max_bytes=10**6)

    async def play() -> int:
        before = len(redis_client.client_list())
        await asyncio.gather(*(log.read_after("default", f"run_{n}", 0) for n in range(20)))
        await asyncio.gather(*(log.follow("default", f"run_{n}", Follower()) for n in range(20)))
        opened = len(redis_client.client_list()) - before
        await log.close()
        return opened

    assert warm(play()) == 2


def test_a_reader_that_leaves_does_not_disturb_one_that_waits_for_the_same(redis_log: RedisHotLog, warm):
    async def play() -> list[int]:
        follower = Follower()
        await redis_log.listen("warm", lambda _: None)
        leaving = asyncio.ensure_future(redis_log.follow("default", "run_1", Follower()))
        staying = asyncio.ensure_future(redis_log.follow("default", "run_1", follower))
        await asyncio.sleep(0)
        leaving.cancel()
        await staying
        redis_log.attach("run_1", 1, Source())
        redis_log.append("run_1", 1, line(1))
        await follower.received(1)
        return seqs(follower.lines)

    assert warm(play()) == [1]


def test_no_caller_waits_long_for_a_missing_redis(warm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redis_logs, "DOWN_S", 0.02)
    log = RedisHotLog("unix:///nowhere/redis.sock", Keys("x"), keyring(), ttl_s=60, max_bytes=10**6)
    source = Source()

    async def play() -> None:
        await asyncio.gather(*(log.follow("default", f"run_{n}", Follower()) for n in range(10)))
        assert await log.read_after("default", "run_1", 0) == []
        log.attach("run_1", 1, source)
        log.append("run_1", 1, line(1))
        async with asyncio.timeout(20):
            await source.called.wait()
        await log.close()

    warm(play())

    assert source.calls == ["seal"]


# --- a Redis that is stuck, or full


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take little time for long; how long is not what these tests are about."""
    periods = [(redis_logs, name) for name in ("DOWN_S", "LATE_S", "READ_S", "REPLY_S")]
    periods += [(subscribers, name) for name in ("RETRY_FIRST_S", "RETRY_MOST_S", "CONFIRM_S", "PING_EVERY_S")]
    for module, name in periods:
        monkeypatch.setattr(module, name, 0.1)


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    """Stop a server: its sockets stay open, without an answer."""
    server._running.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server._running.process.send_signal(signal.SIGCONT)


@pytest.mark.usefixtures("impatient")
def test_a_stuck_redis_makes_the_writer_seal_repeatedly_and_delays_nothing(own_redis: RedisServer, warm):
    log, source, follower = (
        RedisHotLog(own_redis.url, Keys("own"), keyring(), ttl_s=60, max_bytes=10**6),
        Source(),
        Follower(),
    )

    async def before() -> None:
        log.attach("run_1", 1, source)
        await log.follow("default", "run_1", follower)
        log.append("run_1", 1, line(1))
        await follower.received(1)

    async def during() -> list[Line]:
        for seq in range(2, 5):
            source.called.clear()
            log.append("run_1", seq, line(seq))
            async with asyncio.timeout(20):
                await source.called.wait()
        await follower.until(lambda: follower.gaps > 0)
        assert log.is_down
        assert not log.is_live
        await log.follow("default", "run_2", Follower())
        return await log.read_after("default", "run_1", 0)

    async def after(gaps: int) -> None:
        await follower.until(lambda: follower.gaps > gaps)  # it is subscribed again
        while log.is_down:  # asking finds out
            await log.read_after("default", "run_1", 0)
            await asyncio.sleep(0.01)
        log.append("run_1", 9, line(9))
        await follower.received(9)
        assert log.is_live
        await log.close()

    warm(before())
    with frozen(own_redis):
        assert warm(during()) == []
        gaps = follower.gaps  # counted while Redis is still frozen
    warm(after(gaps))


def test_a_process_that_was_late_itself_does_not_blame_redis(own_redis: RedisServer, warm, monkeypatch):
    monkeypatch.setattr(redis_logs, "LATE_S", 0.1)
    log, source, follower = (
        RedisHotLog(own_redis.url, Keys("own"), keyring(), ttl_s=60, max_bytes=10**6),
        Source(),
        Follower(),
    )

    async def play() -> None:
        log.attach("run_1", 1, source)
        await log.follow("default", "run_1", follower)
        for seq in range(1, 9):
            log.append("run_1", seq, line(seq))
            for _ in range(seq):  # until the batch is on its way, at one of these turns of the loop;
                await asyncio.sleep(0)
            time.sleep(0.3)  # and the answer is not read for three times as long as Redis may take
            await follower.received(seq)
        await sent(log)
        assert not log.is_down
        await log.close()

    warm(play())

    assert source.calls == []


@pytest.mark.usefixtures("impatient")
def test_a_redis_that_is_full_still_says_what_it_does_not_keep(own_redis: RedisServer, warm):
    log, source, follower = (
        RedisHotLog(own_redis.url, Keys("own"), keyring(), ttl_s=60, max_bytes=10**6),
        Source(),
        Follower(),
    )

    async def play() -> list[int]:
        log.attach("run_1", 1, source)
        await log.follow("default", "run_1", follower)
        log.append("run_1", 1, line(1))
        await follower.received(1)
        assert log._writer is not None
        await log._writer.send([("CONFIG", "SET", "maxmemory", "1")])
        for seq in range(2, 8):
            log.append("run_1", seq, line(seq))
            await follower.received(seq)
        async with asyncio.timeout(20):
            await source.called.wait()
        assert not log.is_down
        lines = await log.read_after("default", "run_1", 0)
        await log._writer.send([("CONFIG", "SET", "maxmemory", "0")])
        log.append("run_1", 8, line(8))
        await follower.received(8)
        await sent(log)
        after = await log.read_after("default", "run_1", 0)
        await log.close()
        return seqs(lines) + seqs(after)

    assert warm(play()) == [1, 1, 8]
    assert seqs(follower.lines) == list(range(1, 9))


@pytest.mark.usefixtures("impatient")
def test_a_connection_that_was_cut_while_it_came_back_is_tried_again(own_redis: RedisServer, warm):
    log, follower = RedisHotLog(own_redis.url, Keys("own"), keyring(), ttl_s=60, max_bytes=10**6), Follower()

    async def play() -> None:
        await log.follow("default", "run_1", follower)
        await log.read_after("default", "run_1", 0)
        for _ in range(20):
            assert log._writer is not None
            await log._writer.send([("CLIENT", "KILL", "TYPE", "pubsub")])
            await asyncio.sleep(0.03)  # shorter than the pause before it is tried again
        log.attach("run_1", 1, Source())
        gaps = follower.gaps
        await follower.until(lambda: follower.gaps > gaps or log.is_live)
        while not log.is_live:
            await asyncio.sleep(0.01)
        log.append("run_1", 1, line(1))
        await follower.received(1)
        await log.close()

    warm(play())
