"""Moves a waiting run to another version of its agent: what ran stays, and what a person approved is asked again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, or_, select, update

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.journal.approvals import EXPIRY, USED_UP, VOID
from bus.journal.errors import UPGRADE_REFUSED
from bus.journal.records.definition_store import keep_content, register
from bus.journal.records.steps import TOOL
from bus.journal.states.codes import CODE, Reason, RunStatus
from bus.journal.unowned.transitions import CommitResult, lock_allowed_run, move
from bus.payloads import TERMINAL, ApprovalPayload
from config.database.engine import WALL_MS, Database
from config.database.tables import approvals, definitions, runs, steps, timers
from config.definitions.behaviour import behaviour_in, dropped_tools
from config.failpoints import failpoint
from config.identity.principal import Principal, Verb

ASKED_AGAIN = "It was given for another version of the agent, so it is asked again."


@dataclass(frozen=True, kw_only=True, slots=True)
class RunVersion:
    """The version of its agent that a run is moved to."""

    digest: str
    content_json: str
    agent_name: str
    model: str
    """That of a new run of an agent; a run of kind ``tool`` keeps none."""
    queue: str | None

    @staticmethod
    def require_movable(row: Row[object], before_json: str | None, after_json: str) -> None:
        """Return if a run may be moved: it waits, and the version behaves otherwise than its own.

        Raises:
            UPGRADE_REFUSED: it may not.
        """
        if row.status in TERMINAL:
            raise UPGRADE_REFUSED(
                f"run '{row.id}' has ended ({row.status}); start a new one of '{row.agent_id}', with today's version."
            )
        if row.status != RunStatus.WAITING:
            raise UPGRADE_REFUSED(
                f"run '{row.id}' is {row.status} and keeps the version that it has; a run is moved while it waits. "
                f"`./callboard cancel {row.id}` stops it."
            )
        if before_json is not None and behaviour_in(before_json) == behaviour_in(after_json):
            raise UPGRADE_REFUSED(
                f"run '{row.id}' behaves as today's version of '{row.agent_id}' does, so there is nothing to move; "
                f"`./callboard runs --why {row.id}` says what it waits for."
            )


def upgrade(database: Database, principal: Principal, run_id: str, to: RunVersion, *, by: str) -> CommitResult:
    """waiting -> queued: the run continues as another version of its agent says; a paused one once it is resumed.

    Its steps, messages and labels stay. An approval that lets a call be made, and a question that is open, are void:
    the next owner asks again. A planned call of a tool that the version does not name any more gets the result that
    there is no such tool. The next owner checks the rest of the calls as it does those of any run.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: the principal may not do this with it.
        UPGRADE_REFUSED: it does not wait, or behaves as this version does.
    """
    with database.write() as connection:
        row = lock_allowed_run(connection, principal, Verb.CONTROL, run_id)
        before_json = _content(connection, row.definition_digest)
        to.require_movable(row, before_json, to.content_json)
        events = _void(connection, row, by)
        _drop_calls(connection, row, before_json, to.content_json)
        _set_version(connection, row, to)
        written = _continue(connection, row, events)
        facts = {"agent": row.agent_id, "before": row.definition_digest, "definition": to.digest}
        facts["by"] = by if by != principal.id else None
        record(connection, principal, Action.RUN_UPGRADED, "run", row.id, void=len(events), **facts)
    failpoint("unowned")
    return written


def _continue(connection: Connection, run: Row[Any], events: list[ApprovalPayload]) -> CommitResult:
    """Queue the run; who paused it has not resumed it, so a paused one still waits, and expires when it would have."""
    if run.reason == Reason.PAUSED:
        return move(connection, run, RunStatus.WAITING, Reason.PAUSED, *events)
    connection.execute(_DELETE_TIMERS, {"run_": run.id, "kinds": (CODE, EXPIRY)})
    return move(connection, run, RunStatus.QUEUED, Reason.UPGRADED, *events)


def _content(connection: Connection, digest: str) -> str | None:
    return connection.execute(_CONTENT, {"digest_": digest}).scalar()


def _void(connection: Connection, run: Row[object], by: str) -> list[ApprovalPayload]:
    """Make void what was asked and what was approved and not used, and return the events that say so."""
    empty = orjson.dumps({"result": None, "message": None}).decode()
    events: list[ApprovalPayload] = []
    for question in connection.execute(_UNUSED, {"run_": run.id}).all():
        values = {"decision": VOID, "decided_by": by, "decided_ms": WALL_MS, "decision_json": empty}
        connection.execute(update(approvals).where(approvals.c.id == question.id).values(**values))
        ids = {"approval_id": question.id, "call_id": question.call_id, "name": question.name}
        events.append(ApprovalPayload(**ids, decision=VOID, by=by, reason=ASKED_AGAIN))
    return events


def _drop_calls(connection: Connection, run: Row[object], before_json: str | None, after_json: str) -> None:
    """Let planned calls of tools that the version does not name fail, instead of waiting for code that never comes."""
    if before_json is None:
        return
    names = dropped_tools(orjson.loads(before_json), orjson.loads(after_json))
    planned = steps.c.run_id == run.id, steps.c.kind == TOOL, steps.c.status == "planned", steps.c.ended_ms.is_(None)
    connection.execute(update(steps).where(*planned, steps.c.name.in_(sorted(names))).values(effect=None))


def _set_version(connection: Connection, run: Row[object], to: RunVersion) -> None:
    keep_content(connection, run.agent_id, to.digest, to.content_json)
    register(connection, run.agent_id, to.digest, to.content_json)
    values = {"definition_digest": to.digest, "agent_name": to.agent_name, "queue": to.queue}
    if run.kind != TOOL:
        values["model"] = to.model
    connection.execute(update(runs).where(runs.c.id == run.id).values(**values))


_CONTENT = select(definitions.c.content_json).where(definitions.c.digest == bindparam("digest_"))
_UNUSED = (
    select(approvals)
    .where(approvals.c.run_id == bindparam("run_"))
    .where(
        or_(
            approvals.c.decision.is_(None),
            approvals.c.decision.in_(USED_UP) & approvals.c.used_ms.is_(None),
        )
    )
    .order_by(approvals.c.created_ms, approvals.c.id)
)
_DELETE_TIMERS = delete(timers).where(
    timers.c.run_id == bindparam("run_"), timers.c.kind.in_(bindparam("kinds", expanding=True))
)
