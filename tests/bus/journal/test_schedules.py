"""Random schedules of owners that overlap: one begins something before another one's commit is done.

Owners and zombies, expired leases, lost replies, releases, flushes, ends and readers. What does not overlap is in
``test_machine.py``: one operation at a time, and every kind of them; what two processes do at the same instant is in
``test_races.py``.

Each seed is one schedule; a failure names it. ``pytest --long`` plays more of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from bus.journal.errors import StaleOwner
from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.log.commit import Commit
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.payloads import TERMINAL, StatusPayload
from cli.crashlab.invariants import breaches
from config.database.engine import Database
from tests.bus.faulty_commits import Fault, FaultyCommits
from tests.bus.journal_harness import JournalHarness, Owner, keyring, message_commit
from tests.bus.viewer import Viewer
from tests.examples import examples

SCHEDULES = 24
pytestmark = pytest.mark.usefixtures("small_steps")


@pytest.fixture
def chance(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """What decides how often a commit has to be tried again, or its reply is lost."""
    chance = random.Random(0)
    draws: list[Fault | None] = ["busy", "reply_lost", *[None] * 12]
    FaultyCommits(sqlite, monkeypatch, lambda: chance.choice(draws))
    return chance


class Actor:
    """An owner of the run, and what it can do next; a zombie is one that continues."""

    def __init__(self, schedule: Schedule, lease: Any, hot_log: HotLog) -> None:
        self.schedule = schedule
        self.owner = Owner(schedule.harness, lease, hot_log)
        self.owner.notify_of_claim()
        self.message_id: str | None = None
        self.said: list[str] = []

    async def say(self) -> None:
        if self.message_id is None:
            self.message_id, self.said = self.schedule.new_message(), []
        for _ in range(self.schedule.rnd.choice([1, 1, 1, 2, 9])):
            piece = f"{self.message_id}.{len(self.said)} "
            await self.owner.say(piece, message_id=self.message_id)
            self.said.append(piece)

    async def message(self) -> None:
        if self.message_id is not None:
            message_id, self.message_id = self.message_id, None
            await self.owner.writer.commit(message_commit("".join(self.said), message_id))

    async def tool(self) -> None:
        await self.owner.writer.commit(Commit(events=[StatusPayload(status="running")]))

    async def retry(self) -> None:
        if self.message_id is not None:
            message_id, self.message_id = self.message_id, None
            await self.owner.writer.withdraw(message_id)

    async def seal(self) -> None:
        self.owner.writer.seal_soon()

    async def room(self) -> None:
        await self.owner.writer.room()

    async def release(self) -> None:
        release = Release(status="queued", reason=Reason.DRAIN)
        await self.owner.writer.commit(Commit(events=[StatusPayload(status="moved")], release=release))

    async def end(self) -> None:
        if self.schedule.rnd.random() < 0.5:
            await self.message()
        await self.owner.end()

    def choose(self) -> Callable[[], Awaitable[None]]:
        acts = (
            [self.say] * 9 + [self.message] * 3 + [self.tool, self.retry, self.seal, self.room, self.end, self.release]
        )
        return self.schedule.rnd.choice(acts)


class Schedule:
    """One random schedule, and what must hold at its end."""

    def __init__(
        self, seed: int, harness: JournalHarness, processes: list[HotLog], flush: Callable[[str], None]
    ) -> None:
        self.rnd = random.Random(seed)
        self.harness = harness
        self.processes = processes
        self.flush = flush
        self.accepted = harness.accept_inline()
        self.viewers = [self._new_viewer() for _ in range(3)]
        self.zombies: list[Actor] = []
        self.actor: Actor | None = None
        self.going: set[asyncio.Task[None]] = set()
        self.messages = 0

    def _new_viewer(self) -> Viewer:
        return Viewer(self.harness, self.accepted)

    def new_message(self) -> str:
        self.messages += 1
        return f"msg_{self.messages}"

    async def play(self) -> None:
        for _ in range(self.rnd.randint(8, 50)):
            await self._step()
            if self.zombies and self.rnd.random() < 0.4:
                await self._let(self.rnd.choice(self.zombies))
            if self.rnd.random() < 0.05:
                self.flush(self.accepted.run_id)
            for viewer in self.viewers:
                await self._watch(viewer)
        await self._finish()

    async def _step(self) -> None:
        chance = self.rnd.random()
        if self.actor is None:
            await self._claim()
        elif chance < 0.12:
            await self.harness.loop.write(self.harness.expire_lease, self.accepted.run_id, is_forgiven=True)
            self.zombies.append(self.actor)
            self.actor = None
        else:
            await self._let(self.actor)

    async def _let(self, actor: Actor) -> None:
        """Have an owner do something; sometimes continue before it is done."""
        task = asyncio.create_task(self._quietly(actor.choose()))
        self.going.add(task)
        task.add_done_callback(self.going.discard)
        if self.rnd.random() < 0.6:
            await task
        if actor is self.actor and actor.owner.writer.is_closed:
            self.actor = None

    async def _quietly(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except StaleOwner:
            return

    async def _claim(self) -> None:
        run_id, harness = self.accepted.run_id, self.harness
        lease = await harness.loop.write(harness.claim, run_id, f"own_{self.rnd.random()}")
        if lease is not None:
            self.actor = Actor(self, lease, self.rnd.choice(self.processes))

    async def _watch(self, viewer: Viewer) -> None:
        chance = self.rnd.random()
        if chance < 0.08:
            await viewer.drop()
        elif chance < 0.3:
            viewer.connect()
        elif chance < 0.4:
            await asyncio.sleep(0)

    async def _finish(self) -> None:
        while self.going:
            await asyncio.wait(self.going)
        while self._status() not in TERMINAL:
            await self._continue_run()
        self.viewers.append(self._new_viewer())
        for viewer in self.viewers:
            viewer.connect()
        async with asyncio.timeout(10):
            await asyncio.gather(*(viewer.task for viewer in self.viewers if viewer.task is not None))

    def _status(self) -> str:
        return str(self.harness.run_row(self.accepted.run_id).status)

    async def _continue_run(self) -> None:
        """Have the run come nearer to its end."""
        if self.actor is not None and not (self.actor.owner.writer.is_stale or self.actor.owner.writer.is_closed):
            with contextlib.suppress(StaleOwner):
                await self.actor.message()
                await self.actor.owner.end()
        else:
            self.harness.expire_lease(self.accepted.run_id, is_forgiven=True)
            await self._claim()

    def check(self) -> None:
        """Every invariant of the run, and what each viewer saw of it."""
        record = self.harness.record(self.accepted.run_id)
        assert list(breaches(record)) == []
        assert [viewer.breaches(record) for viewer in self.viewers] == [[]] * len(self.viewers)


async def play(seed: int, schedule: Schedule) -> None:
    try:
        async with asyncio.timeout(20):
            await schedule.play()
    except Exception as error:
        raise AssertionError(f"schedule {seed} failed: {type(error).__name__}: {error}") from error
    finally:
        for viewer in schedule.viewers:
            await viewer.drop()


def check(seed: int, schedule: Schedule) -> None:
    try:
        schedule.check()
    except AssertionError as error:
        raise AssertionError(f"schedule {seed}: {error}") from error


@pytest.mark.parity  # more than a second
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_schedule_holds_in_one_process(sqlite: Database, loop: ProcessLoop, chance: random.Random):
    for seed in range(examples(SCHEDULES)):
        chance.seed(seed)
        log = MemoryHotLog()

        def flush(run_id: str, log: MemoryHotLog = log) -> None:
            if run_id in log._runs:
                log._runs[run_id].lines.clear()

        schedule = Schedule(seed, JournalHarness(sqlite, loop, log), [log], flush)
        loop.run(play(seed, schedule), 60)
        check(seed, schedule)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_schedule_holds_over_several_processes_and_redis(
    sqlite: Database,
    loop: ProcessLoop,
    redis_url: str,
    redis_client: redis.Redis,
    deployment: str,
    chance: random.Random,
):
    keys = Keys(deployment)
    logs = [RedisHotLog(redis_url, keys, keyring(), ttl_s=60, max_bytes=20_000) for _ in range(3)]

    def flush(run_id: str) -> None:
        redis_client.delete(keys.stream("default", run_id), keys.meta("default", run_id))

    for seed in range(examples(SCHEDULES // 2)):
        chance.seed(seed)
        schedule = Schedule(seed, JournalHarness(sqlite, loop, logs[0]), list(logs), flush)
        loop.run(play(seed, schedule), 60)
        check(seed, schedule)
    for log in logs:
        loop.run(log.close())
