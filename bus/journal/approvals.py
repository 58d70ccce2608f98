"""Approvals: questions that a run asks a person, and the first valid answer to each.

A question is bound to the exact call and arguments shown, and it expires. A run that waits for an answer has no
owner. The answer is used once, by the owner that resumes the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
from sqlalchemy import Connection, Row, func, insert, select, update

from bus.journal.errors import ApprovalDecided
from bus.payloads import ApprovalPayload
from config.clock import epoch_ms, stamp
from config.database.tables import approvals, timers

UNKNOWN = ("run_again", "take_as_done", "fail")
"""The answers to a question about a call whose outcome is unknown."""
EXPIRY = "approval"
"""The kind of the timer that ends an unanswered question."""
UNANSWERED = approvals.c.decision.is_(None)
IN_ORDER = (approvals.c.created_ms, approvals.c.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that a run asks a person before it continues."""

    id: str
    step_id: str
    call_id: str
    name: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    digest: str
    """SHA-256 of the arguments as canonical JSON: the answer holds for exactly these."""
    decisions: tuple[str, ...] = UNKNOWN
    """The answers that may be given."""
    reason: str
    """Why a person is asked, as a sentence."""
    expires_ms: int

    def payload(self) -> ApprovalPayload:
        """Return the event that asks."""
        return ApprovalPayload(
            approval_id=self.id,
            call_id=self.call_id,
            name=self.name,
            arguments=self.arguments,
            digest=self.digest,
            decisions=self.decisions,
            reason=self.reason,
            expires_at=stamp(self.expires_ms),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """An answer."""

    MAX_RESULT_BYTES: ClassVar[int] = 256 * 1024
    """Most bytes of a result given by a person, as JSON; a tool may return as many."""
    MAX_MESSAGE_CHARS: ClassVar[int] = 2000
    KNOWN: ClassVar[tuple[str, ...]] = UNKNOWN
    """The answers that some question offers."""

    decision: str
    """One of the question's ``decisions``."""
    result: Any = None
    """With ``take_as_done``: the call's result, as the person states it."""
    message: str | None = None
    """A comment by the person, for the log."""

    @property
    def taken(self) -> Any:
        """The result of a call that is taken as done."""
        return self.result if self.result is not None else "Done, as a person confirmed."


def ask(connection: Connection, run_id: str, questions: Sequence[Question]) -> None:
    """Insert questions and their expiry timers; part of the commit in which the run begins to wait."""
    now = epoch_ms()
    for place, question in enumerate(questions):
        connection.execute(
            insert(approvals).values(
                id=question.id,
                run_id=run_id,
                step_id=question.step_id,
                call_id=question.call_id,
                name=question.name,
                digest=question.digest,
                reason=question.reason,
                arguments_json=orjson.dumps(dict(question.arguments)).decode(),
                decisions_json=orjson.dumps(question.decisions).decode(),
                expires_ms=question.expires_ms,
                created_ms=now + place,  # those asked at once keep their order
            )
        )
        connection.execute(
            insert(timers).values(id=question.id, run_id=run_id, kind=EXPIRY, due_ms=question.expires_ms)
        )


def pending(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the unanswered questions of a run as the API shows them, the oldest first."""
    query = select(approvals).where(approvals.c.run_id == run_id, UNANSWERED).order_by(*IN_ORDER)
    return [_shown(row) for row in connection.execute(query)]


def pending_chars(connection: Connection, run_id: str) -> int:
    """Return the characters of the arguments in the run's open questions, without reading the arguments."""
    chars = func.coalesce(func.sum(func.length(approvals.c.arguments_json)), 0)
    return int(connection.execute(select(chars).where(approvals.c.run_id == run_id, UNANSWERED)).scalar_one())


def last_decided(connection: Connection, run_id: str) -> ApprovalDecided | None:
    """Return the error for a late answer to this run's newest question.

    None where no person answered it: it expired, or the run ended before.
    """
    asked = select(approvals).where(approvals.c.run_id == run_id)
    row = connection.execute(asked.order_by(approvals.c.created_ms.desc(), approvals.c.id.desc())).first()
    if row is None or row.decision is None:
        return None
    return ApprovalDecided(approval_id=row.id, decision=row.decision, by=row.decided_by)


def answers(connection: Connection, run_id: str) -> dict[str, tuple[str, Decision | None]]:
    """Return the answers to act on, by step id: the approval's id, and the decision; None where it is unanswered.

    ``run_again`` is valid for one owner. The other decisions have no effect outside the journal, so each owner gets
    them until one has committed the result.
    """
    is_used = approvals.c.used_ms.is_not(None) & (approvals.c.decision == "run_again")
    query = select(approvals).where(approvals.c.run_id == run_id, ~is_used).order_by(*IN_ORDER)
    return {row.step_id: (row.id, _decision(row)) for row in connection.execute(query)}


def use(connection: Connection, approval_ids: Sequence[str]) -> None:
    """Mark answers as used, in the transaction in which a run is claimed to act on them."""
    if approval_ids:
        connection.execute(
            update(approvals)
            .where(approvals.c.id.in_(approval_ids), approvals.c.used_ms.is_(None))
            .values(used_ms=epoch_ms())
        )


def _decision(row: Row[Any]) -> Decision | None:
    if row.decision is None:
        return None
    given = orjson.loads(row.decision_json)
    return Decision(decision=row.decision, result=given["result"], message=given["message"])


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {
        "approval_id": row.id,
        "kind": row.kind,
        "call_id": row.call_id,
        "name": row.name,
        "arguments": orjson.loads(row.arguments_json),
        "digest": row.digest,
        "decisions": orjson.loads(row.decisions_json),
        "reason": row.reason,
        "expires_at": stamp(row.expires_ms),
        "asked_at": stamp(row.created_ms),
    }
