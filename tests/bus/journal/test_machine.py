"""Everything that can happen to runs, in any order, over the real journal: a state machine that hypothesis plays.

``pytest --long 100`` plays a hundred times as many, others each time; a failure prints how to play it again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, select

from bus.journal.acceptance.accept import Accepted
from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.errors import ApprovalDecided, ApprovalOver, StaleOwner
from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.ownership.leases import beat
from bus.journal.ownership.reaper import fire, reap
from bus.journal.states.crashes import is_suspect
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.transitions import CommitResult
from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.payloads import TERMINAL, encode
from config.database.engine import Database
from config.database.errors import DatabaseDamaged
from config.database.tables import controls, outbox, timers
from config.identity.principal import Principal
from tests.backends import RedisServer
from tests.bus.fake_owner import LEASE_S, NUMBERS, Call, FakeOwner, Outside, Piece, take
from tests.bus.faulty_commits import Fault, FaultyCommits
from tests.bus.journal_harness import JournalHarness, cancel, keyring
from tests.bus.rules import Rules
from tests.bus.viewer import Viewer
from tests.examples import profile

pytestmark = pytest.mark.usefixtures("small_steps")

ME = Principal()
MOST_RUNS = 5
INDEX = st.integers(0, 5)
FAULT: st.SearchStrategy[Fault | None] = st.sampled_from([None, None, None, "busy", "reply_lost", "damaged"])
PIECES: st.SearchStrategy[list[Piece]] = st.lists(
    st.sampled_from(["response", "response", "reasoning", "tool"]), min_size=1, max_size=9
)
EFFECTS = st.lists(st.sampled_from(["unsafe", "pure"]), min_size=1, max_size=3)
STOPPED = st.sampled_from([False, False, True])
LOSSES = st.sampled_from(["all", "run", "fence"])
"""What Redis forgets."""


class Machine(RuleBasedStateMachine):
    """Two threads, a few runs, owners that come and go, viewers, and what must hold at each moment."""

    def __init__(
        self, harness: JournalHarness, logs: Sequence[HotLog], faults: list[Fault], flush: Callable[[str, str], None]
    ):
        super().__init__()
        self.harness = harness
        self.database = harness.database
        self.logs = logs
        self.faults = faults
        self.flush = flush
        self.threads = [f"thr_{next(NUMBERS)}" for _ in range(2)]
        self._processes = [f"own_{next(NUMBERS)}" for _ in range(3)]
        self.accepted: list[Accepted] = []
        self.owners: list[FakeOwner] = []
        self.viewers: list[Viewer] = []
        self.outside = Outside()
        self.must = Rules(harness, self.threads, self.outside)

    # --- runs

    @initialize(doubts=st.integers(0, 2), is_stopped=STOPPED, further=st.integers(0, 3))
    def begin(self, doubts: int, is_stopped: bool, further: int) -> None:
        """Not always at the beginning: what takes many steps to come to is played too."""
        self.accept(0)
        self._claim(0, 0)
        if doubts:
            self.doubt(0, doubts, is_stopped, is_stopped, further)

    @precondition(lambda self: len(self.accepted) < MOST_RUNS)
    @rule(thread=st.integers(0, 1))
    def accept(self, thread: int) -> None:
        self.accepted.append(self.harness.accept(thread_id=self.threads[thread]))

    @rule(which=INDEX, process=INDEX)
    def claim(self, which: int, process: int) -> None:
        """Mostly of a run that can be had."""
        free = [
            number for number, acceptance in enumerate(self.accepted) if self._row(acceptance.run_id).status == "queued"
        ]
        self._claim(free[which % len(free)] if free and which < 4 else which, process)

    def _claim(self, which: int, process: int) -> None:
        """A wake-up is published, delivered and heeded."""
        row = self._run(which)
        with self.database.write() as connection:
            connection.execute(delete(outbox).where(outbox.c.run_id == row.id))
        log = self.logs[process % len(self.logs)]

        taken = self.harness.do(take(self.harness, row.id, self._processes[process % 3], log, self.outside))

        assert (taken is not None) == (row.status == "queued" and row.id == self.must.first_open(row.thread_key))
        if taken is not None:
            assert self.must.is_new_fence(row.id, taken.lease.fence)
            assert taken.lease.stop_requested == row.stop_requested
            self.owners.append(taken)

    def expire_lease(self, which: int) -> None:
        row = self._run(which)
        if row.status == "running":
            self.harness.expire_lease(row.id)

    def defer_polling(self, which: int) -> None:
        UnownedRuns(self.database, "own_1", LEASE_S, lambda written: None).defer_polling(self._run(which).id)

    def reap(self, which: int, has_lost_owner: bool) -> None:
        row = self._run(which)
        if has_lost_owner and row.status == "running":
            self.harness.expire_lease(row.id)
            row = self._row(row.id)

        done = reap(self.database, row.id)

        after = self._row(row.id)
        if row.status != "running" or row.lease_until != 0:
            assert (done, after) == (None, row)
            return
        assert done is not None
        notes = orjson.loads(row.crashes_json or "[]")
        is_last = is_suspect(row.crashes, notes) and not self._beside(row) and notes[-1].get("shared") != row.owner
        assert after.status == ("cancelled" if row.stop_requested else "dead" if is_last else "queued")
        is_exempt = not is_suspect(row.crashes, notes) and self._shares_owner_with_suspect(row)
        counted = row.crashes + (after.status != "queued" or not is_exempt)
        assert (after.crashes, len(orjson.loads(after.crashes_json or "[]"))) == (counted, counted)
        self._show(done)

    def _shares_owner_with_suspect(self, row: Any) -> bool:
        return any(
            is_suspect(neighbour.crashes, orjson.loads(neighbour.crashes_json or "[]"))
            for neighbour in self._beside(row)
        )

    def _beside(self, row: Any) -> list[Any]:
        """Return the runs of the same owner."""
        others = [self._row(acceptance.run_id) for acceptance in self.accepted if acceptance.run_id != row.id]
        return [neighbour for neighbour in others if neighbour.status == "running" and neighbour.owner == row.owner]

    def cancel(self, which: int) -> None:
        row = self._run(which)

        stopped = cancel(self.database, ME, row.id, "ann")

        after = self._row(row.id)
        if row.status in TERMINAL:
            assert (stopped.status, after) == (row.status, row)
        elif row.status == "running" and row.lease_until != 0:
            orders = self.harness.rows(select(controls).where(controls.c.run_id == row.id))
            assert (after.status, after.fence, after.stop_requested, len(orders)) == ("running", row.fence, True, 1)
        else:
            assert (stopped.status, after.status) == ("cancelled", "cancelled")
        self._show(stopped)

    @rule(which=INDEX, what=st.sampled_from(["look", "hold", "reap", "reap", "lapse", "cancel"]))
    def others(self, which: int, what: str) -> None:
        """What processes and people do to a run that they do not own."""
        if what == "look":
            self.reap(which, False)
        elif what == "reap":
            self.reap(which, True)
        elif what == "hold":
            self.defer_polling(which)
        elif what == "lapse":
            self.expire_lease(which)
        else:
            self.cancel(which)

    # --- what owners do

    @precondition(lambda self: self.owners)
    @rule(who=INDEX, fault=FAULT, what=st.sampled_from(["note", "seal", "beat", "retry", "release"]))
    def owner(self, who: int, fault: Fault | None, what: str) -> None:
        fake = self.owners[who % len(self.owners)]
        if what != "retry" or fake.step:
            getattr(self, what)(fake, fault)

    @precondition(lambda self: self.owners)
    @rule(who=INDEX, process=INDEX, is_followed=st.booleans())
    def loss(self, who: int, process: int, is_followed: bool) -> None:
        """An owner dies; perhaps that is noticed, and another one resumes the run."""
        fake = self.owners[who % len(self.owners)]
        if is_followed:
            self._replace(fake, process)
        else:
            self.owners.remove(fake)

    @precondition(lambda self: self._thinking)
    @rule(who=INDEX, kinds=PIECES, fault=FAULT, is_whole=st.booleans())
    def say(self, who: int, kinds: list[Piece], fault: Fault | None, is_whole: bool) -> None:
        """An owner streams pieces, and perhaps they are a whole message."""
        fake = self._thinking[who % len(self._thinking)]
        self._let(fake, lambda: fake.say(kinds))
        if is_whole:
            self._commit(fake, fake.message, fault)

    @precondition(lambda self: self._thinking)
    @rule(who=INDEX, fault=FAULT, effects=EFFECTS)
    def call(self, who: int, fault: Fault | None, effects: list[str]) -> None:
        fake = self._thinking[who % len(self._thinking)]
        self._commit(fake, lambda: fake.message(effects), fault)

    def retry(self, fake: FakeOwner, fault: Fault | None) -> None:
        self._commit(fake, fake.retry, fault)

    @precondition(lambda self: self._working)
    @rule(who=INDEX, which=INDEX, fault=FAULT, is_stopped=STOPPED)
    def work(self, who: int, which: int, fault: Fault | None, is_stopped: bool) -> None:
        """An owner does what comes next: lets a call take effect, commits what came of it, or asks a person."""
        fake = self._working[who % len(self._working)]
        settled = [call for call in fake.calls if call.state != "unknown"]
        if not settled:
            self.ask(fake, fault, is_stopped)
            return
        call = settled[which % len(settled)]
        if call.state == "to_run":
            fake.effect(call)
        if which < 4:
            self._commit(fake, lambda: fake.result(call), fault)

    def ask(self, fake: FakeOwner, fault: Fault | None, is_stopped: bool) -> None:
        """Let the run wait for a person; a stop may come between."""
        run_id = fake.lease.run_id
        if is_stopped:
            self.cancel(self._number(run_id))
        is_to_stop = self._row(run_id).stop_requested
        if self._commit(fake, fake.ask, fault):
            assert self._row(run_id).status == ("queued" if is_to_stop else "waiting")

    def note(self, fake: FakeOwner, fault: Fault | None) -> None:
        self._commit(fake, fake.note, fault)

    def seal(self, fake: FakeOwner, fault: Fault | None) -> None:
        self.faults[:] = [fault] if fault else []
        self._let(fake, lambda: _called(fake.writer.seal_soon))
        if fault is None and not fake.writer.is_stale:
            assert not any(fake.writer._deltas.held.values())

    def release(self, fake: FakeOwner, fault: Fault | None) -> None:
        if self._commit(fake, fake.release, fault):
            assert self._row(fake.lease.run_id).status == "queued"

    @precondition(lambda self: self.owners)
    @rule(who=INDEX, fault=FAULT, status=st.sampled_from([None, "succeeded", "failed"]))
    def end(self, who: int, fault: Fault | None, status: Any) -> None:
        fake = self.owners[who % len(self.owners)]
        if status is None:
            return
        status = "cancelled" if fake.is_stopped else status
        if self._commit(fake, lambda: fake.end(status), fault):
            assert self._row(fake.lease.run_id).status == status

    def beat(self, fake: FakeOwner, _fault: Fault | None) -> None:
        """As a lease manager does it."""
        lease = fake.lease
        row = self._row(lease.run_id)
        heartbeats = beat(self.database, lease.owner, LEASE_S, [(lease.run_id, lease.fence)])
        if [heartbeat.fence for heartbeat in heartbeats] == [lease.fence]:
            fake.is_stopped = heartbeats[0].stop_requested
            assert (row.status, row.owner) == ("running", lease.owner)
        else:
            self._let(fake, lambda: _called(fake.writer.lost_ownership))

    @precondition(lambda self: self._thinking)
    @rule(who=INDEX, count=st.integers(1, 3), took_effect=st.booleans(), is_stopped=STOPPED, further=st.integers(0, 3))
    def doubt(self, who: int, count: int, took_effect: bool, is_stopped: bool, further: int) -> None:
        """An owner dies during calls whose outcome is unknown, and the next one asks a person; who may answer."""
        fake = self._thinking[who % len(self._thinking)]
        number = self._number(fake.lease.run_id)
        if not self._commit(fake, lambda: fake.message(["unsafe"] * count), None):
            return
        if took_effect:
            fake.effect(fake.calls[0])
        following = self._replace(fake, count)
        if following is None or not following.calls:
            return
        self.ask(following, None, is_stopped)
        if further and self._row(fake.lease.run_id).status == "waiting":
            self._answered(number, further)

    def _answered(self, number: int, further: int) -> None:
        """Every question is answered; perhaps an owner resumes the run, and perhaps that one dies over it too."""
        run_id = self.accepted[number].run_id
        for index, question in enumerate(self._asked()):
            if question.run_id == run_id and question.decision is None:
                self.decide(index, "run_again")
        if further > 1:
            self._claim(number, further)
            if further > 2 and self.owners:
                self._replace(self.owners[-1], further)

    def _replace(self, fake: FakeOwner, process: int) -> FakeOwner | None:
        """Return the next owner after one died and that was noticed, if there can be one."""
        number = self._number(fake.lease.run_id)
        self.owners.remove(fake)
        before = list(self.owners)
        self.reap(number, True)
        self._claim(number, process)
        return next((owner for owner in self.owners if owner not in before), None)

    # --- people and timers

    def decide(self, which: int, answer: str) -> None:
        questions = self._asked()
        question = questions[which % len(questions)]
        row = self._row(question.run_id)

        decision = Decision(decision=answer, result={"as": "a person says"} if answer == "take_as_done" else None)
        if question.decision is not None or row.status != "waiting":
            with pytest.raises(ApprovalDecided if question.decision is not None else ApprovalOver):
                decide(self.database, ME, row.id, question.id, decision, by="ben")
            assert self._row(row.id) == row
            return
        done = decide(self.database, ME, row.id, question.id, decision, by="ann")

        is_last = [
            candidate.id for candidate in questions if candidate.run_id == row.id and candidate.decision is None
        ] == [question.id]
        assert self._row(row.id).status == ("queued" if is_last else "waiting")
        self._show(done.written)

    def fire(self, which: int) -> None:
        """The time of a question is over."""
        questions = self._asked()
        question = questions[which % len(questions)]
        row = self._row(question.run_id)
        had_timer = bool(self.harness.rows(select(timers).where(timers.c.id == question.id)))

        done = fire(self.database, row.id, question.id)

        is_due = had_timer and question.decision is None and row.status == "waiting"
        assert (done is not None) == is_due
        if done is not None:
            after = self._row(row.id)
            assert (after.status, after.error_code) == ("failed", "approval_expired")
            self._show(done)

    @precondition(lambda self: self._asked())
    @rule(which=INDEX, what=st.sampled_from(["run_again", "take_as_done", "fail", "expire"]))
    def answer(self, which: int, what: str) -> None:
        if what == "expire":
            self.fire(which)
        else:
            self.decide(which, what)

    # --- viewers, and where they read from

    @rule(which=INDEX, process=INDEX, what=st.sampled_from(["watch", "watch", "drop", "lose"]), how=LOSSES)
    def viewer(self, which: int, process: int, what: str, how: str) -> None:
        if what == "watch":
            self.watch(which, process)
        elif what == "lose":
            self.flush(how, self._run(which).id)
        elif self.viewers:
            self.harness.do(self.viewers[which % len(self.viewers)].drop())

    def watch(self, which: int, process: int) -> None:
        accepted = self.accepted[which % len(self.accepted)]
        if len(self.viewers) < 3:
            self.viewers.append(Viewer(self.harness, accepted, self.logs[process % len(self.logs)]))
        viewer = self.viewers[which % len(self.viewers)]
        self.harness.do(_called(viewer.connect))

    # --- what holds at each moment

    @invariant()
    def holds(self) -> None:
        self.must.check()
        assert max(self.outside.used.values(), default=0) <= 1, "an answer was used twice"
        for viewer in self.viewers:
            numbers = [line.seq for line in list(viewer.got)]
            assert numbers == sorted(set(numbers))

    # --- at the end

    def teardown(self) -> None:
        try:
            if sys.exc_info()[1] is None:
                self._finish()
        finally:
            for viewer in self.viewers:
                self.harness.do(viewer.drop())

    def _finish(self) -> None:
        """Whatever state things are in, every run comes to its end, and every viewer saw it all."""
        for accepted in self.accepted:
            for _ in range(20):
                row = self._row(accepted.run_id)
                if row.status in TERMINAL:
                    break
                self._continue_run(row)
                self.holds()
            assert row.status in TERMINAL
            self.viewers.append(Viewer(self.harness, accepted, self.logs[0]))
        self.harness.do(self._see_the_end())
        for viewer in self.viewers:
            assert viewer.breaches(self.must.record(viewer.run_id)) == []

    def _continue_run(self, row: Any) -> None:
        owners = [fake for fake in self.owners if (fake.lease.run_id, fake.lease.fence) == (row.id, row.fence)]
        if row.status == "waiting":
            number = next(
                n for n, question in enumerate(self._asked()) if question.run_id == row.id and question.decision is None
            )
            self.decide(number, "run_again") if row.turn % 2 else self.fire(number)
        elif row.status == "queued":
            self._claim(self._number(row.id), 0)
        elif owners and not owners[0].writer.is_stale:
            assert self._commit(owners[0], lambda: owners[0].end("succeeded"), None)
        else:
            self.reap(self._number(row.id), True)

    async def _see_the_end(self) -> None:
        for viewer in self.viewers:
            viewer.connect()
        async with asyncio.timeout(10):
            await asyncio.gather(*(viewer.task for viewer in self.viewers if viewer.task is not None))

    # --- how rules do things

    def _commit(self, fake: FakeOwner, work: Callable[[], Awaitable[Any]], fault: Fault | None) -> bool:
        """Have an owner commit something and return whether it did; it does if, and only if, the run is its own."""
        lease, wrote = fake.lease, fake.writer
        row = self._row(lease.run_id)
        is_its_own = (row.status, row.fence) == ("running", lease.fence) and not wrote.is_stale
        self.faults[:] = [fault] if fault else []
        outcome = self._let(fake, work)
        after = self._row(lease.run_id)
        if not is_its_own:
            assert (outcome, after) == ("stale", row)
        elif outcome == "failed":
            assert fault == "damaged"
            assert (wrote._commits, wrote.is_closed) == (after.commits, False)
        else:
            assert (outcome, after.commits) == ("done", wrote._commits)
            assert after.commits > row.commits
        return outcome == "done"

    def _let(self, fake: FakeOwner, work: Callable[[], Awaitable[Any]]) -> str:
        outcome = self.harness.do(self._done(fake, work))
        self.faults.clear()
        self.must.note_all_delivered(fake)
        if fake in self.owners and (fake.writer.is_closed or outcome == "stale"):
            self.owners.remove(fake)
        return outcome

    async def _done(self, fake: FakeOwner, work: Callable[[], Awaitable[Any]]) -> str:
        """Return what came of it, once everything it set going is done too."""
        outcome = "done"
        try:
            await work()
        except StaleOwner:
            outcome = "stale"
        except DatabaseDamaged:
            outcome = "failed"
        await self._quiet()
        if fake.writer.is_closed:
            await fake.owner.hot_log.detach(fake.lease.run_id, fake.lease.fence)
        return outcome

    async def _quiet(self) -> None:
        busy = True
        while busy:
            tasks = [
                task for process in self.owners for task in (process.writer._extending, process.writer._sealing) if task
            ]
            going = [task for task in tasks if not task.done()]
            if going:
                await asyncio.wait(going)
            for log in self.logs:
                if isinstance(log, RedisHotLog):
                    await log._idle.wait()
            await asyncio.sleep(0)
            busy = any(not task.done() for owner in self.owners for task in (owner.writer._sealing,) if task)

    def _show(self, done: CommitResult) -> None:
        """Tell viewers what was written without an owner, as the journal does."""
        if done.events:
            assert self.must.is_new_fence(done.run_id, done.fence)
            self.harness.do(self._shown(done))

    async def _shown(self, done: CommitResult) -> None:
        log = self.logs[done.fence % len(self.logs)]
        log.attach(done.run_id, done.fence, InSql())
        for payload in done.events:
            self.must.note_delivered(done.run_id, done.thread_id, payload)
            log.append(done.run_id, payload.seq, encode(payload, done.run_id, done.thread_id))
        await log.detach(done.run_id, done.fence)
        await self._quiet()

    # --- who and what there is

    @property
    def _thinking(self) -> list[FakeOwner]:
        return [fake for fake in self.owners if fake.step]

    @property
    def _working(self) -> list[FakeOwner]:
        return [fake for fake in self.owners if fake.calls]

    def _call(self, who: int, which: int) -> tuple[FakeOwner, Call]:
        fake = self._working[who % len(self._working)]
        return fake, fake.calls[which % len(fake.calls)]

    def _asked(self) -> list[Any]:
        return self.must.asked()

    def _run(self, which: int) -> Any:
        return self._row(self.accepted[which % len(self.accepted)].run_id)

    def _row(self, run_id: str) -> Any:
        return self.must.row(run_id)

    def _number(self, run_id: str) -> int:
        return [accepted.run_id for accepted in self.accepted].index(run_id)


class InSql:
    """The source of events that are in SQL already."""

    tenant = "default"
    sealed_to = 10**9

    def seal_soon(self) -> None: ...

    def lost_ownership(self) -> None: ...


async def _called(function: Callable[[], Any]) -> None:
    function()


@pytest.fixture
def faults(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> list[Fault]:
    """What becomes of the next commits of writers; nothing in it: they go well."""
    coming: list[Fault] = []
    FaultyCommits(sqlite, monkeypatch, lambda: coming.pop() if coming else None)
    return coming


@pytest.mark.parity  # three seconds; test_schedules.py is the unit tier's
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_whatever_happens_in_one_process(sqlite: Database, loop: ProcessLoop, faults: list[Fault]) -> None:
    def machine() -> Machine:
        logs = [MemoryHotLog(), MemoryHotLog()]

        def flush(_what: str, run_id: str) -> None:
            for log in logs:
                if run_id in log._runs:
                    log._runs[run_id].lines.clear()

        return Machine(JournalHarness(sqlite, loop, logs[0]), logs, faults, flush)

    run_state_machine_as_test(machine, settings=profile(14, stateful_step_count=30))  # type: ignore[arg-type]  # whatever makes one will do


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_whatever_happens_over_several_processes_and_redis(
    sqlite: Database, loop: ProcessLoop, faults: list[Fault], own_redis: RedisServer, deployment: str
) -> None:
    keys, client = Keys(deployment), redis.Redis.from_url(own_redis.url)
    logs = [RedisHotLog(own_redis.url, keys, keyring(), ttl_s=60, max_bytes=20_000) for _ in range(3)]

    def flush(what: str, run_id: str) -> None:
        if what == "all":
            client.flushall()
        else:
            client.delete(keys.meta("default", run_id), *([keys.stream("default", run_id)] if what == "run" else []))

    def machine() -> Machine:
        return Machine(JournalHarness(sqlite, loop, logs[0]), logs, faults, flush)

    with client:
        run_state_machine_as_test(machine, settings=profile(6, stateful_step_count=30))  # type: ignore[arg-type]  # whatever makes one will do
    for log in logs:
        loop.run(log.close())
