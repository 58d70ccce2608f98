"""The one way to end a run: give every open step a result, then build the end event.

An owner has the facts in memory. Of a run without an owner (a stop while queued or waiting, an expiry, a run whose
workers kept crashing) they are read from SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, select

from bus.journal.approvals import NO_ANSWER, Decision, answers
from bus.journal.errors import StaleOwner
from bus.journal.log.commit import Commit
from bus.journal.records.control_requests import STOP, ControlRequest, answers_at_end, unread_controls
from bus.journal.records.steps import WORKFLOW, StepEnded, Totals, left_to_undo, read_totals
from bus.journal.records.threads import HistoryItem, error_item
from bus.journal.states.codes import STOPPED, Ending, RunStatus
from bus.journal.unowned.transitions import CommitResult, end, lock_run
from bus.payloads import EndPayload, EndStatus, ErrorPayload, HistoryPayload, Outcome, Payload, ToolResultPayload
from config.database.engine import Database
from config.database.tables import steps
from config.effects import recorded_policy
from config.errors import CallboardError
from config.ids import new_id

NOT_FINISHED = "The run ended before this call was finished."
NOT_KNOWN = "The run ended while this call was under way; it is not known whether it took effect."
NOT_MADE = "the call that undoes it was not made"
GIVEN_UP = "It is not known whether this call took effect, and a person let the run fail."


class Took(NamedTuple):
    """How long a run took."""

    duration_ms: int
    """From its acceptance to its end."""
    work_ms: int | None
    """Of it, how long workers owned the run; None: an earlier release began it."""


def end_commit(
    ending: Ending, closed: Commit, totals: Totals, took: Took, unread: Sequence[ControlRequest] = ()
) -> Commit:
    """Return the commit that ends a run: ``closed``, the error event if there is one, and the end event last.

    ``closed`` has a result for every open call, so that the thread's history stays valid. ``unread``: the controls
    that it answers.
    """
    error = ending.error
    errors = [ErrorPayload(code=error.code, message=str(error), retryable=False)] if error is not None else []
    end = end_event(ending.status, totals, took, reason=ending.reason)
    code = error.code if error is not None else None
    history = [*closed.history, error_item(ending.note, code)]
    change = replace(closed, events=[*closed.events, *errors, end], history=history, error_code=code)
    return answering(change, unread)


def answering(change: Commit, unread: Sequence[ControlRequest]) -> Commit:
    """Return a run's last commit with an answer to each of its unread controls; a stop may undo the turn with it."""
    end = change.events[-1]
    assert isinstance(end, EndPayload)
    answers = answers_at_end(unread, end.status)
    is_undone = end.status == "cancelled" and any(r.kind == STOP and r.data.get("rollback") for r in unread)
    undone = [HistoryPayload(kind="rolled_back")] if is_undone else []
    events = [*change.events[:-1], *answers, *undone, end]
    return replace(change, events=events, history=_with_cause(change.history, unread), undoes_turn=is_undone)


def _with_cause(history: Sequence[HistoryItem], unread: Sequence[ControlRequest]) -> list[HistoryItem]:
    """Return the last messages of a run; the note about a stop that no person requested names its cause."""
    cause = next((request.cause for request in unread if request.kind == STOP), None)
    note = {"content": STOPPED.note}
    return [replace(item, data={"content": cause}) if cause and item.data == note else item for item in history]


def result_of_cut_off(
    effect: str | None, decision: Decision | None, ending: Ending, *, is_begun: bool
) -> tuple[Outcome, Any]:
    """Return the outcome and result of a call that was open when the run ended: ``unknown`` if it may have had effect.

    ``decision`` is a person's answer about the call that no owner has used yet. ``effect`` is None for a call whose
    tool does not exist or whose arguments are invalid.
    """
    if decision is not None and decision.decision == "take_as_done":
        return "done", decision.taken
    if decision is not None and decision.decision == "reject":
        return "refused", decision.refusal
    if decision is not None and decision.decision == "fail":
        return "unknown", GIVEN_UP
    if is_begun and effect and recorded_policy(effect).is_unknown_when_cut_off:
        return "unknown", NOT_KNOWN
    return ending.step_status, NOT_FINISHED


def end_event(
    status: EndStatus, totals: Totals, took: Took, *, reason: str | None = None, output: Any = None
) -> EndPayload:
    """Return the last event of a run that has used ``totals``."""
    return EndPayload(
        status=status,
        reason=reason,
        output=output,
        usage=totals.usage or None,
        cost_usd=totals.cost_usd,
        steps=totals.steps,
        duration_ms=took.duration_ms,
        work_ms=took.work_ms,
    )


# --- without an owner -----------------------------------------------------------------------------


def fail_owned(database: Database, run_id: str, fence: int, error: CallboardError) -> CommitResult:
    """End a run for an owner that cannot resume it; the results of its open calls are built from SQL.

    Raises:
        StaleOwner: another worker owns the run now.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None or row.fence != fence or row.status != RunStatus.RUNNING:
            raise StaleOwner(run_id, fence)
        return end_run(connection, row, Ending.failed(error))


def end_run(
    connection: Connection, row: Row[Any], ending: Ending, crashes: Sequence[dict[str, Any]] | None = None
) -> CommitResult:
    """End a locked run without a live owner: write results for open calls, its end, and the thread's next wake-up."""
    closed = _close(connection, row, ending)
    unread = [_unread(request, row.definition_digest) for request in unread_controls(connection, row.id)]
    took = Took(max(0, row.age_ms), row.work_ms)
    change = end_commit(ending, closed, read_totals(connection, row.id), took, unread)
    if row.kind == WORKFLOW:
        change = _naming_left(connection, row, change)
    return end(connection, row, change, crashes)


def _naming_left(connection: Connection, run: Row[Any], change: Commit) -> Commit:
    """Return the end of a workflow with the calls that would have undone others; only an owner makes them."""
    left = [{**call, "reason": NOT_MADE} for call in left_to_undo(connection, run.id)]
    end = change.events[-1]
    assert isinstance(end, EndPayload)
    return replace(change, events=[*change.events[:-1], replace(end, not_undone=left or None)])


def _unread(request: ControlRequest, digest: str) -> ControlRequest:
    """Return a control as a run ends that has no owner which could look at it."""
    return replace(request, is_stale=request.may_be_stale, is_unchecked=not request.is_checked_for(digest))


def _close(connection: Connection, run: Row[Any], ending: Ending) -> Commit:
    """Return the ends of the steps that are open in SQL."""
    query = select(steps).where(steps.c.run_id == run.id, steps.c.ended_ms.is_(None)).order_by(steps.c.number)
    events: list[Payload] = []
    ended: list[StepEnded] = []
    history: list[HistoryItem] = []
    answered = answers(connection, run.id)
    for step in connection.execute(query).all():
        if step.kind != "tool":
            ended.append(StepEnded(id=step.id, status=ending.step_status, attempts=step.attempt))
            continue
        decision = answered.get(step.id, NO_ANSWER).decision
        outcome, result = result_of_cut_off(step.effect, decision, ending, is_begun=step.status != "planned")
        call = {"call_id": step.call_id, "name": step.name, "outcome": outcome, "result": result}
        events.append(ToolResultPayload(**call, attempt=step.attempt, step_id=step.id))
        ended.append(StepEnded(id=step.id, status=outcome, result=result, attempts=step.attempt))
        history.append(HistoryItem(id=new_id("msg"), role="tool", data=call))
    return Commit(events=events, ended=ended, history=history)
