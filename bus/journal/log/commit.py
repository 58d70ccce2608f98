"""A commit: what one transaction adds to a run and to its thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from sqlalchemy import Boolean, Connection, Row, bindparam, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bus.journal.approvals import give_back, use
from bus.journal.log.events import event_row, insert_rows
from bus.journal.log.results import refer_to_messages
from bus.journal.outbox import announce
from bus.journal.records.control_requests import (
    ControlRequest,
    next_turns,
    note_answers,
    priority_set,
    require_answered,
)
from bus.journal.records.definition_store import pin
from bus.journal.records.on_disconnect import add_policy, policy_of
from bus.journal.records.originals import write_originals
from bus.journal.records.steps import (
    AGENT,
    StepEnded,
    StepStarted,
    ask_other_models,
    decide_steps,
    end_steps,
    leave_steps,
    number_attempts,
    record_steps,
    restart_steps,
    start_steps,
)
from bus.journal.records.task_wait import TaskWait, keep_backends
from bus.journal.records.threads import HistoryItem, label_thread
from bus.journal.states import owned
from bus.journal.states.conditions import insert_run
from bus.journal.states.lease import Lease
from bus.journal.states.queue_order import set_priority
from bus.journal.states.release import Handover, Release
from bus.journal.sticky import require_valid
from bus.payloads import EndPayload, Payload, StatusPayload
from bus.sealing import Original
from config.clock import epoch_ms, stamp
from config.database.engine import WALL_MS
from config.database.tables import events, messages, runs, thread_agents, threads
from config.ids import new_id
from config.policy_decision import PolicyDecision
from config.text.stored_texts import stored_line
from config.tracing import new_trace_id


class NewChild(Protocol):
    """A child run that is about to be accepted with a commit of its parent."""

    @property
    def run_id(self) -> str: ...

    def insert(self, connection: Connection) -> None:
        """Insert it; the parent's row is locked.

        Raises:
            DELEGATION_REFUSED: the parent, or its principal, has as many as it may.
        """

    def audit(self, connection: Connection) -> None:
        """Record its start in the audit log, behind everything else of the transaction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """What one transaction adds to a run."""

    events: Sequence[Payload] = ()
    started: Sequence[StepStarted] = ()
    ended: Sequence[StepEnded] = ()
    recorded: Sequence[tuple[StepStarted, StepEnded]] = ()
    """Steps that are over, of which nothing was written before."""
    history: Sequence[HistoryItem] = ()
    planned: Sequence[str] = ()
    """Ids of steps that are recorded as started and whose call was not made."""
    unknown: Sequence[str] = ()
    """Ids of steps whose outcome is unknown; they stay open until a person decides."""
    decided: Mapping[str, PolicyDecision] = field(default_factory=dict)
    """Step id -> what was decided about a step that is recorded as started, before its call is made."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Step id -> the number of the attempt that begins now, of a call that failed before."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Step id -> the model that an open model step asks from now on."""
    waiting: Mapping[str, TaskWait | None] = field(default_factory=dict)
    """Step id -> its task, which is under way while the run is released; None: a child run is."""
    children: Sequence[NewChild] = ()
    """Child runs that exist from now on."""
    restarted: Sequence[str] = ()
    """Ids of planned steps that begin now."""
    answers_used: Sequence[str] = ()
    """Ids of approvals whose decision is used now."""
    sticky: Sequence[str] = ()
    """Ids of sticky approvals by which steps start; the commit is refused where one has ended."""
    release: Release | None = None
    """Give the run back without ending it; this writer commits nothing afterwards."""
    originals: Sequence[Original] = ()
    """What guardrails removed something from, to be sealed."""
    undoes_turn: bool = False
    """With an ``end``: the messages of the turn are undone, so that no model gets them again."""
    error_code: str | None = None
    """With an ``end`` among the events: the code of the error that ended the run, for lists of runs."""
    labels: frozenset[str] = frozenset()
    """All labels of what the run has read, where the results in this commit add one."""


def record(
    connection: Connection,
    run: Lease | Row[Any],
    fence: int,
    change: Commit,
    numbered: Sequence[Payload],
    blocks: Sequence[dict[str, Any]] = (),
) -> str | None:
    """Write all of ``change`` but the run's row; return the thread's next queued run if this one ended.

    ``run`` is its lease, or its row as ``lock_run`` returned it; ``numbered`` are its events with their numbers,
    ``blocks`` the rows of sealed deltas. Called after the transition that checked the ownership, which has locked the
    run's row.
    """
    _note_answers(connection, run, numbered)
    written, ended = refer_to_messages(numbered, change.ended, change.history)
    rows = [event_row(payload, run.run_id, run.thread_id, fence) for payload in written]
    insert_rows(connection, [*blocks, *rows])
    end_steps(connection, ended)
    require_valid(connection, change.sticky)
    record_steps(connection, run.run_id, fence, change.recorded)
    start_steps(connection, run.run_id, fence, change.started)
    restart_steps(connection, fence, change.restarted)
    use(connection, change.answers_used)
    decide_steps(connection, change.decided)
    number_attempts(connection, change.attempts)
    ask_other_models(connection, change.models)
    leave_steps(connection, change.planned, "planned")
    give_back(connection, change.planned)
    leave_steps(connection, change.unknown, "unknown")
    leave_steps(connection, list(change.waiting), "waiting")
    keep_backends(connection, change.waiting)
    for child in change.children:
        child.insert(connection)
    add_messages(connection, run, change.history)
    write_originals(connection, run.run_id, change.originals)
    _add_labels(connection, run, fence, change.labels)
    if change.release is not None and change.release.handover is not None:
        _hand_thread_over(connection, run, change.release.handover)
    return _close(connection, run, change, numbered) if _is_over(numbered) else None


def _note_answers(connection: Connection, run: Lease | Row[Any], numbered: Sequence[Payload]) -> None:
    """Set the state of each control that the events answer, and what they set."""
    note_answers(connection, numbered)
    priority = priority_set(connection, numbered)
    if priority is not None:
        set_priority(connection, run.run_id, priority)


def _is_over(numbered: Sequence[Payload]) -> bool:
    return bool(numbered) and isinstance(numbered[-1], EndPayload)


def _close(connection: Connection, run: Lease | Row[Any], change: Commit, numbered: Sequence[Payload]) -> str | None:
    """Write what follows from a run's end; return the thread's next run, if there is one.

    Raises:
        ControlsChanged: a control arrived since the end was built.
    """
    require_answered(connection, run.run_id)
    if change.undoes_turn:
        connection.execute(_UNDO, {"thread_": run.thread_key, "turn_": run.turn})
    for request in next_turns(connection, numbered):
        _begin_turn(connection, run.run_id, request)
    return close_thread(connection, run)


def _hand_thread_over(connection: Connection, run: Lease | Row[Any], handover: Handover) -> None:
    """Store the definition, and make its agent the thread's, so that the thread's next turns are for it."""
    pin(connection, handover.definition_digest, handover.agent_id, handover.definition_json)
    values = {"key_": run.thread_key, "agent": handover.agent_id, "private_": handover.private}
    connection.execute(_THREADS_AGENT, values)
    add_agent(connection, run.thread_key, run.agent_id)


def add_agent(connection: Connection, thread_key: int, agent_id: str) -> None:
    """Note that the agent has worked in the thread."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    adding = dialect.insert(thread_agents).values(thread_key=thread_key, agent_id=agent_id)
    connection.execute(adding.on_conflict_do_nothing())


_THREADS_AGENT = (
    update(threads)
    .where(threads.c.key == bindparam("key_"))
    .values(
        agent_id=bindparam("agent"),
        private=or_(threads.c.private, bindparam("private_", type_=Boolean)),
        updated_ms=WALL_MS,
    )
)


def _add_labels(connection: Connection, run: Lease | Row[Any], fence: int, labels: frozenset[str]) -> None:
    """Keep the labels with the run, and with its thread, whose next run reads the same results."""
    if labels:
        owned.label(connection, run.run_id, fence, orjson.dumps(sorted(labels)).decode())
        label_thread(connection, run.thread_key, labels)


def add_messages(connection: Connection, run: Lease | Row[Any], items: Sequence[HistoryItem]) -> None:
    """Insert messages into the run's thread, numbered after those of its turn."""
    if not items:
        return
    parameters = {"key_": run.thread_key, "count": len(items)}
    first = connection.execute(_TAKE_NUMBERS, parameters).scalar_one() - len(items)
    rows = [
        {
            "thread_key": run.thread_key,
            "number": first + i,
            "turn": run.turn,
            "run_id": run.run_id,
            "id": item.id,
            "role": item.role,
            "data_json": item.data_json,
            "partial": item.partial,
            "created_ms": epoch_ms(),
        }
        for i, item in enumerate(items)
    ]
    connection.execute(_ADD_MESSAGES, rows)


def close_thread(connection: Connection, run: Lease | Row[Any]) -> str | None:
    """Free the thread of the run that ended; announce and return its next queued run, if there is one."""
    connection.execute(_CLOSE_THREAD, {"key_": run.thread_key, "run_": run.run_id})
    following = connection.execute(_FOLLOWING, {"thread_": run.thread_key, "run_": run.run_id}).scalar()
    if following is not None:
        announce(connection, following)
    return following


# Built once: building a statement takes longer than executing it.
_TAKE_NUMBERS = (
    update(threads)
    .where(threads.c.key == bindparam("key_"))
    .values(next_message=threads.c.next_message + bindparam("count"), updated_ms=WALL_MS)
    .returning(threads.c.next_message)
)
_CLOSE_THREAD = (
    update(threads)
    .where(threads.c.key == bindparam("key_"), threads.c.open_run == bindparam("run_"))
    .values(open_run=None)
)
_FOLLOWING = (
    select(runs.c.id)
    .where(runs.c.thread_key == bindparam("thread_"), runs.c.ended_ms.is_(None), runs.c.status == "queued")
    .where(runs.c.id != bindparam("run_"))
    .order_by(runs.c.turn)
    .limit(1)
)
_UNDO = (
    update(messages)
    .where(messages.c.thread_key == bindparam("thread_"), messages.c.turn == bindparam("turn_"))
    .values(undone=True)
)
_ADD_MESSAGES = insert(messages).inline()


# --- the turn that a steer begins where its run ended before it was read ------------------------------


INHERITED = """
    thread_key thread_id tenant principal roles_json credential credential_id context_json private agent_id agent_name
    definition_digest model detached queue priority on_waiting observers_json correlation_id journal agents_json
    handed_from_json
""".split()
"""What the new run has as the one that ended; a grant and metadata belong to the message that these came with."""


def _begin_turn(connection: Connection, run_id: str, request: ControlRequest) -> None:
    """Insert a run for the steer of an ended one, in its place among the thread's messages; its thread announces it."""
    earlier = connection.execute(_EARLIER, {"id_": run_id}).one()
    now_ms, content = epoch_ms(), request.content
    run: dict[str, Any] = {name: getattr(earlier, name) for name in INHERITED}
    run |= {"id": new_id("run"), "kind": AGENT, "turn": request.turn, "trace_id": new_trace_id()}
    run |= {"title": stored_line(content)}
    insert_run(connection, run)
    add_policy(connection, run["id"], policy_of(connection, run_id))
    message = {"thread_key": earlier.thread_key, "number": request.number, "turn": request.turn, "run_id": run["id"]}
    message |= {"id": new_id("msg"), "role": "user", "partial": False, "created_ms": now_ms}
    message |= {"data_json": orjson.dumps({"content": content, "control_id": request.control_id}).decode()}
    connection.execute(insert(messages).values(**message))
    first = StatusPayload(
        seq=1,
        at=stamp(now_ms),
        status="queued",
        agent=earlier.agent_id,
        trace_id=run["trace_id"],
        correlation_id=earlier.correlation_id or run["trace_id"],
    )
    connection.execute(insert(events).values(**event_row(first, run["id"], earlier.thread_id, 0)))


_EARLIER = select(*(runs.c[name] for name in INHERITED)).where(runs.c.id == bindparam("id_"))
