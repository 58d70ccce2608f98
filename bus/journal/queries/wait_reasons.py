"""What each open run waits for, as one sentence with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, func, select

from bus.journal.ownership import workers
from bus.journal.states.conditions import expired, is_open
from bus.journal.who import Who
from config.clock import stamp
from config.database.engine import Database, wall_ms
from config.database.tables import approvals, controls, runs, steps

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
    """For programs: turn, worker, slot, wake_up, step, owner, stop, answer, code or event."""
    sentence: str


def explain_runs(
    connection: Connection,
    database: Database,
    who: Who,
    *,
    agent: str | None = None,
    thread_id: str | None = None,
    now_ms: int | None = None,
) -> list[WaitReason]:
    """Return what each open run (of one agent or thread, where given) waits for, the oldest run first."""
    wanted = ((runs.c.agent_id, agent), (runs.c.thread_id, thread_id))
    return _explained(connection, database, who, now_ms, *(column == its for column, its in wanted if its is not None))


def explain_run(
    connection: Connection, database: Database, who: Who, run_id: str, *, now_ms: int | None = None
) -> WaitReason | None:
    """Return what one run waits for; None where it has ended or is not visible to ``who``."""
    explained = _explained(connection, database, who, now_ms, runs.c.id == run_id)
    return explained[0] if explained else None


def _explained(
    connection: Connection, database: Database, who: Who, now_ms: int | None, *which: ColumnElement[bool]
) -> list[WaitReason]:
    mine = (runs.c.tenant == who.tenant, runs.c.principal == who.principal)
    query = select(*_COLUMNS, expired(database).label("is_expired")).where(*mine, is_open(runs), *which)
    found: list[Any] = list(connection.execute(query.order_by(runs.c.created_ms, runs.c.id).limit(MOST)))
    return _Rows(connection, wall_ms(connection) if now_ms is None else now_ms).at(found) if found else []


_NAMES = "id thread_key thread_id turn agent_id title status reason detail owner stop_requested detached queue"
_COLUMNS = tuple(runs.c[*_NAMES.split()])


class _Rows:
    """The rows that the sentences need: each table is queried once, however many runs there are."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        self._connection = connection
        self._now_ms = now_ms
        self._fleet = workers.alive(connection)

    def at(self, found: Sequence[Any]) -> list[WaitReason]:
        """Explain these runs."""
        self._before = self._first_of_threads(found)
        self._steps = self._newest(steps, found, steps.c.ended_ms.is_(None), steps.c.number)
        self._stops = self._newest(controls, found, controls.c.kind == "stop", controls.c.id)
        self._asked = self._questions(found)
        return [self._explain(run) for run in found]

    def _explain(self, run: Any) -> WaitReason:
        waits_for, sentence = _EXPLAINERS[run.status](self, run)
        return WaitReason(
            run_id=run.id,
            thread_id=run.thread_id,
            agent=run.agent_id,
            title=run.title,
            status=run.status,
            waits_for=waits_for,
            sentence=sentence,
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
        if not serving:
            return "worker", _unserved(run.queue)
        slots = sum(worker["slots"] for worker in serving)
        free = max(0, slots - sum(worker["busy"] for worker in serving))
        known = f"{_plural(len(serving), 'worker')} alive"
        if not free:
            return (
                "slot",
                f"queued: {known}, and all of their {_plural(slots, 'slot')} are taken; it begins when one is free.",
            )
        return "wake_up", f"queued: {known}, {free} of {_plural(slots, 'slot')} free; it begins in a moment."

    # --- running

    def _running(self, run: Any) -> tuple[str, str]:
        if run.is_expired:
            return "owner", "its worker's lease has expired; the next reaper that looks requeues it."
        doing = f"{self._doing(run)}, {self._where(run)}"
        if run.stop_requested:
            return "stop", f"was asked to stop{self._by(run)}; it was {doing}."
        return "step", f"{doing}."

    def _doing(self, run: Any) -> str:
        step = self._steps.get(run.id)
        if step is None:
            return "between two steps"
        what = {"model": f"asking the model {step.name}", "tool": f"calling the tool {step.name}"}
        since = _lasting(self._now_ms - step.started_ms)
        return f"{what.get(step.kind, step.name)} for {since} (step {step.number})"

    def _where(self, run: Any) -> str:
        for worker in self._fleet:
            if worker["worker_id"] == run.owner:
                return f"on worker {worker['host']}:{worker['pid']}"
        return "on a worker without a sign of life for 15 s" if run.detached else "in the program that started it"

    def _by(self, run: Any) -> str:
        order = self._stops.get(run.id)
        if order is None:
            return ""
        return f" by {order.by} {_lasting(self._now_ms - order.created_ms)} ago"

    # --- waiting

    def _waiting(self, run: Any) -> tuple[str, str]:
        asked = self._asked.get(run.id, ())
        if asked:
            return "answer", _asks(run.id, asked)
        if run.reason == "code_version":
            return "code", run.detail or "waits for a worker whose code fits its journal."
        return "event", run.detail or f"waits: {run.reason or 'no reason is recorded'}."

    # --- asking the database

    def _first_of_threads(self, found: Sequence[Any]) -> Mapping[int, Any]:
        keys = {run.thread_key for run in found if run.status == "queued"}
        if not keys:
            return {}
        first = (
            select(runs.c.thread_key, func.min(runs.c.turn).label("turn"))
            .where(runs.c.thread_key.in_(keys), is_open(runs))
            .group_by(runs.c.thread_key)
            .subquery()
        )
        its = (runs.c.thread_key == first.c.thread_key) & (runs.c.turn == first.c.turn) & is_open(runs)
        query = select(runs.c.id, runs.c.status, runs.c.thread_key).join(first, its)
        return {row.thread_key: row for row in self._connection.execute(query).all()}

    def _newest(self, table: Any, found: Sequence[Any], which: Any, order: Any) -> Mapping[str, Any]:
        ids = [run.id for run in found if run.status == "running"]
        if not ids:
            return {}
        query = select(table).where(table.c.run_id.in_(ids), which).order_by(order)
        return {row.run_id: row for row in self._connection.execute(query)}

    def _questions(self, found: Sequence[Any]) -> Mapping[str, list[Any]]:
        ids = [run.id for run in found if run.status == "waiting"]
        if not ids:
            return {}
        query = select(approvals).where(approvals.c.run_id.in_(ids), approvals.c.decision.is_(None))
        asked: dict[str, list[Any]] = {}
        for row in self._connection.execute(query.order_by(approvals.c.created_ms, approvals.c.id)):
            asked.setdefault(row.run_id, []).append(row)
        return asked


_EXPLAINERS: Mapping[str, Callable[[_Rows, Any], tuple[str, str]]] = {
    "queued": _Rows._queued,
    "running": _Rows._running,
    "waiting": _Rows._waiting,
}


def short_call(name: str | None, arguments: Mapping[str, Any] | None, most: int = MAX_CALL_CHARS) -> str:
    """Return a call on one line, truncated to ``most`` characters."""
    shown = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in (arguments or {}).items())
    call = f"{name or 'a decision'}({shown})"
    return call if len(call) <= most else f"{call[: most - 2]}…)"


def _asks(run_id: str, asked: Sequence[Any]) -> str:
    first = asked[0]
    arguments = orjson.loads(first.arguments_json) if first.arguments_json else None
    until = f", until {_day(first.expires_ms)}" if first.expires_ms else ""
    more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    return (
        f"waits for an answer about {short_call(first.name, arguments)}{more}{until}; "
        f"answer it: `./callboard approve {run_id}`."
    )


def _day(ms: int) -> str:
    return f"{stamp(ms)[:16].replace('T', ' ')} UTC"


def _lasting(ms: int) -> str:
    seconds = max(0, ms // 1000)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _unserved(queue: str | None) -> str:
    if queue is None:
        return "queued, and no worker alive serves the default queue; start one: `./callboard worker`."
    return f"queued, and no worker serves queue '{queue}'; start one: `./callboard worker --queues {queue}`."


def _plural(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
