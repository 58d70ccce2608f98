"""What a run asks a person, and the one answer that counts.

A question is bound to the exact call and arguments shown, has an expiry, and holds no worker while it
waits. The first valid answer wins; it is used once, by the owner that goes on with the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, func, insert, or_, select, update

from bus.journal.idempotency import IdempotencyKey, remember, used_before
from bus.journal.outbox import announce
from bus.journal.ownerless import Written, lock_run, untouched, write
from bus.journal.who import Who
from bus.payloads import TERMINAL, ApprovalPayload, StatusPayload
from config.clock import epoch_ms, stamp
from config.database import Database
from config.errors import ApprovalDecided, ApprovalOver, ApprovalUnknown, DecisionRefused, RunUnknown
from config.failpoints import failpoint
from config.tables import approvals, timers

UNKNOWN = ("run_again", "take_as_done", "fail")
"""The answers where nobody can tell whether a call took effect."""
MAX_RESULT_BYTES = 256 * 1024
"""As much as a tool may return, as JSON."""
MAX_MESSAGE_CHARS = 2000
EXPIRY = "approval"
"""The kind of the timer that ends an unanswered question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a run asks before it goes on."""

    id: str
    kind: str
    """``unknown``: a call was cut off, and nobody can tell whether it took effect."""
    step_id: str
    call_id: str
    name: str
    """The tool's."""
    arguments: Mapping[str, Any]
    digest: str
    """SHA-256 of the arguments as canonical JSON: the answer holds for exactly these."""
    decisions: tuple[str, ...]
    """The answers that may be given."""
    reason: str
    """Why a person is asked, as a sentence."""
    expires_ms: int

    def payload(self) -> ApprovalPayload:
        """Return the event that asks."""
        return ApprovalPayload(
            approval_id=self.id, call_id=self.call_id, name=self.name, arguments=self.arguments, digest=self.digest,
            decisions=self.decisions, reason=self.reason, expires_at=stamp(self.expires_ms),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """An answer."""

    decision: str
    """One of the question's ``decisions``."""
    result: Any = None
    """With ``take_as_done``: what the call returned, as far as the person knows."""
    message: str | None = None
    """A word with it, for the log."""

    @property
    def taken(self) -> Any:
        """What a call returned that is taken as done."""
        return self.result if self.result is not None else "Done, as a person confirmed."


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """The answer that counts, and what became of the run."""

    approval_id: str
    decision: str
    by: str
    written: Written
    is_new: bool = True
    """False when the same request had been made before."""


def ask(connection: Connection, run_id: str, questions: Sequence[Question]) -> None:
    """Write questions down with the timers that end them; part of the commit in which the run begins to wait."""
    now = epoch_ms()
    for place, question in enumerate(questions):
        connection.execute(
            insert(approvals).values(
                id=question.id, run_id=run_id, kind=question.kind, step_id=question.step_id,
                call_id=question.call_id, name=question.name, digest=question.digest, reason=question.reason,
                arguments_json=orjson.dumps(dict(question.arguments)).decode(),
                decisions_json=orjson.dumps(question.decisions).decode(), expires_ms=question.expires_ms,
                created_ms=now + place,  # those asked at once keep their order
            )
        )  # fmt: skip
        connection.execute(
            insert(timers).values(id=question.id, run_id=run_id, kind=EXPIRY, due_ms=question.expires_ms)
        )


def pending(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the questions of a run nobody has answered yet, as the doors show them, the oldest first."""
    query = (
        select(approvals)
        .where(approvals.c.run_id == run_id, approvals.c.decision.is_(None))
        .order_by(approvals.c.created_ms, approvals.c.id)
    )
    return [_shown(row) for row in connection.execute(query)]


def last_decided(connection: Connection, run_id: str) -> ApprovalDecided | None:
    """Return what somebody hears who comes too late with an answer to this run's newest question.

    None where it has an answer of nobody: it expired, or the run ended before.
    """
    asked = select(approvals).where(approvals.c.run_id == run_id)
    row = connection.execute(asked.order_by(approvals.c.created_ms.desc(), approvals.c.id.desc())).first()
    if row is None or row.decision is None:
        return None
    return ApprovalDecided(row.id, row.decision, row.decided_by)


def decide(
    database: Database, who: Who, run_id: str, approval_id: str, answer: Decision, *, by: str,
    idempotency: IdempotencyKey | None = None,
) -> Decided:  # fmt: skip
    """Take the answer to one question; the run goes on once none is open.

    The same idempotency key and body return the decision as it was made.

    Raises:
        RunUnknown: there is no such run, or it is somebody else's.
        ApprovalUnknown: the run never asked that.
        ApprovalDecided: somebody answered before; says what and who.
        ApprovalOver: the run ended or was stopped, or the time for an answer is over.
        DecisionRefused: the answer is not one of those offered.
        IdempotencyConflict: the key was used with another body.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None or (row.tenant, row.principal) != (who.tenant, who.principal):
            raise RunUnknown(run_id)
        query = select(approvals).where(approvals.c.id == approval_id, approvals.c.run_id == run_id)
        question = connection.execute(query).first()
        if question is None:
            raise ApprovalUnknown(approval_id)
        if idempotency is not None and used_before(connection, who, idempotency) is not None:
            return _as_decided(question, untouched(row), is_new=False)
        _require_open(database, connection, row, question, answer)
        written = _answer(connection, row, question, answer, by)
        if idempotency is not None:
            remember(connection, who, idempotency, run_id)
    failpoint("ownerless")
    return Decided(approval_id=approval_id, decision=answer.decision, by=by, written=written)


def answers(connection: Connection, run_id: str) -> dict[str, tuple[str, Decision]]:
    """Return the answers to act on, by step: the approval's id, and what was decided.

    "Run it again" holds for one time. The others do nothing outside, so they hold for every owner until one of
    them has written down what follows.
    """
    query = select(approvals).where(
        approvals.c.run_id == run_id, approvals.c.decision.is_not(None),
        or_(approvals.c.used_ms.is_(None), approvals.c.decision != "run_again"),
    )  # fmt: skip
    return {row.step_id: (row.id, _decision(row)) for row in connection.execute(query)}


def asked_steps(connection: Connection, run_id: str) -> frozenset[str]:
    """Return the steps of a run about which a person was asked and has not answered."""
    query = select(approvals.c.step_id).where(approvals.c.run_id == run_id, approvals.c.decision.is_(None))
    return frozenset(connection.execute(query).scalars())


def use(connection: Connection, approval_ids: Sequence[str]) -> None:
    """Mark answers as used, in the transaction in which a run is claimed to act on them."""
    if approval_ids:
        connection.execute(
            update(approvals)
            .where(approvals.c.id.in_(approval_ids), approvals.c.used_ms.is_(None))
            .values(used_ms=epoch_ms())
        )


def _require_open(
    database: Database, connection: Connection, run: Row[Any], question: Row[Any], answer: Decision
) -> None:
    if question.decision is not None:
        raise ApprovalDecided(question.id, question.decision, question.decided_by)
    if run.status in TERMINAL:
        raise ApprovalOver(f"the run is over ({run.status}), so nothing can be decided any more.")
    if run.status != "waiting":  # stopped while it was about to ask; perhaps somebody owns it, to end it
        raise ApprovalOver("the run was stopped and waits for no answer; it ends by itself.")
    now = connection.execute(select(database.wall_clock())).scalar_one()
    if question.expires_ms is not None and question.expires_ms <= now:
        raise ApprovalOver("the time for an answer is over; the run ends by itself.")
    offered = orjson.loads(question.decisions_json)
    if answer.decision not in offered:
        raise DecisionRefused(answer.decision, offered)


def _answer(connection: Connection, run: Row[Any], question: Row[Any], answer: Decision, by: str) -> Written:
    given = {"result": answer.result, "message": answer.message}
    connection.execute(
        update(approvals)
        .where(approvals.c.id == question.id)
        .values(
            decision=answer.decision, decision_json=orjson.dumps(given).decode(), decided_by=by, decided_ms=epoch_ms()
        )
    )
    event = ApprovalPayload(
        approval_id=question.id, call_id=question.call_id, name=question.name, decision=answer.decision, by=by,
        reason=answer.message,
    )  # fmt: skip
    still_open = select(func.count()).select_from(approvals)
    still_open = still_open.where(approvals.c.run_id == run.id, approvals.c.decision.is_(None))
    if connection.execute(still_open).scalar_one():
        return write(connection, run, [event])
    go_on = StatusPayload(status="queued", reason="answered")
    written = write(connection, run, [event, go_on], status="queued", reason="answered", detail=None)
    announce(connection, run.id)
    return replace(written, wake=run.id)


def _as_decided(question: Row[Any], written: Written, *, is_new: bool) -> Decided:
    return Decided(
        approval_id=question.id, decision=question.decision, by=question.decided_by, written=written, is_new=is_new
    )


def _decision(row: Row[Any]) -> Decision:
    given = orjson.loads(row.decision_json)
    return Decision(decision=row.decision, result=given["result"], message=given["message"])


def _shown(row: Row[Any]) -> dict[str, Any]:
    fields = {
        "approval_id": row.id, "kind": row.kind, "call_id": row.call_id, "name": row.name,
        "arguments": orjson.loads(row.arguments_json) if row.arguments_json else None, "digest": row.digest,
        "decisions": orjson.loads(row.decisions_json), "reason": row.reason,
        "expires_at": stamp(row.expires_ms) if row.expires_ms else None, "asked_at": stamp(row.created_ms),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}
