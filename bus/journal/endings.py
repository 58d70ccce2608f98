"""Ends written without an owner: a stop nobody has to be asked about, an expiry, a run that killed three owners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, insert, select, update

from bus.journal.approvals import Decision, answers
from bus.journal.idempotency import IdempotencyKey, remember, used_before
from bus.journal.ownerless import Written, has_live_owner, lock_run, untouched, write
from bus.journal.progress import Tally, read_tally
from bus.journal.steps import StepEnded, end_steps
from bus.journal.threads import HistoryItem, add_messages_of, close_thread_of
from bus.journal.who import Who
from bus.payloads import TERMINAL, EndPayload, EndStatus, ErrorPayload, Outcome, Payload, ToolResultPayload
from config.database import WALL_MS, Database
from config.errors import CallboardError, RunUnknown, StaleOwner
from config.failpoints import failpoint
from config.ids import new_id
from config.tables import controls, runs, steps

NOT_FINISHED = "The run ended before this call was finished."
NOT_KNOWN = "The run ended while this call was under way; it is not known whether it took effect."


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a run ends that nobody owns."""

    end: EndPayload
    """What the run has used comes in when it is written."""
    note: str
    """What a person reads in the thread."""
    error: ErrorPayload | None = None


def cancel(database: Database, who: Who, run_id: str, by: str, idempotency: IdempotencyKey | None = None) -> Written:
    """Ask a run to stop, or end it here when nobody owns it. Asked again, nothing more happens.

    With a live lease only a row in ``controls`` and the flag are written, which the owner turns into
    events; without one the end is written here.

    Raises:
        RunUnknown: there is no such run, or it is somebody else's.
        IdempotencyConflict: the key was used with another body.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None or (row.tenant, row.principal) != (who.tenant, who.principal):
            raise RunUnknown(run_id)
        if idempotency is not None:
            if used_before(connection, who, idempotency) is not None:
                return untouched(row)
            remember(connection, who, idempotency, run_id)
        if row.status in TERMINAL:
            return untouched(row)
        if has_live_owner(database, connection, row):
            if not row.stop_requested:
                connection.execute(update(runs).where(runs.c.id == run_id).values(stop_requested=True))
                order = {"run_id": run_id, "kind": "stop", "by": by, "created_ms": WALL_MS}
                connection.execute(insert(controls).values(**order))
            return untouched(row)
        written = end_run(connection, row, cancelled(row))
    failpoint("ownerless")
    return written


def cancelled(row: Row[Any]) -> Ending:
    """Return the end of a run that was stopped while nobody owned it."""
    reason = "stopped before it was finished"
    return Ending(end=_end(row, "cancelled", reason), note=f"Stopped: {reason}.")


def failed(row: Row[Any], wrong: CallboardError, status: EndStatus = "failed") -> Ending:
    """Return the end of a run that came to grief without an owner; ``status`` is failed or dead."""
    error = ErrorPayload(code=wrong.code, message=str(wrong))
    return Ending(end=_end(row, status, wrong.code), note=error.message, error=error)


def fail_owned(database: Database, run_id: str, fence: int, wrong: CallboardError) -> Written:
    """End a run for an owner that cannot take it up where the one before left it: no agent of its could say what
    the open calls came to.

    Raises:
        StaleOwner: somebody else has it by now.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None or row.fence != fence or row.status in TERMINAL:
            raise StaleOwner(run_id, fence)
        return end_run(connection, row, failed(row, wrong))


def end_run(connection: Connection, row: Row[Any], ending: Ending, **values: Any) -> Written:
    """End a locked run without a live owner: every open call gets its result, the log its end, the thread its turn."""
    results, ended, history = _cut_off(connection, row)
    tally = read_tally(connection, row.id)
    end = _with_tally(ending.end, tally)
    events: list[Payload] = [*results, *([ending.error] if ending.error else []), end]
    ours = {
        "status": end.status, "reason": end.reason, "detail": None, "stop_requested": True,
        "observers_told": False, "ended_ms": WALL_MS, "steps": tally.steps, "cost_usd": tally.cost_usd,
        "usage_json": orjson.dumps(dict(tally.usage)).decode() if tally.usage else None,
        "error_code": ending.error.code if ending.error else None,
    }  # fmt: skip
    written = write(connection, row, events, **(ours | values))
    end_steps(connection, ended)
    data = {"content": ending.note} | ({"code": ending.error.code} if ending.error else {})
    note = HistoryItem(id=new_id("msg"), role="error", data=data)
    add_messages_of(connection, row, [*history, note])
    return replace(written, wake=close_thread_of(connection, row.thread_key, row.id))


def _end(row: Row[Any], status: EndStatus, reason: str) -> EndPayload:
    return EndPayload(status=status, reason=reason, duration_ms=max(0, row.age_ms))


def _with_tally(end: EndPayload, tally: Tally) -> EndPayload:
    return replace(end, steps=tally.steps, usage=tally.usage or None, cost_usd=tally.cost_usd)


def outcome_of_cut_off(effect: str | None, *, is_begun: bool) -> Outcome:
    """Return what a call came to that the run's end cut off: ``unknown`` where it may have taken effect.

    An ``idempotent`` or ``keyed`` one could be made again without harm, but nobody will: only of a ``pure`` one it is
    sure that nothing came of it. ``effect`` is None for a call that could not be made at all.
    """
    return "unknown" if is_begun and effect not in (None, "pure") else "failed"


def _cut_off(
    connection: Connection, run: Row[Any]
) -> tuple[Sequence[Payload], Sequence[StepEnded], Sequence[HistoryItem]]:
    """Return what the steps that never ended come to: calls get a result, so that the history stays valid."""
    open_steps = connection.execute(
        select(steps).where(steps.c.run_id == run.id, steps.c.ended_ms.is_(None)).order_by(steps.c.number)
    ).all()
    events: list[Payload] = []
    ended: list[StepEnded] = []
    history: list[HistoryItem] = []
    answered = answers(connection, run.id)
    for step in open_steps:
        if step.kind != "tool":
            ended.append(StepEnded(id=step.id, status="failed", attempts=step.attempt))
            continue
        _, decision = answered.get(step.id, (None, None))
        outcome, result = _came_to(step, decision)
        call = {"call_id": step.call_id, "name": step.name, "outcome": outcome, "result": result}
        events.append(ToolResultPayload(**call, step_id=step.id))
        ended.append(StepEnded(id=step.id, status=outcome, result=result, attempts=step.attempt))
        history.append(HistoryItem(id=new_id("msg"), role="tool", data=call))
    return events, ended, history


def _came_to(step: Row[Any], decision: Decision | None) -> tuple[Outcome, Any]:
    """Return what an open call came to; a person may have said it, and nobody acted on it yet."""
    if decision is not None and decision.decision == "take_as_done":
        return "done", decision.taken
    outcome = outcome_of_cut_off(step.effect, is_begun=step.status != "planned")
    return outcome, NOT_FINISHED if outcome == "failed" else NOT_KNOWN
