"""Ownership of a run: one ``UPDATE`` claims it, each claim raises its fence, heartbeats extend the lease."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, Row, RowMapping, bindparam, or_, select, update

from bus.journal.approvals import use
from bus.journal.log.commit import add_messages
from bus.journal.log.events import event_row, insert_rows, undeclared, undelivered
from bus.journal.log.progress import Progress, progress_of
from bus.journal.ownership.claims import ClaimTerms
from bus.journal.records.control_requests import ControlRequest, note_answers, note_wakes, request_of, unread_controls
from bus.journal.records.recorded_calls import read_recorded_calls
from bus.journal.records.steps import (
    TOOL,
    WORKFLOW,
    AcceptedCall,
    AcceptedInput,
    StepStarted,
    decide_steps,
    edit_steps,
    read_call,
    read_input,
    restart_steps,
    start_steps,
)
from bus.journal.records.task_wait import TaskWait, begin_waits
from bus.journal.records.threads import HistoryItem, Past, history
from bus.journal.states import owned
from bus.journal.states.crashes import is_suspect, must_be_alone
from bus.journal.states.lease import Lease
from bus.journal.states.owned import LEASE_COLUMNS, RESERVE
from bus.journal.states.principal_now import roles_now
from bus.journal.sticky import StickyApproval, require_valid, valid_of
from bus.journal.storage.node_types import node_handlers
from bus.journal.storage.summaries import newest_summary, note_used
from bus.journal.version import require_readable_journal
from bus.payloads import HistoryPayload, Payload, StatusPayload, WithdrawnPayload
from config.clock import stamp
from config.database.engine import Database
from config.database.errors import DatabaseBusy
from config.database.tables import controls, runs, threads
from config.policy_decision import PolicyDecision


def claim_on(
    connection: Connection, database: Database, run_id: str, owner: str, lease_s: float, terms: ClaimTerms | None = None
) -> Lease | None:
    """Make ``owner`` the run's owner and return the lease, or None when there is nothing to claim on these terms.

    Only a queued run that is the oldest open one of its thread can be claimed. Of concurrent claims one gets the
    lease, and the others get None.
    """
    # A run's row is locked before its thread's, here as in every commit: two orders would deadlock.
    conditions = terms.conditions() if terms is not None else ()
    row = owned.claim(connection, database, run_id, owner, lease_s, *conditions)
    if row is None:
        return None
    missed = undelivered(connection, run_id, row["owned_fence"], row["fence"]) if row["fence"] > 1 else []
    thread = connection.execute(_OPEN_THREAD, {"key_": row["thread_key"], "run_": run_id}).first()
    if thread is None:  # a younger run of the thread began at this moment, while this one waited aside
        raise DatabaseBusy("another run of the thread has just begun; this one stays queued.")
    used_before = row["reserved_to"] - RESERVE
    first_events = _first_events(connection, row, used_before, thread.forked_to)
    notes = orjson.loads(row["crashes_json"] or "[]")
    insert_rows(connection, [event_row(payload, run_id, row["thread_id"], row["fence"]) for payload in first_events])
    return Lease(
        **{name: row[name] for name in LEASE_COLUMNS},
        run_id=run_id,
        owner=owner,
        age_ms=max(0, row["age_ms"]),
        roles=roles_now(row),
        agents=None if row["agents_json"] is None else frozenset(orjson.loads(row["agents_json"])),
        is_disabled=row["is_disabled"],
        labels=frozenset(orjson.loads(row["labels_json"] or "[]")) | _labels_of(thread),
        privileged_for_ms=row["privileged_for_ms"],
        observers=tuple(orjson.loads(row["observers_json"])),
        metadata=orjson.loads(row["metadata_json"]) if row["metadata_json"] else {},
        next_seq=used_before + 1 + len(first_events),
        recorded=read_recorded_calls(connection, run_id, row["kind"], row["origin_json"]),
        undelivered=tuple(missed),
        first_events=tuple(first_events),
        is_suspect=is_suspect(row["crashes"], notes),
        must_be_alone=must_be_alone(row["crashes"], notes),
    )


def confirm(database: Database, lease: Lease, lease_s: float) -> bool:
    """Extend the lease of a claim whose commit got no answer, and return whether the claim was committed.

    On Postgres the commit may still be under way; it holds the run's row, and this waits for it.
    """
    with database.write() as connection:
        connection.execute(select(runs.c.id).where(runs.c.id == lease.run_id).with_for_update())
        extended, _ = owned.extend(connection, database, lease.owner, lease_s, [(lease.run_id, lease.fence)])
        return bool(extended)


_OPEN_THREAD = (
    update(threads)
    .where(threads.c.key == bindparam("key_"))
    .where(or_(threads.c.open_run.is_(None), threads.c.open_run == bindparam("run_")))
    .values(open_run=bindparam("run_"))
    .returning(threads.c.labels_json, threads.c.forked_to)
)


def _labels_of(thread: Row[Any] | None) -> frozenset[str]:
    return frozenset(orjson.loads(thread.labels_json or "[]")) if thread is not None else frozenset()


def _first_events(connection: Connection, row: RowMapping, used_before: int, forked_to: int | None) -> list[Payload]:
    at, seq = stamp(), used_before + 1
    first: list[Payload] = []
    if row["fence"] > 1:
        ranges = undeclared(connection, row["id"], row["declared_to"], used_before)
        owned.note_owner(connection, row["id"], used_before)
        if ranges:
            first.append(WithdrawnPayload(seq=seq, at=at, ranges=ranges))
            seq += 1
    elif forked_to is not None and row["turn"] == forked_to + 1:  # the fork's first run
        copied = (1, forked_to) if forked_to else (None, None)
        first.append(HistoryPayload(seq=seq, at=at, kind="forked", from_seq=copied[0], to_seq=copied[1]))
        seq += 1
    return [*first, StatusPayload(seq=seq, at=at, status="running", attempt=row["fence"], agent=row["agent_id"])]


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstCommit:
    """What an owner commits in the claim's transaction, before it begins to work."""

    events: Sequence[Payload] = ()
    """With the numbers that follow those of the claim (``RunWriter.number``)."""
    started: Sequence[StepStarted] = ()
    restarted: Sequence[str] = ()
    """Ids of steps of an earlier owner that are resumed."""
    edited: Mapping[str, str] = field(default_factory=dict)
    """Step id -> digest of the arguments as a person changed them."""
    decided: Mapping[str, PolicyDecision] = field(default_factory=dict)
    """Step id -> what the policy decides now about a step that is resumed."""
    waits: Mapping[str, TaskWait] = field(default_factory=dict)
    """Step id -> the task that a resumed step begins now."""
    sticky: Sequence[str] = ()
    """Ids of sticky approvals by which steps start or are resumed; the claim fails where one has ended."""
    answers_used: Sequence[str] = ()
    """Ids of approvals whose decision is used now."""
    history: Sequence[HistoryItem] = ()
    """Messages that the model gets with the first step."""
    summary_used: str | None = None
    """The id of the summary that a run is given for the first time."""


class Claim:
    """A run that is being claimed; to be used within the claim's transaction, which an exception rolls back."""

    def __init__(self, connection: Connection, lease: Lease) -> None:
        self.connection = connection
        self.lease = lease
        self.begun: Sequence[str] = ()
        """The ids of the steps that begin with it, once ``write`` was called."""

    def history(self, max_chars: int, *, with_summary: bool = False) -> Past:
        """Return the newest messages of the run's thread, slightly more than ``max_chars`` characters of them.

        ``with_summary``: behind the agent's newest summary of those before, where one counts and fits.
        """
        lease, summary = self.lease, None
        if with_summary and lease.turn > 1:  # before the first turn there is nothing to summarise
            summary = newest_summary(self.connection, lease.thread_key, lease.agent_id, lease.turn, max_chars)
        return history(self.connection, lease.thread_key, lease.turn, max_chars, summary)

    def progress(self) -> Progress:
        """Return how far earlier owners, or the run that it continues from, came; of a new run, nothing."""
        is_new = self.lease.fence == 1 and self.lease.origin_json is None
        if is_new:
            return Progress()
        return progress_of(self.connection, self.lease.run_id, self.lease.kind)

    def call(self) -> AcceptedCall | None:
        """Return the call that a run of kind ``tool`` was accepted with; None of a run of another kind."""
        if self.lease.kind != TOOL:
            return None
        return read_call(self.connection, self.lease.run_id)

    def input(self) -> AcceptedInput | None:
        """Return what a workflow was started with; None of a run of another kind."""
        return read_input(self.connection, self.lease.run_id) if self.lease.kind == WORKFLOW else None

    def require_readable(self) -> None:
        """Check that this code can read the run's journal.

        Raises:
            CodeVersion: newer code wrote it.
        """
        require_readable_journal(self.lease.journal)

    def node_handlers(self) -> Mapping[str, str]:
        """Return the handler of each type of node, by the type's name."""
        return node_handlers(self.connection)

    def unread_controls(self) -> list[ControlRequest]:
        """Return what clients have requested of the run and no event has answered."""
        return unread_controls(self.connection, self.lease.run_id)

    def sticky(self) -> tuple[StickyApproval, ...]:
        """Return the sticky approvals that are valid for the run's principal and agent."""
        lease = self.lease
        return valid_of(self.connection, lease.tenant, lease.principal, lease.agent_id, lease.definition_digest)

    def write(self, first: FirstCommit) -> None:
        """Record the events, the steps that begin or are resumed, and the approvals that are used."""
        lease = self.lease
        rows = [event_row(payload, lease.run_id, lease.thread_id, lease.fence) for payload in first.events]
        insert_rows(self.connection, rows)
        note_answers(self.connection, first.events)
        add_messages(self.connection, lease, first.history)
        require_valid(self.connection, first.sticky)
        start_steps(self.connection, self.lease.run_id, self.lease.fence, first.started)
        restart_steps(self.connection, self.lease.fence, first.restarted)
        edit_steps(self.connection, first.edited)
        decide_steps(self.connection, first.decided)
        begin_waits(self.connection, self.lease.run_id, first.waits)
        use(self.connection, first.answers_used)
        if lease.kind == WORKFLOW:
            note_wakes(self.connection, lease.run_id)
        note_used(self.connection, first.summary_used, self.lease.run_id)
        self.begun = [*(step.id for step in first.started), *first.restarted]


# --- while it runs ---------------------------------------------------------------------------------

LOCKED_TRIES, LOCKED_PAUSE_S = 5, 0.1
"""Tries, and seconds between them, for rows that other transactions have locked (Postgres)."""


def beat(database: Database, owner: str, lease_s: float, runs_: Sequence[tuple[str, int]]) -> list[Row[Any]]:
    """Extend the leases of these runs and return those that this owner still owns, as ``states.owned.extend`` does.

    ``runs_`` are pairs of run id and fence. On Postgres a run whose row another transaction locks for more than half a
    second is returned without an extension, so that the other runs do not wait for it.
    """
    rows: list[Row[Any]] = []
    left = runs_
    for _ in range(LOCKED_TRIES):
        with database.write(is_urgent=True) as connection:
            extended, locked = owned.extend(connection, database, owner, lease_s, left)
        rows += extended
        if not locked:
            break
        left = [(row.run_id, row.fence) for row in locked]
        time.sleep(LOCKED_PAUSE_S)
    return [*rows, *locked]


def requests(database: Database, owner: str) -> list[ControlRequest]:
    """Return what clients requested of this owner's runs and no event has answered, in the order of arrival."""
    with database.read() as connection:
        return [request_of(row) for row in connection.execute(_REQUESTS, {"owner_": owner})]


_REQUESTS = (
    select(controls)
    .join(runs, runs.c.id == controls.c.run_id)
    .where(runs.c.owner == bindparam("owner_"), runs.c.status == "running", controls.c.taken_ms.is_(None))
    .order_by(controls.c.id)
)
