"""How an owner lets a run go that has not ended: back to the queue, or to wait for somebody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, case, delete, insert, update

from bus.journal.approvals import Question, ask
from bus.journal.outbox import announce
from config.ids import new_id
from config.tables import runs, timers

CODE = "code"
"""The kind of the timer that ends a run for which no fitting code came."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parting:
    """What a run is left as. Everything its owner told is sealed or withdrawn in the same commit."""

    status: Literal["queued", "waiting"]
    reason: str
    """A code: drain, approval, code_version."""
    detail: str | None = None
    """For what it waits, as a sentence."""
    questions: tuple[Question, ...] = ()
    """What a person is asked; each has its own expiry."""
    ends_ms: int | None = None
    """When a run that waits for code ends if none comes, in ms since 1970 by the database's clock."""


def part(connection: Connection, owned: dict[str, Any], parting: Parting, last: int) -> bool:
    """Let go of the run and return whether it was still owned as ``owned`` says; ``last`` is its last number."""
    values = {"new_status": parting.status, "why": parting.reason, "for_what": parting.detail, "last": last}
    status = connection.execute(_PART, owned | values).scalar()
    if status is None:
        return False
    run_id = owned["its_id"]
    ask(connection, run_id, parting.questions)
    if parting.ends_ms is not None and status == "waiting":
        timer = {"id": new_id("tmr"), "run_id": run_id, "kind": CODE, "due_ms": parting.ends_ms}
        connection.execute(insert(timers).values(**timer))
    if status == "queued":
        announce(connection, run_id)
    return True


def stop_waiting_for_code(connection: Connection, run_id: str) -> None:
    """Take the timer away, in the transaction that sends the run back to the queue."""
    connection.execute(delete(timers).where(timers.c.run_id == run_id, timers.c.kind == CODE))


_PART = (
    update(runs)
    .where(
        runs.c.id == bindparam("its_id"), runs.c.fence == bindparam("its_fence"), runs.c.status == "running",
        runs.c.commits == bindparam("its_commits"),
    )
    .values(
        # A stop that came meanwhile is seen by the next owner: a run that waits has none.
        status=case((runs.c.stop_requested, "queued"), else_=bindparam("new_status")),
        reason=bindparam("why"), detail=bindparam("for_what"),
        reserved_to=bindparam("last"), declared_to=bindparam("last"), lease_until=None, owner=None,
        commits=runs.c.commits + 1,
    )
    .returning(runs.c.status)
)  # fmt: skip
