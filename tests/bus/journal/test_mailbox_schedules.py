"""Random schedules of one thread's mailbox, each step beside a small model of what is promised (``mailbox_model``).

Each seed is one schedule; a failure names it and what was done. ``pytest --long`` plays more of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select

from agents.governance.guardrails.guardrails import UNGUARDED
from agents.mailbox.inbox import Inbox
from bus.journal.acceptance.accept import accept
from bus.journal.approvals import Decision
from bus.journal.controls import CONTROLS
from bus.journal.decisions.decisions import decide
from bus.journal.errors import CONTROL_REFUSED, THREAD_BUSY, ControlsChanged, StaleOwner
from bus.journal.log.commit import Commit
from bus.journal.mailbox import queue
from bus.journal.mailbox.control import control
from bus.journal.ownership.leases import requests
from bus.journal.ownership.reaper import reap
from bus.journal.records.control_requests import unread_controls
from bus.journal.states.codes import Reason
from bus.journal.states.release import DRAINED, Release
from bus.payloads import ControlPayload, EndPayload, Payload, StatusPayload, decode
from config.database.engine import wall_ms
from config.database.tables import approvals, controls, messages, outbox, runs
from config.errors import CallboardError
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, assert_whole, fire_timers, new_run
from tests.bus.mailbox_model import Mailbox, Refused, Run
from tests.bus.questions import question
from tests.examples import examples

SCHEDULES = 12
STEPS = 40
ME = Principal()
POLICIES = ("enqueue", "enqueue", "reject", "interrupt", "rollback", "merge", "steer", "steer")


class Worker:
    """An owner that does with its inbox what an agent's run does, at the same places."""

    def __init__(self, harness: JournalHarness, run_id: str, name: str) -> None:
        self.harness, self.name = harness, name
        self.owner = harness.own(run_id, name)
        journal = SimpleNamespace(
            loop=harness.loop,
            owner=SimpleNamespace(unread_controls=harness.unread, wall_clock_ms=self._wall_clock_ms),
            settings=SimpleNamespace(approval_ttl_s=3600),
        )
        self.inbox = Inbox(journal, self.owner.lease, self.save, UNGUARDED)  # type: ignore[arg-type]  # what it uses of a journal

    async def _wall_clock_ms(self) -> int:
        with self.harness.database.read() as connection:
            return wall_ms(connection)

    async def save(self, change: Commit) -> list[Payload]:
        numbered = await self.owner.writer.commit(change)
        self.inbox.committed(numbered)
        return numbered

    async def begin(self, *, begins_step: bool) -> None:
        self.inbox.begin(self.harness.unread(self.owner.lease.run_id), None)
        if begins_step and not self.owner.lease.stop_requested:
            await self.save(self.inbox.steered(at_claim=True))

    async def read(self) -> None:
        for request in requests(self.harness.database, self.name):
            self.inbox.receive(request)
        await self.inbox.settle()

    async def step(self) -> None:
        while True:
            try:
                await self.inbox.settle()
                release, answers = await self.inbox.departure()
                change = self.inbox.steered() if release is None else Commit()
                waits = [StatusPayload(status=release.status, reason=release.reason)] if release else []
                await self.save(
                    Commit(events=[*change.events, *answers, *waits], history=change.history, release=release)
                )
            except ControlsChanged:
                await self.inbox.refresh()
            else:
                return

    async def conclude(self) -> None:
        await self.inbox.settle()
        if not self.inbox.has_steers:
            with suppress(ControlsChanged):
                return await self.end("succeeded")
        await self.step()

    async def end(self, status: Any) -> None:
        await self.inbox.end(Commit(events=[EndPayload(status=status)]))

    async def leave(self, release: Release) -> None:
        waits = StatusPayload(status=release.status, reason=release.reason)
        await self.save(Commit(events=[waits], release=release))


class Schedule:
    """One random schedule, and what must hold after each of its steps."""

    def __init__(self, seed: int, harness: JournalHarness) -> None:
        self.rnd, self.seed, self.harness = random.Random(seed), seed, harness
        self.thread_id = f"talk_{seed}"
        self.model = Mailbox()
        self.worker: Worker | None = None
        self.zombies: list[Worker] = []
        self.sent = 0
        self.woken: set[str] = set()
        self.done: list[str] = []

    def play(self) -> None:
        try:
            for _ in range(STEPS):
                self._try(self._choose())
            while self.model.head() is not None:
                self._try(self._continue())
            self._check_end()
        except Exception as error:
            raise AssertionError(f"schedule {self.seed}: {' '.join(self.done)}: {error}") from error

    def _try(self, act: Callable[[], None]) -> None:
        self.done.append(act.__name__)
        act()
        self._check()

    def _choose(self) -> Callable[[], None]:
        clients = [self.send] * 3 + [self.steer] * 2 + [self.pause] * 2 + [self.resume, self.stop, self.put_first]
        return self.rnd.choice([self.rnd.choice(clients), self.rnd.choice(self._owners() or clients)])

    def _owners(self) -> list[Callable[[], None]]:
        """Return what can become of the run that the thread is at, by itself."""
        head = self.model.head()
        if head is None:
            return []
        work = [self.read] * 3 + [self.step, self.conclude, self.fail, self.ask, self.drain, self.kill]
        by_status = {
            "queued": [self.claim],
            "paused": [self.resume, self.expire],
            "asking": [self.answer, self.expire],
            "running": work + [self.zombie] * bool(self.zombies),
        }
        return by_status[head.status]

    def _continue(self) -> Callable[[], None]:
        """Return what brings the thread nearer to its end."""
        head = self.model.head()
        assert head is not None
        by_status = {"paused": self.resume, "asking": self.answer, "queued": self.claim}
        return by_status.get(head.status) or self.rnd.choice([self.read, self.conclude])

    def _either(self, mailbox: Callable[[], Any], model: Callable[[], Any]) -> Any:
        """Do it with both; both refuse it or none. Return what they return."""
        try:
            expected = model()
        except Refused:
            with pytest.raises(CallboardError) as raised:
                mailbox()
            assert raised.value.code in (CONTROL_REFUSED.code, THREAD_BUSY.code)
            return None
        return mailbox(), expected

    # --- clients

    def _text(self) -> str:
        self.sent += 1
        return f"text {self.sent}"

    def _some_run(self) -> Run | None:
        """Return mostly the run that the thread is at, sometimes one that waits or has ended."""
        head, all_runs = self.model.head(), self.model.runs()
        return head if head is not None and self.rnd.random() < 0.7 else self.rnd.choice(all_runs) if all_runs else None

    def send(self) -> None:
        text, policy = self._text(), self.rnd.choice(POLICIES)
        self.done[-1] += f"({policy})"
        new = new_run(text, thread_id=self.thread_id, if_busy=policy)
        both = self._either(lambda: accept(self.harness.database, new), lambda: self.model.send(text, policy))
        if both is not None:
            accepted, run = both
            assert run.run_id in ("", accepted.run_id)
            run.run_id = accepted.run_id

    def _control(self, verb: str, model: Callable[[Run], None], data: dict[str, str] | None = None) -> None:
        run = self._some_run()
        if run is not None:
            command = CONTROLS[verb]
            request = lambda: control(self.harness.database, ME, run.run_id, command, "ann", data=data)  # noqa: E731
            self._either(request, lambda: model(run))

    def steer(self) -> None:
        text = self._text()
        self._control("steer", lambda run: self.model.steer(run, text), {"content": text})

    def stop(self) -> None:
        self._control("cancel", self.model.stop)

    def pause(self) -> None:
        self._control("pause", self.model.pause)

    def resume(self) -> None:
        self._control("resume", self.model.resume)

    def put_first(self) -> None:
        waiting = [run for run in self.model.runs() if run.waits_in_line]
        if waiting:
            run = self.rnd.choice(waiting)
            queue.edit(self.harness.database, ME, self.thread_id, run.run_id, "ann", place="first")
            self.model.put_first(run)

    def answer(self) -> None:
        head = self._head()
        open_ones = select(approvals.c.id).where(approvals.c.run_id == head.run_id, approvals.c.decision.is_(None))
        (row,) = self.harness.rows(open_ones)
        decide(self.harness.database, ME, head.run_id, row.id, Decision(decision="run_again"), by="ann")
        self.model.answer(head)

    def expire(self) -> None:
        head = self._head()
        fire_timers(self.harness.database, head.run_id)
        self.model.end(head, "failed")

    # --- owners

    def _head(self) -> Run:
        head = self.model.head()
        assert head is not None
        return head

    def claim(self) -> None:
        head = self._head()
        begins_step = not head.is_begun or self.rnd.random() < 0.5
        self.worker = Worker(self.harness, head.run_id, f"own_{self.seed}_{len(self.done)}")
        self.harness.do(self.worker.begin(begins_step=begins_step))
        self.model.claim(head, begins_step=begins_step)
        if self.worker.owner.lease.stop_requested:
            self._do(lambda worker: worker.end("cancelled"), lambda run: self.model.end(run, "cancelled"))

    def _do(self, work: Callable[[Worker], Any], model: Callable[[Run], None]) -> None:
        """Have the owner do something; one that has read a stop ends its run instead."""
        worker, head = self.worker, self._head()
        assert worker is not None
        if any(request.kind == "stop" for request in worker.inbox.unread.values()):
            work, model = (lambda worker: worker.end("cancelled")), (lambda run: self.model.end(run, "cancelled"))
        self.harness.do(work(worker))
        model(head)
        if head.status != "running":
            self.worker = None

    def read(self) -> None:
        self._do(Worker.read, self.model.read)

    def step(self) -> None:
        self._do(Worker.step, self.model.step)

    def conclude(self) -> None:
        self._do(Worker.conclude, self.model.conclude)

    def fail(self) -> None:
        self._do(lambda worker: worker.end("failed"), lambda run: self.model.end(run, "failed"))

    def ask(self) -> None:
        asks = Release(status="waiting", reason=Reason.APPROVAL, questions=(question(),))
        self._do(lambda worker: worker.leave(asks), lambda run: self.model.leave(run, "asking"))

    def drain(self) -> None:
        self._do(lambda worker: worker.leave(DRAINED), lambda run: self.model.leave(run, "queued"))

    def kill(self) -> None:
        """The owner is lost, which others notice; it may still be at work."""
        head = self._head()
        assert self.worker is not None
        self.zombies.append(self.worker)
        self.worker = None
        self.harness.expire_lease(head.run_id, is_forgiven=True)
        reap(self.harness.database, head.run_id)
        self.model.lose(head)

    def zombie(self) -> None:
        zombie = self.rnd.choice(self.zombies)
        with pytest.raises(StaleOwner):
            self.harness.do(self.rnd.choice([Worker.step, lambda worker: worker.end("succeeded")])(zombie))

    # --- what must hold

    def _rows(self) -> list[Any]:
        return self.harness.rows(select(runs).where(runs.c.thread_id == self.thread_id).order_by(runs.c.turn))

    def _check(self) -> None:
        rows, expected = self._rows(), self.model.runs()
        for run, row in zip(expected, rows, strict=True):
            run.run_id = run.run_id or row.id
            assert (row.id, _status(row)) == (run.run_id, run.status)
        if rows:
            listed, _ = queue.listed(self.harness.database, ME, self.thread_id)
            assert [entry["content"] for entry in listed] == self.model.waiting()
            self._check_wake_up(rows)

    def _check_wake_up(self, rows: Iterable[Any]) -> None:
        """Only the run that the thread is at can be claimed, and its wake-up was sent since."""
        head = self.model.head()
        claimable = [head.run_id] if head is not None and head.status == "queued" else []
        assert self.harness.claimable() == claimable
        with self.harness.database.write() as connection:
            self.woken |= set(connection.execute(delete(outbox).returning(outbox.c.run_id)).scalars())
        self.woken &= set(claimable)  # of another one it found nothing to claim
        assert self.woken == set(claimable)

    def _check_end(self) -> None:
        query = select(messages).where(messages.c.role == "user").order_by(messages.c.turn, messages.c.number)
        rows = self.harness.rows(query.where(messages.c.run_id.in_([run.run_id for run in self.model.runs()])))
        texts = [(orjson.loads(row.data_json)["content"], bool(row.undone)) for row in rows]
        assert texts == list(self.model.history())
        events = [event for run in self.model.runs() for event in self._events_of(run)]
        answers = [event for event in events if isinstance(event, ControlPayload)]
        self._check_answers(answers)
        undelivered = [str(event.content) for event in answers if event.state == "undelivered"]
        assert sorted(undelivered) == sorted(self.model.undelivered)

    def _events_of(self, run: Run) -> list[Payload]:
        lines = self.harness.lines(run.run_id)
        assert_whole(lines)
        with self.harness.database.read() as connection:
            assert unread_controls(connection, run.run_id) == []
        return [decode(line.data) for line in lines]

    def _check_answers(self, answers: list[ControlPayload]) -> None:
        """Each control has one answer, after at most one event that it was accepted, and its row says the same."""
        query = select(controls).where(controls.c.run_id.in_([run.run_id for run in self.model.runs()]))
        states = {f"ctl_{row.id}": row.state for row in self.harness.rows(query)}
        answered = [event for event in answers if event.state != "accepted"]
        accepted = Counter(event.control_id for event in answers if event.state == "accepted")
        assert Counter(event.control_id for event in answered) == Counter(states.keys())
        assert {event.control_id: event.state for event in answered} == states
        assert not [control_id for control_id, count in accepted.items() if count > 1]


def _status(row: Any) -> str:
    return {"approval": "asking"}.get(row.reason, row.reason) if row.status == "waiting" else str(row.status)


@pytest.mark.parity
@pytest.mark.timeout(120)  # beside others that use the processors
def test_every_schedule_is_as_the_model_of_the_mailbox_says(harness: JournalHarness) -> None:
    for seed in range(examples(SCHEDULES)):
        Schedule(seed, harness).play()
