"""Runs as clients and the terminal see them: one run, filtered lists in pages, the board, and removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Select, case, exists, func, select

from bus.identity.access import may_see_machines, rows_for, worker_id_for
from bus.journal.approvals import last_decided, pending, pending_chars
from bus.journal.errors import CURSOR_AHEAD, ApprovalDecided, RunUnknown
from bus.journal.idempotency import IdempotencyKey, used_before
from bus.journal.log.events import last_error
from bus.journal.mailbox.busy import Delivery, delivery_before
from bus.journal.paging import Pages, RunPlace, StepPlace, present
from bus.journal.queries.board import (
    PAGE,
    RUN_COLUMNS,
    Board,
    DecidedCall,
    answered,
    asked_lately,
    board_rows,
    children_shown,
    decided_calls,
    decided_lately,
    decisions_of,
    inbox,
)
from bus.journal.queries.run_contexts import CONTEXT_COLUMNS, golden_of, run_contexts
from bus.journal.queries.run_filters import RunFilter, RunOrder, count_runs, matching
from bus.journal.queries.steps import StepFilter, call_spans, current_steps, steps_page
from bus.journal.queries.wait_reasons import WaitReason, explain
from bus.journal.records.recorded_calls import Origin
from bus.journal.records.steps import WORKFLOW, models_of
from bus.journal.retention.removal import remove_runs, require_over
from bus.journal.states.codes import Reason, RunStatus
from bus.journal.states.queue_order import priority_name
from bus.messages.run_agent import FIELDS, RunAgentMessage
from bus.payloads import ErrorPayload
from config.clock import stamp
from config.database.engine import Database
from config.database.tables import definitions, runs
from config.identity.principal import Principal, Verb

LIMIT = 50
"""Runs in a list without an explicit limit."""
MOST_REPEATS = 20
"""Runs that a run says it is repeated by."""
_BRIEF = [column for column in runs.c if column.name not in ("output_json", "metadata_json")]


class Runs:
    """The runs that a principal sees; each call uses a connection of its own.

    Where a principal is asked for, ``RunUnknown`` is raised if there is no such run, or the principal does not see it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def row(self, principal: Principal, run_id: str) -> Row[Any]:
        """Return a run's row."""
        with self._database.read() as connection:
            return _find(connection, principal, run_id, *runs.c)

    def get(self, principal: Principal, run_id: str) -> dict[str, Any]:
        """Return one run with its open questions."""
        with self._database.read() as connection:
            return _whole(connection, principal, _find(connection, principal, run_id, *runs.c))

    def get_small(self, principal: Principal, run_id: str, max_chars: int) -> dict[str, Any] | None:
        """Return one run as ``get`` does, or None where its output or questions exceed ``max_chars``.

        What exceeds the limit is not read.
        """
        chars = func.coalesce(func.length(runs.c.output_json), 0)
        output = case((chars <= max_chars, runs.c.output_json)).label("output_json")
        columns = (*_BRIEF, runs.c.metadata_json, output, chars.label("output_chars"))
        with self._database.read() as connection:
            row = _find(connection, principal, run_id, *columns)
            asked_chars = pending_chars(connection, row.id) if row.status == "waiting" else 0
            return _whole(connection, principal, row) if max(row.output_chars, asked_chars) <= max_chars else None

    def newest(self, principal: Principal, *, limit: int = LIMIT, **filters: Unpack[RunFilter]) -> list[dict[str, Any]]:
        """Return runs, the newest first."""
        query = RunOrder("newest", filters).page(select(runs).where(matching(principal, **filters)), limit, None)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            return _with_steps(connection, [_summary(row, principal) for row in rows])

    def page(
        self,
        principal: Principal,
        *,
        order: str = "newest",
        limit: int = LIMIT,
        before: RunPlace | None = None,
        **filters: Unpack[RunFilter],
    ) -> tuple[list[dict[str, Any]], RunPlace | None]:
        """Return runs behind a place, in one of ``ORDERS``, and where the next page begins; None: there is none.

        A page ends where the runs' outputs reach 1 MB, and has at least one run: models and clients decide how long
        outputs are.
        """
        run_order = RunOrder(order, filters)
        query = run_order.page(select(runs).where(matching(principal, **filters)), limit, before)
        with self._database.read() as connection:
            rows, is_cut = Pages(query=query, text=runs.c.output_json, order=run_order.columns).read(connection)
            summaries = _with_steps(connection, [_summary(row, principal) for row in rows])
        is_more = is_cut or len(rows) == limit
        return summaries, run_order.place_of(rows[-1]) if is_more else None

    def counts(self, principal: Principal, by: str, **filters: Unpack[RunFilter]) -> dict[str, Any]:
        """Return how many runs there are by one of ``GROUPS``; see ``count_runs``."""
        with self._database.read() as connection:
            return count_runs(connection, principal, by, **filters)

    def board(self, principal: Principal) -> Board:
        """Return what the board shows: exact counts, and of each state the runs to look at, without large fields."""
        with self._database.read() as connection:
            rows, counts = board_rows(connection, principal, _BRIEF)
            summaries = _with_steps(connection, [_brief(row, principal) for row in rows])
        return Board(runs=summaries, counts=counts)

    def status(self, run_id: str) -> str | None:
        """Return the status of a run of any principal; None where it was removed."""
        return self._scalar(select(runs.c.status).where(runs.c.id == run_id))

    def model(self, run_id: str) -> str | None:
        """Return the model that a run of any principal was accepted with; None where there is no such run."""
        return self._scalar(select(runs.c.model).where(runs.c.id == run_id))

    def messages_of_children(self, run_id: str) -> list[RunAgentMessage]:
        """Return the messages of the open child runs of a run."""
        its = runs.c.parent_id == run_id, runs.c.ended_ms.is_(None)
        with self._database.read() as connection:
            rows = connection.execute(select(runs.c.id, *(runs.c[name] for name in FIELDS)).where(*its))
            return [RunAgentMessage.of_run(row) for row in rows]

    def _scalar(self, query: Select[Any]) -> str | None:
        with self._database.read() as connection:
            return connection.execute(query).scalar()

    def waiting_for_code(self, limit: int) -> Sequence[Row[Any]]:
        """Return runs of all principals that no worker could continue with its code, the oldest first."""
        columns = runs.c["id", "agent_id", "detail"]
        waiting = runs.c.status == RunStatus.WAITING, runs.c.reason == Reason.CODE_VERSION
        query = select(*columns).where(*waiting).order_by(runs.c.created_ms, runs.c.id).limit(limit)
        with self._database.read() as connection:
            return connection.execute(query).all()

    def queued(self, default: str) -> dict[str, int]:
        """Return how many runs of all principals are queued, by queue; ``default`` is the default queue's name."""
        counts: dict[str, int] = {}
        query = select(runs.c.queue, func.count()).where(runs.c.status == "queued").group_by(runs.c.queue)
        with self._database.read() as connection:
            for queue, count in connection.execute(query):
                counts[queue or default] = counts.get(queue or default, 0) + count
        return counts

    def bounds(self, principal: Principal, run_id: str, cursor: int = 0) -> tuple[str, str, int]:
        """Return a run's thread, its status and the highest event number it may have used, for a reader.

        Raises:
            CURSOR_AHEAD: ``cursor`` is beyond that number.
        """
        with self._database.read() as connection:
            row = _find(connection, principal, run_id, runs.c.thread_id, runs.c.status, runs.c.reserved_to)
        if cursor > row.reserved_to:
            raise CURSOR_AHEAD(cursor=cursor, last=row.reserved_to)
        return row.thread_id, row.status, row.reserved_to

    def last_error(self, run_id: str) -> ErrorPayload | None:
        """Return the last error in the log of a run of any principal, if there is one."""
        with self._database.read() as connection:
            return last_error(connection, run_id)

    def started_before(self, principal: Principal, key: IdempotencyKey) -> tuple[str, Delivery] | None:
        """Return the run of an earlier request with this key, and what became of its message; None: there is none.

        Raises:
            IDEMPOTENCY_CONFLICT: the key was used with another body.
        """
        with self._database.read() as connection:
            earlier = used_before(connection, principal, key)
        return (earlier.run_id, delivery_before(earlier)) if earlier is not None else None

    def decisions(
        self, principal: Principal, run_id: str, *, after: int = 0, limit: int = PAGE
    ) -> list[dict[str, Any]]:
        """Return what the policy decided about a run's calls, in order, behind the step with number ``after``."""
        with self._database.read() as connection:
            _find(connection, principal, run_id, runs.c.id)
            return decisions_of(connection, run_id, after=after, limit=limit)

    def steps(
        self, principal: Principal, run_id: str, *, limit: int = LIMIT, **which: Unpack[StepFilter]
    ) -> tuple[list[dict[str, Any]], StepPlace | None]:
        """Return a page of a run's steps, and where the next one would begin; see ``steps_page``."""
        with self._database.read() as connection:
            _find(connection, principal, run_id, runs.c.id)
            return steps_page(connection, run_id, limit=limit, **which)

    def definition(self, principal: Principal, agent_id: str, digest: str) -> str | None:
        """Return a definition, as JSON, with which a run of this agent was accepted; None: the principal sees none."""
        seen_run = runs.c.agent_id == agent_id, runs.c.definition_digest == digest, rows_for(principal, Verb.SEE, runs)
        query = select(definitions.c.content_json).where(definitions.c.digest == digest)
        return self._scalar(query.where(exists(select(runs.c.id).where(*seen_run))))

    def decided_calls(self, principal: Principal, run_id: str) -> list[DecidedCall]:
        """Return a run's calls with the facts that a policy looks at, to decide about them once more."""
        with self._database.read() as connection:
            return decided_calls(connection, _find(connection, principal, run_id, *RUN_COLUMNS))

    # --- what they wait for

    def questions(self, principal: Principal, run_id: str) -> list[dict[str, Any]]:
        """Return a run's open questions, the oldest first; empty once it has ended."""
        with self._database.read() as connection:
            return _asked(connection, _find(connection, principal, run_id, runs.c.id, runs.c.status))

    def inbox(
        self, principal: Principal, *, limit: int = LIMIT, before_ms: int | None = None, before_id: str = ""
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the open questions that a principal may answer, the newest first, as ``inbox`` does."""
        with self._database.read() as connection:
            return inbox(connection, principal, limit=limit, before_ms=before_ms, before_id=before_id)

    def answered(
        self, principal: Principal, *, limit: int = LIMIT, before_ms: int | None = None, before_id: str = ""
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the answered questions about which a principal may decide, as ``answered`` does."""
        with self._database.read() as connection:
            return answered(connection, principal, limit=limit, before_ms=before_ms, before_id=before_id)

    def decided_lately(self, principal: Principal, tool: str | None = None) -> dict[str, Any]:
        """Return how persons decided about calls, by tool or about one tool's, as ``decided_lately`` does."""
        with self._database.read() as connection:
            return decided_lately(connection, principal, tool)

    def asked_lately(self, tenant: str, principal: str, most: int) -> int:
        """Return how many questions the runs of a principal asked within the last hour, of unknown outcomes none.

        It counts to ``most``.
        """
        with self._database.read() as connection:
            return asked_lately(connection, tenant, principal, most)

    def last_decided(self, principal: Principal, run_id: str) -> ApprovalDecided | None:
        """Return the answer to a run's newest question, as the error that a later answer gets; None without one."""
        with self._database.read() as connection:
            return last_decided(connection, _find(connection, principal, run_id, runs.c.id).id)

    def spans(self, principal: Principal, run_id: str) -> list[dict[str, Any]]:
        """Return a run's ended calls with their operations, as ``call_spans`` does, and its golden context."""
        with self._database.read() as connection:
            run = _find(connection, principal, run_id, *CONTEXT_COLUMNS)
            golden = golden_of(run)
            context = {"context": golden.as_json()} if golden is not None else {}
            return [call | context for call in call_spans(connection, run_id)]

    def explain(
        self, principal: Principal, *, run_id: str | None = None, agent: str | None = None, thread_id: str | None = None
    ) -> list[WaitReason]:
        """Return what each open run (of one agent or thread, where given) waits for, the oldest run first."""
        pairs = ((runs.c.id, run_id), (runs.c.agent_id, agent), (runs.c.thread_id, thread_id))
        which = [column == value for column, value in pairs if value is not None]
        names_machines = may_see_machines(principal)
        return explain(self._database, rows_for(principal, Verb.SEE, runs), *which, names_machines=names_machines)

    # --- removing

    def require_removable(self, principal: Principal, run_ids: Sequence[str]) -> None:
        """Check that ``remove`` would remove these runs now, and raise what it would raise."""
        with self._database.read() as connection:
            require_over(connection, principal, run_ids)

    def remove(self, principal: Principal, run_ids: Sequence[str]) -> None:
        """Remove ended runs with their logs and steps, all or none; their threads keep the messages.

        Raises:
            FORBIDDEN: the principal may not delete one of them.
            RUN_OPEN: one of them has not ended.
        """
        remove_runs(self._database, principal, run_ids)


def _find(connection: Connection, principal: Principal, run_id: str, *columns: ColumnElement[Any]) -> Row[Any]:
    row = connection.execute(select(*columns).where(runs.c.id == run_id, rows_for(principal, Verb.SEE, runs))).first()
    if row is None:
        raise RunUnknown(run_id=run_id)
    return row


def _whole(connection: Connection, principal: Principal, row: Row[Any]) -> dict[str, Any]:
    questions, answered_by = _asked(connection, row), models_of(connection, row.id)
    whole = _summary(row, principal) | run_contexts(row, principal) | ({"approvals": questions} if questions else {})
    children = children_shown(connection, principal, row.id)
    again = select(runs.c.id).where(runs.c.origin_id == row.id, rows_for(principal, Verb.SEE, runs)).limit(MOST_REPEATS)
    others: dict[str, Any] = {
        "answered_by": answered_by if any(model != row.model for model in answered_by) else None,
        "children": children or None,
        "repeated_by": list(connection.execute(again.order_by(runs.c.created_ms)).scalars()) or None,
    }
    return _with_steps(connection, [whole | present(others)])[0]


def _asked(connection: Connection, row: Row[Any]) -> list[dict[str, Any]]:
    return pending(connection, row.id) if row.status == "waiting" else []


def _with_steps(connection: Connection, summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return runs with the step that each running one is at."""
    current = current_steps(connection, [run["run_id"] for run in summaries if run["status"] == RunStatus.RUNNING])
    return [run | present({"current_step": current.get(run["run_id"])}) for run in summaries]


def _summary(row: Any, principal: Principal) -> dict[str, Any]:
    """Return a run as lists show it, without null fields."""
    large = {
        "output": orjson.loads(row.output_json) if row.output_json else None,
        "metadata": orjson.loads(row.metadata_json) if row.metadata_json else None,
    }
    return _brief(row, principal) | present(large)


def _brief(row: Any, principal: Principal) -> dict[str, Any]:
    fields = {
        "run_id": row.id,
        "thread_id": row.thread_id,
        "kind": row.kind,
        "agent": row.agent_id,
        "definition": row.definition_digest if row.kind == WORKFLOW else None,
        "parent_run_id": row.parent_id,
        "principal": row.principal,
        "private": row.private or None,
        "agent_name": row.agent_name,
        "model": row.model,
        "title": row.title,
        "status": row.status,
        "reason": row.reason,
        "detail": row.detail,
        "error": row.error_code,
        "crashes": _crashes(row.crashes_json) if row.crashes_json else None,
        "queue": row.queue,
        "priority": priority_name(row.priority),
        "grant_id": row.grant_id,
        **(_origin(Origin.of(row.origin_json)) if row.origin_json else {}),
        "trace_id": row.trace_id,
        "correlation_id": row.correlation_id or row.trace_id,
        "detached": row.detached or None,
        "worker_id": worker_id_for(principal, row.owner) if row.owner else None,
        "attempt": row.fence or None,
        "steps": row.steps or None,
        "usage": orjson.loads(row.usage_json) if row.usage_json else None,
        "cost_usd": row.cost_usd,
        "created_at": stamp(row.created_ms),
        "started_at": stamp(row.started_ms) if row.started_ms else None,
        "ended_at": stamp(row.ended_ms) if row.ended_ms else None,
        "duration_ms": max(0, row.duration_ms or row.ended_ms - row.created_ms) if row.ended_ms else None,
        "work_ms": row.work_ms if row.started_ms else None,
    }
    return present(fields)


def _origin(origin: Origin) -> dict[str, Any]:
    return {f"{origin.kind}_of": origin.run_id, "from_step": origin.from_step, "mode": origin.mode}


def _crashes(crashes_json: str) -> list[dict[str, Any]]:
    """Return the notes of crashes without ``owner``, which names a host and a process."""
    return [
        {name: fact for name, fact in load.items() if name not in ("owner", "shared")}
        for load in orjson.loads(crashes_json)
    ]
