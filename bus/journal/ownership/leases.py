"""Ownership of a run: one ``UPDATE`` claims it, each claim raises its fence, heartbeats extend the lease."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, RowMapping, bindparam, select, update

from bus.journal.log.events import event_row, insert_rows, undeclared, undelivered
from bus.journal.ownership.crashes import SUSPECT_AFTER, is_suspect
from bus.journal.states import owned
from bus.journal.states.owned import LEASE_COLUMNS, RESERVE
from bus.payloads import Payload, StatusPayload, WithdrawnPayload
from config.clock import stamp
from config.database.engine import Database
from config.database.tables import controls, runs, threads


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A claimed run as its owner sees it: the run's row, its fence, and the event numbers reserved for it."""

    run_id: str
    thread_id: str
    thread_key: int
    turn: int
    tenant: str
    principal: str
    agent_id: str
    agent_name: str
    definition_digest: str
    queue: str | None
    """The queue named in its agent's definition; None is the deployment's default queue."""
    model: str
    observers: tuple[str, ...]
    detached: bool
    metadata: Mapping[str, Any]
    title: str
    owner: str
    fence: int
    next_seq: int
    reserved_to: int
    stop_requested: bool
    created_ms: int
    age_ms: int
    """Milliseconds from its acceptance to the claim."""
    steps: int
    crashes: int
    """Owners lost before this one."""
    is_suspect: bool
    """Whether its next crash ends it, so that no other suspect may share its process."""
    commits: int
    """Number of commits by its earlier writers; the next writer counts from here."""
    journal: int
    """The version of its journal's format (``bus.journal.version``)."""
    undelivered: tuple[Payload, ...]
    """Events written without an owner since the last one; this owner delivers them to observers first."""
    first_events: tuple[Payload, ...]
    """Events that the claim committed; this owner delivers them to observers."""

    @property
    def can_be_cleared(self) -> bool:
        """Whether it is no suspect any more once the tool calls of its crashes are completed."""
        return self.is_suspect and self.crashes == SUSPECT_AFTER


def claim_on(connection: Connection, database: Database, run_id: str, owner: str, lease_s: float) -> Lease | None:
    """Make ``owner`` the run's owner and return the lease, or None when there is nothing to claim.

    Only a queued run that is the oldest open one of its thread can be claimed. Of concurrent claims one gets the
    lease, and the others get None.
    """
    # A run's row is locked before its thread's, here as in every commit: two orders would deadlock.
    row = owned.claim(connection, database, run_id, owner, lease_s)
    if row is None:
        return None
    missed = undelivered(connection, run_id, row["owned_fence"], row["fence"]) if row["fence"] > 1 else []
    connection.execute(_OPEN_THREAD, {"key_": row["thread_key"], "run_": run_id})
    used_before = row["reserved_to"] - RESERVE
    first_events = _first_events(connection, row, used_before)
    insert_rows(connection, [event_row(payload, run_id, row["thread_id"], row["fence"]) for payload in first_events])
    return _lease(row, owner, used_before + 1 + len(first_events), tuple(missed), tuple(first_events))


_OPEN_THREAD = update(threads).where(threads.c.key == bindparam("key_")).values(open_run=bindparam("run_"))


def _first_events(connection: Connection, row: RowMapping, used_before: int) -> list[Payload]:
    at, seq, first = stamp(), used_before + 1, []
    if row["fence"] > 1:
        ranges = undeclared(connection, row["id"], row["declared_to"], used_before)
        owned.note_owner(connection, row["id"], used_before)
        if ranges:
            first.append(WithdrawnPayload(seq=seq, at=at, ranges=ranges))
            seq += 1
    return [*first, StatusPayload(seq=seq, at=at, status="running", attempt=row["fence"], agent=row["agent_id"])]


def _lease(
    row: RowMapping,
    owner: str,
    next_seq: int,
    missed: tuple[Payload, ...],
    first_events: tuple[Payload, ...],
) -> Lease:
    taken = {name: row[name] for name in LEASE_COLUMNS}
    return Lease(
        **taken,
        run_id=row["id"],
        owner=owner,
        age_ms=max(0, row["age_ms"]),
        observers=tuple(orjson.loads(row["observers_json"])),
        metadata=orjson.loads(row["metadata_json"]) if row["metadata_json"] else {},
        next_seq=next_seq,
        undelivered=missed,
        first_events=first_events,
        is_suspect=is_suspect(row["crashes"], orjson.loads(row["crashes_json"] or "[]")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """A run that the process still owns, as a heartbeat found it."""

    run_id: str
    fence: int
    reserved_to: int
    stop_requested: bool


LOCKED_TRIES, LOCKED_PAUSE_S = 5, 0.1
"""Tries, and seconds between them, for rows that other transactions have locked (Postgres)."""


def beat(database: Database, owner: str, lease_s: float, runs_: Sequence[tuple[str, int]]) -> list[Beat]:
    """Extend the leases of these runs and return those that this owner still owns.

    ``runs_`` are pairs of run id and fence. On Postgres a run whose row another transaction locks for more than half a
    second is returned without an extension, so that the other runs do not wait for it.
    """
    found: list[Beat] = []
    left, locked = list(runs_), list[Beat]()
    for _ in range(LOCKED_TRIES):
        extended, locked = _extend(database, owner, lease_s, left)
        found += extended
        if not locked:
            break
        left = [(one.run_id, one.fence) for one in locked]
        time.sleep(LOCKED_PAUSE_S)
    return found + locked


def _extend(
    database: Database, owner: str, lease_s: float, runs_: Sequence[tuple[str, int]]
) -> tuple[list[Beat], list[Beat]]:
    """Extend these leases; return the runs whose lease was extended, and those that are owned but locked."""
    with database.write(is_urgent=True) as connection:
        extended, locked = owned.extend(connection, database, owner, lease_s, runs_)
    return [Beat(**row) for row in extended], [Beat(**row) for row in locked]


def requests(database: Database, owner: str) -> list[tuple[str, str]]:
    """Return what clients requested of this owner's runs and it has not done yet: runs, each with a control's kind."""
    with database.read() as connection:
        return [(row.run_id, row.kind) for row in connection.execute(_REQUESTS, {"owner_": owner})]


_REQUESTS = (
    select(controls.c.run_id, controls.c.kind)
    .join(runs, runs.c.id == controls.c.run_id)
    .where(runs.c.owner == bindparam("owner_"), runs.c.status == "running", controls.c.taken_ms.is_(None))
    .order_by(controls.c.id)
)
