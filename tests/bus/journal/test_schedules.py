"""Random schedules of owners, zombies, lost leases and replies, releases, questions, flushes, ends and readers.

What owners do overlaps here: one begins before another one's commit is done. ``test_machine.py`` does one thing at a
time, and more of them.

Each seed is one schedule; a failure names it. ``SCHEDULES=20000`` in the environment plays more of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
import redis

from bus.journal import leases, reader, writer
from bus.journal.approvals import Decision, decide, pending
from bus.journal.endings import cancel
from bus.journal.hotlog import HotLog, MemoryHotLog
from bus.journal.ownerless import Written
from bus.journal.parting import Parting
from bus.journal.reaper import fire, reap
from bus.journal.redis_log import RedisHotLog
from bus.journal.who import Who
from bus.journal.writer import Commit
from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.payloads import TERMINAL, StatusPayload, encode
from config.database import Database
from config.errors import ApprovalDecided, ApprovalOver, StaleOwner
from tests.bus.asked import question
from tests.bus.shaky import Fault, ShakyCommits
from tests.bus.viewer import Viewer, committed, final
from tests.bus.world import Owner, World, assert_whole, keyring, message_commit

SCHEDULES = int(os.environ.get("SCHEDULES", "60"))
RESERVED_AT_A_TIME = 6


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few numbers at a time, and impatient readers: extensions, holes and questions happen often."""
    for module in (leases, writer):
        monkeypatch.setattr(module, "RESERVE", RESERVED_AT_A_TIME)
    monkeypatch.setattr(reader, "GAP_S", 0.01)
    monkeypatch.setattr(reader, "DEAF_S", 0.01)
    monkeypatch.setattr(reader, "QUIET_S", 0.02)


@pytest.fixture
def chance(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """What decides how often a commit has to be tried again, or its reply is lost."""
    chance = random.Random(0)
    draws: list[Fault | None] = ["busy", "reply_lost", *[None] * 12]
    ShakyCommits(sqlite, monkeypatch, lambda: chance.choice(draws))
    return chance


class Actor:
    """An owner of the run, and what it can do next; a zombie is one that goes on."""

    def __init__(self, schedule: Schedule, lease: Any, hot_log: HotLog) -> None:
        self.schedule = schedule
        self.owner = Owner(schedule.world, lease, hot_log)
        self.owner.tell_first()
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
        parting = Parting(status="queued", reason="drain")
        await self.owner.writer.commit(Commit(events=[StatusPayload(status="moved")], parting=parting))

    async def ask(self) -> None:
        asked = tuple(question() for _ in range(self.schedule.rnd.choice([1, 1, 2])))
        parting = Parting(status="waiting", reason="approval", questions=asked)
        events = [*(one.payload() for one in asked), StatusPayload(status="waiting")]
        await self.owner.writer.commit(Commit(events=events, parting=parting))

    async def end(self) -> None:
        if self.schedule.rnd.random() < 0.5:
            await self.message()
        await self.owner.end()

    def choose(self) -> Callable[[], Awaitable[None]]:
        acts = [self.say] * 9 + [self.message] * 3 + [self.tool, self.retry, self.seal, self.room, self.end]
        acts += [self.release, self.ask]
        return self.schedule.rnd.choice(acts)


class Schedule:
    """One random schedule, and what must hold at its end."""

    def __init__(self, seed: int, world: World, processes: list[HotLog], flush: Callable[[str], None]) -> None:
        self.rnd = random.Random(seed)
        self.world = world
        self.processes = processes
        self.flush = flush
        self.accepted = world.accept(announce=False)
        self.viewers = [self._new_viewer() for _ in range(3)]
        self.zombies: list[Actor] = []
        self.actor: Actor | None = None
        self.going: set[asyncio.Task[None]] = set()
        self.messages = 0

    def _new_viewer(self) -> Viewer:
        return Viewer(self.world, self.accepted)

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
            if chance < 0.6:
                await self._claim()
            elif chance < 0.65:
                await self._show(cancel, self.world.database, Who(), self.accepted.run_id, "ann")
            elif chance < 0.75:
                await self._show(reap, self.world.database, self.accepted.run_id)
            else:
                await self._answer(self.rnd.random() < 0.1)
        elif chance < 0.12:
            await self.world.loop.write(self.world.lapse, self.accepted.run_id, is_forgiven=True)
            self.zombies.append(self.actor)
            self.actor = None
        else:
            await self._let(self.actor)

    async def _let(self, actor: Actor) -> None:
        """Have an owner do something; sometimes go on before it is done."""
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
        run_id, world = self.accepted.run_id, self.world
        lease = await world.loop.write(world.claim, run_id, f"own_{self.rnd.random()}")
        if lease is not None:
            self.actor = Actor(self, lease, self.rnd.choice(self.processes))

    async def _answer(self, is_late: bool) -> None:
        """Say something to what the run asks, if it asks anything; or let its time be over."""
        database, run_id = self.world.database, self.accepted.run_id
        for approval_id in await self.world.loop.read(self._asked):
            if is_late:
                await self._show(fire, database, run_id, approval_id)
                return
            people = [self._decide(approval_id, name) for name in self.rnd.choice([["ann"], ["ann", "ben"]])]
            await asyncio.gather(*people)

    async def _decide(self, approval_id: str, by: str) -> None:
        database, run_id = self.world.database, self.accepted.run_id
        answer = Decision(decision=self.rnd.choice(["run_again", "fail"]))
        with contextlib.suppress(ApprovalDecided, ApprovalOver):
            await self._show(lambda: decide(database, Who(), run_id, approval_id, answer, by=by).written)

    def _asked(self) -> list[str]:
        with self.world.database.read() as connection:
            return [one["approval_id"] for one in pending(connection, self.accepted.run_id)]

    async def _show(self, function: Callable[..., Written | None], *args: Any) -> None:
        """Write without an owner as the journal does it: SQL first, then whoever watches."""
        written = await self.world.loop.write(function, *args)
        log = self.rnd.choice(self.processes)
        if written is not None and written.events:
            log.attach(written.run_id, written.fence, _Nothing())
            for payload in written.events:
                log.append(written.run_id, payload.seq, encode(payload, written.run_id, written.thread_id))
            await log.detach(written.run_id, written.fence)

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
            await self._go_on()
        self.viewers.append(self._new_viewer())
        for viewer in self.viewers:
            viewer.connect()
        async with asyncio.timeout(10):
            await asyncio.gather(*(viewer.task for viewer in self.viewers if viewer.task is not None))

    def _status(self) -> str:
        return str(self.world.run_row(self.accepted.run_id).status)

    async def _go_on(self) -> None:
        """Have the run come nearer to its end."""
        if self.actor is not None and not (self.actor.owner.writer.is_stale or self.actor.owner.writer.is_closed):
            with contextlib.suppress(StaleOwner):
                await self.actor.message()
                await self.actor.owner.end()
        elif self._status() == "waiting":
            await self._answer(False)
        else:
            self.world.lapse(self.accepted.run_id, is_forgiven=True)
            await self._claim()

    def check(self) -> None:
        """Every rule of the log, checked on what was written and on what each reader saw."""
        stored = self.world.lines(self.accepted.run_id)
        row = self.world.run_row(self.accepted.run_id)
        assert_whole(stored)
        assert orjson.loads(stored[-1].data)["status"] == row.status
        assert row.reserved_to == stored[-1].seq
        for viewer in self.viewers:
            assert_whole(viewer.got)
            assert committed(viewer.got) == committed(stored)
            assert viewer.texts() == final(stored)
        assert [line.data for line in self.viewers[-1].got if line.seq in {s.seq for s in stored}] == [
            line.data for line in stored
        ]


class _Nothing:
    """The source of events that are in SQL already."""

    sealed_to = 10**9

    def seal_soon(self) -> None: ...

    def lost_ownership(self) -> None: ...


async def play(seed: int, schedule: Schedule) -> None:
    try:
        async with asyncio.timeout(20):
            await schedule.play()
    except Exception as wrong:
        raise AssertionError(f"schedule {seed} failed: {type(wrong).__name__}: {wrong}") from wrong
    finally:
        for viewer in schedule.viewers:
            await viewer.drop()


def check(seed: int, schedule: Schedule) -> None:
    try:
        schedule.check()
    except AssertionError as wrong:
        raise AssertionError(f"schedule {seed}: {wrong}") from wrong


@pytest.mark.timeout(600)
def test_every_schedule_holds_in_one_process(sqlite: Database, loop: ProcessLoop, chance: random.Random):
    for seed in range(SCHEDULES):
        chance.seed(seed)
        log = MemoryHotLog()

        def flush(run_id: str, log: MemoryHotLog = log) -> None:
            log._logs.get(run_id, []).clear()

        schedule = Schedule(seed, World(sqlite, loop, log), [log], flush)
        loop.run(play(seed, schedule), 60)
        check(seed, schedule)


@pytest.mark.timeout(600)
def test_every_schedule_holds_over_several_processes_and_redis(
    sqlite: Database, loop: ProcessLoop, redis_url: str, redis_client: redis.Redis, deployment: str,
    chance: random.Random,
):  # fmt: skip
    keys = Keys(deployment)
    logs = [RedisHotLog(redis_url, keys, keyring(), ttl_s=60, max_bytes=20_000) for _ in range(3)]

    def flush(run_id: str) -> None:
        redis_client.delete(keys.stream(run_id), keys.meta(run_id))

    for seed in range(SCHEDULES // 2):
        chance.seed(seed)
        schedule = Schedule(seed, World(sqlite, loop, logs[0]), list(logs), flush)
        loop.run(play(seed, schedule), 60)
        check(seed, schedule)
    for log in logs:
        loop.run(log.close())
