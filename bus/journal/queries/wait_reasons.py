"""What each open run waits for, as one sentence with a remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, select

from bus.journal.approvals import IN_ORDER, UNANSWERED
from bus.journal.ownership import workers
from bus.journal.states.conditions import expired, is_first_of_thread, is_open
from config.clock import stamp
from config.database.engine import Database, wall_ms
from config.database.tables import approvals, controls, runs, steps
from config.effects import GATE

MOST = 1000
"""Most runs that are explained at once; the oldest come first, since the others wait for them."""
MAX_CALL_CHARS = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitReason:
    """An open run, and what it waits for."""

    run_id: str
    thread_id: str
    agent: str
    title: str
    status: str
    waits_for: str
    """For programs: turn, worker, slot, wake_up, step, owner, stop, answer, task, child, code, principal or event."""
    sentence: str
    created_ms: int
    """When it was accepted, in ms since 1970 by the database's clock."""
    work_ms: int | None
    """Milliseconds for which workers owned it, up to its last commit; None: an earlier release began it."""
    behind: str | None = None
    """The run of its thread that it waits for its turn behind; None: it does not."""


def explain(database: Database, *which: ColumnElement[bool], names_machines: bool) -> list[WaitReason]:
    """Return what each open run for which these conditions hold waits for, the oldest run first.

    ``names_machines``: whether a sentence may name the host and the process of a worker.
    """
    query = select(*_COLUMNS, expired(database).label("is_expired")).where(is_open(runs), *which)
    with database.read() as connection:
        run_rows = connection.execute(query.order_by(runs.c.created_ms, runs.c.id).limit(MOST)).all()
        explainer = _Explainer(connection, run_rows, names_machines) if run_rows else None
    return [explainer.explain(run) for run in run_rows] if explainer else []


_NAMES = """
    id thread_key thread_id turn agent_id title status reason detail owner stop_requested detached queue
    created_ms work_ms
"""
_COLUMNS = tuple(runs.c[*_NAMES.split()])


class _Explainer:
    """The rows that the sentences need: each table is queried once, however many runs there are."""

    def __init__(self, connection: Connection, run_rows: Sequence[Any], names_machines: bool) -> None:
        self._names_machines = names_machines
        self._connection = connection
        self._now_ms = wall_ms(connection)
        self._fleet = workers.alive(connection)
        queued, running, waiting = (
            [run for run in run_rows if run.status == status] for status in ("queued", "running", "waiting")
        )
        self._before = self._first_of_threads({run.thread_key for run in queued})
        self._steps = self._by_run(running, steps, steps.c.ended_ms.is_(None), steps.c.number)
        self._requests = self._by_run(running, controls, controls.c.taken_ms.is_(None), controls.c.id)
        self._asked = self._by_run(waiting, approvals, UNANSWERED, *IN_ORDER)

    def explain(self, run: Any) -> WaitReason:
        explained = {"queued": self._queued, "running": self._running, "waiting": self._waiting}
        waits_for, sentence = explained[run.status](run)
        before = self._before.get(run.thread_key)
        return WaitReason(
            run_id=run.id,
            thread_id=run.thread_id,
            agent=run.agent_id,
            title=run.title,
            status=run.status,
            waits_for=waits_for,
            sentence=sentence,
            created_ms=run.created_ms,
            work_ms=run.work_ms,
            behind=before.id if before is not None and waits_for == "turn" else None,
        )

    # --- queued

    def _queued(self, run: Any) -> tuple[str, str]:
        before = self._before.get(run.thread_key)
        if before is not None and before.id != run.id:
            return "turn", f"queued behind {before.id} of its thread, which is {before.status}."
        if not self._fleet:
            return "worker", (
                "queued, and no worker is alive; start one: `./callboard worker`, or `./callboard up` for everything."
            )
        serving = [worker for worker in self._fleet if workers.serves(worker, run.queue)]
        if not serving and run.queue is None:
            return "worker", "queued, and no worker alive serves the default queue; start one: `./callboard worker`."
        if not serving:
            remedy = f"start one: `./callboard worker --queues {run.queue}`."
            return "worker", f"queued, and no worker serves queue '{run.queue}'; {remedy}"
        slots = sum(worker["slots"] for worker in serving)
        free = max(0, slots - sum(worker["busy"] for worker in serving))
        text = f"{_plural(len(serving), 'worker')} alive"
        if not free:
            taken = f"all of their {_plural(slots, 'slot')} are taken"
            return "slot", f"queued: {text}, and {taken}; it begins when one is free."
        return "wake_up", f"queued: {text}, {free} of {_plural(slots, 'slot')} free; it begins in a moment."

    # --- running

    def _running(self, run: Any) -> tuple[str, str]:
        if run.is_expired:
            return "owner", "its worker's lease has expired; the next reaper that looks requeues it."
        doing = f"{self._doing(run)}, {self._where(run)}"
        if run.stop_requested:
            return "stop", f"was asked to stop{self._by(run, 'stop')}; it was {doing}."
        if pause := self._by(run, "pause"):
            return "step", f"{doing}; it pauses behind this step, which was requested{pause}."
        return "step", f"{doing}."

    def _doing(self, run: Any) -> str:
        if not self._steps[run.id]:
            return "between two steps"
        step = self._steps[run.id][-1]
        what = {"model": f"asking the model {step.name}", "tool": f"calling the tool {step.name}"}
        since = _lasting(self._now_ms - step.started_ms)
        return f"{what.get(step.kind, step.name)} for {since} (step {step.number})"

    def _where(self, run: Any) -> str:
        for worker in self._fleet:
            if worker["worker_id"] == run.owner:
                return f"on worker {worker['host']}:{worker['pid']}" if self._names_machines else "on a worker"
        return "on a worker without a sign of life for 15 s" if run.detached else "in the program that started it"

    def _by(self, run: Any, kind: str) -> str:
        """Return who requested this of the run last, and when; nothing where it is not requested, or answered."""
        rows = [row for row in self._requests[run.id] if row.kind == kind]
        return f" by {rows[-1].by} {_lasting(self._now_ms - rows[-1].created_ms)} ago" if rows else ""

    # --- waiting

    def _waiting(self, run: Any) -> tuple[str, str]:
        questions = self._asked[run.id]
        if questions:
            return "answer", _asks(run.id, questions)
        if run.reason == "code_version":
            return "code", run.detail or "waits for a worker whose code fits its journal."
        if run.reason == "task":
            return "task", run.detail or "waits for tasks of a Celery application."
        if run.reason == "child":
            return "child", run.detail or "waits for its child runs."
        if run.reason == "paused":
            return "event", f"is paused; continue it: `./callboard resume {run.id}`."
        if run.reason == "principal_disabled":
            return "principal", run.detail or "waits until its principal is enabled."
        return "event", run.detail or f"waits: {run.reason or 'no reason is recorded'}."

    # --- asking the database

    def _first_of_threads(self, keys: Collection[int]) -> Mapping[int, Any]:
        query = select(runs.c.id, runs.c.status, runs.c.thread_key).where(is_open(runs), is_first_of_thread())
        first_rows = self._connection.execute(query.where(runs.c.thread_key.in_(keys))) if keys else ()
        return {row.thread_key: row for row in first_rows}

    def _by_run(self, run_rows: Sequence[Any], table: Any, which: Any, *order: Any) -> Mapping[str, list[Any]]:
        rows = defaultdict[str, list[Any]](list)
        if run_rows:
            query = select(table).where(table.c.run_id.in_([run.id for run in run_rows]), which).order_by(*order)
            for row in self._connection.execute(query):
                rows[row.run_id].append(row)
        return rows


def short_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call on one line, truncated to ``MAX_CALL_CHARS``."""
    argument_text = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in arguments.items())
    call = f"{name}({argument_text})"
    return call if len(call) <= MAX_CALL_CHARS else f"{call[: MAX_CALL_CHARS - 2]}…)"


def _asks(run_id: str, questions: Sequence[Any]) -> str:
    arguments = orjson.loads(questions[0].arguments_json)
    is_gate = questions[0].name == GATE
    call = f"'{arguments.get('message')}'" if is_gate else short_call(questions[0].name, arguments)
    until = stamp(questions[0].expires_ms)[:16].replace("T", " ")
    more = f" and {len(questions) - 1} more" if len(questions) > 1 else ""
    return f"waits for an answer about {call}{more}, until {until} UTC; answer it: `./callboard approve {run_id}`."


def _lasting(ms: int) -> str:
    seconds = max(0, ms // 1000)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _plural(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
