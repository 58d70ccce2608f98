"""Owning a run: one statement decides who, a fence tells owners apart, heartbeats keep it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    RowMapping,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

from bus.journal.crashes import SUSPECT_AFTER, UNHEARD, crash, is_suspect
from bus.journal.events import event_row, insert_rows, undeclared, unheard
from bus.payloads import Payload, StatusPayload, WithdrawnPayload
from config.clock import stamp
from config.database import WALL_MS, Database
from config.tables import runs, threads

RESERVE = 1000
"""Event numbers an owner takes at a time."""
OPEN = ("queued", "running", "waiting")
"""The states a run can still leave."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """What an owner was given: the run, its fence, and the numbers it may use."""

    run_id: str
    thread_id: str
    thread_key: int
    turn: int
    tenant: str
    principal: str
    agent_id: str
    agent_name: str
    definition_digest: str
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
    """How long ago it was accepted, when it was claimed."""
    steps: int
    crashes: int
    """Owners lost before this one."""
    is_suspect: bool
    """Whether its next crash ends it, so that no other suspect may share its process."""
    commits: int
    """How many its writers have made; the next one counts from here."""
    journal: int
    """The form of its journal."""
    unheard: tuple[Payload, ...]
    """What was written since the last owner, by nobody who tells observers; they have to be told before the rest."""
    first_events: tuple[Payload, ...]
    """What the claim committed to the log; the observers still have to be told."""


def is_first_of_thread() -> ColumnElement[bool]:
    """Return the condition that no older run of the same thread is open: a thread does one thing at a time."""
    older = runs.alias("older")
    return ~exists(
        select(older.c.id).where(older.c.thread_key == runs.c.thread_key, older.c.turn < runs.c.turn, is_open(older))
    )


def is_open(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a run has not ended; spelled out, since ``IN`` is expanded at each execution.

    That it has no end yet is what the index over a thread's open runs is about; without it a thread's every run
    would be looked at.
    """
    return and_(table.c.ended_ms.is_(None), or_(*(table.c.status == status for status in OPEN)))


def claim(database: Database, run_id: str, owner: str, lease_s: float) -> Lease | None:
    """Make ``owner`` the run's owner and return the lease, or None when there is nothing to claim.

    Only the oldest open run of a thread can be had: queued, or running with a lease that ran out.
    Called twice, or by fifty at once, one gets it and the others get None.
    """
    with database.write() as connection:
        return claim_on(connection, database, run_id, owner, lease_s)


def hold(database: Database, run_id: str, lease_s: float) -> None:
    """Keep pollers away from a queued run for as long as whoever is about to work it off waits for its thread."""
    lease = {"lease_until": database.lease_clock() + int(lease_s * 1000), "lease_boot": database.lease_boot()}
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id, runs.c.status == "queued").values(**lease))


def claim_on(connection: Connection, database: Database, run_id: str, owner: str, lease_s: float) -> Lease | None:
    """As ``claim``, in a transaction that does more."""
    asked = {
        "its_id": run_id, "me": owner, "lease_ms": int(lease_s * 1000), "boot": database.lease_boot(),
    }  # fmt: skip
    # A run's row is locked before its thread's, here as in every commit: two orders would deadlock.
    row = connection.execute(_claim(database), asked | database.lease_values()).mappings().first()
    if row is None:
        return None
    notes = _note_loss(connection, row)
    missed = unheard(connection, run_id, row["fence"]) if row["fence"] > 1 else []
    connection.execute(_OPEN_THREAD, {"its_key": row["thread_key"], "its_run": run_id})
    used_before = row["reserved_to"] - RESERVE
    first_events = _first_events(connection, row, used_before)
    insert_rows(connection, [event_row(payload, run_id, row["thread_id"], row["fence"]) for payload in first_events])
    suspect = is_suspect(row["crashes"], notes)
    return _lease(row, owner, used_before + 1 + len(first_events), tuple(missed), tuple(first_events), suspect)


@lru_cache(maxsize=4)
def _claim(database: Database) -> Any:
    """Return the one statement that decides who owns a run; built once, building it costs more than running it."""
    past = runs.c.lease_until < database.lease_now
    if database.is_sqlite:
        past = or_(past, runs.c.lease_boot != bindparam("boot"))
    # Whoever is quicker than the reaper counts the crash too; what would be a run's last is left to the reaper.
    lost = and_(runs.c.status == "running", past, runs.c.crashes < SUSPECT_AFTER)
    free = or_(runs.c.status == "queued", lost)
    return (
        update(runs)
        .where(runs.c.id == bindparam("its_id"), free, is_first_of_thread())
        .values(
            status="running",
            reason=None,
            detail=None,
            crashes=runs.c.crashes + case((runs.c.status == "running", 1), else_=0),
            owner=bindparam("me"),
            fence=runs.c.fence + 1,
            lease_until=database.lease_now + bindparam("lease_ms", type_=BigInteger),
            lease_boot=bindparam("boot"),
            reserved_to=runs.c.reserved_to + RESERVE,
            started_ms=func.coalesce(runs.c.started_ms, WALL_MS),
        )
        .returning(
            (WALL_MS - runs.c.created_ms).label("age_ms"),
            *(runs.c[name] for name in _CLAIMED),
        )
    )


def _note_loss(connection: Connection, row: RowMapping) -> list[dict[str, Any]]:
    """Return the notes on the run's crashes, with a new one where its owner's lease ran out and no reaper saw it."""
    known: list[dict[str, Any]] = orjson.loads(row["crashes_json"]) if row["crashes_json"] else []
    if len(known) < row["crashes"]:
        known.append(crash(connection, row["id"], row["fence"] - 1, None, UNHEARD))
        connection.execute(_NOTE, {"its_id": row["id"], "noted": orjson.dumps(known).decode()})
    return known


_NOTE = update(runs).where(runs.c.id == bindparam("its_id")).values(crashes_json=bindparam("noted"))
_DECLARED = update(runs).where(runs.c.id == bindparam("its_id")).values(declared_to=bindparam("upto"))
_OPEN_THREAD = update(threads).where(threads.c.key == bindparam("its_key")).values(open_run=bindparam("its_run"))


def expired(database: Database) -> Any:
    """Return the condition that a running run's lease has run out, by the one clock that counts."""
    past = runs.c.lease_until < database.lease_clock()
    boot = database.lease_boot()
    return past if boot is None else or_(past, runs.c.lease_boot != boot)


def is_lapsed(database: Database, run_id: str) -> bool:
    """Return whether a run is said to be running and nobody owns it: its lease ran out."""
    query = select(runs.c.id).where(runs.c.id == run_id, runs.c.status == "running", expired(database))
    with database.read() as connection:
        return connection.execute(query).first() is not None


def _first_events(connection: Connection, row: RowMapping, used_before: int) -> list[Payload]:
    at, seq, first = stamp(), used_before + 1, []
    if row["fence"] > 1:
        ranges = undeclared(connection, row["id"], row["declared_to"], used_before)
        connection.execute(_DECLARED, {"its_id": row["id"], "upto": used_before})
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
    suspect: bool,
) -> Lease:
    taken = {name: row[name] for name in _LEASE_COLUMNS}
    return Lease(
        **taken,
        run_id=row["id"],
        owner=owner,
        age_ms=max(0, row["age_ms"]),
        observers=tuple(orjson.loads(row["observers_json"])),
        metadata=orjson.loads(row["metadata_json"]) if row["metadata_json"] else {},
        next_seq=next_seq,
        unheard=missed,
        first_events=first_events,
        is_suspect=suspect,
    )


_LEASE_COLUMNS = (
    "thread_id", "thread_key", "turn", "tenant", "principal", "agent_id", "agent_name", "definition_digest", "model",
    "detached", "title", "fence", "reserved_to", "stop_requested", "created_ms", "steps", "commits", "crashes",
    "journal",
)  # fmt: skip
_CLAIMED = ("id", "observers_json", "metadata_json", "declared_to", "crashes_json", *_LEASE_COLUMNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """What a heartbeat found about one run that is still owned."""

    run_id: str
    fence: int
    reserved_to: int
    stop_requested: bool


LOCKED_TRIES, LOCKED_PAUSE_S = 5, 0.1
"""How often, and after how long, a heartbeat comes back to rows that other transactions have locked (Postgres)."""


def beat(database: Database, owner: str, lease_s: float, owned: Sequence[tuple[str, int]]) -> list[Beat]:
    """Extend the leases of these runs and return those that are still this owner's.

    ``owned`` are runs with the fences they are owned under. On Postgres a run whose row stays locked by another
    transaction for half a second is returned without its lease being extended: the others do not wait for it.
    """
    found: list[Beat] = []
    left, locked = list(owned), list[Beat]()
    for _ in range(LOCKED_TRIES):
        extended, locked = _extend(database, owner, lease_s, left)
        found += extended
        if not locked:
            break
        left = [(one.run_id, one.fence) for one in locked]
        time.sleep(LOCKED_PAUSE_S)
    return found + locked


def _extend(
    database: Database, owner: str, lease_s: float, owned: Sequence[tuple[str, int]]
) -> tuple[list[Beat], list[Beat]]:
    """Extend these leases and return the runs whose lease was, and those that are this owner's and locked."""
    # The ids are said twice: SQLite finds no row by an index for pairs alone.
    its = runs.c.id.in_([run_id for run_id, _ in owned]), tuple_(runs.c.id, runs.c.fence).in_(owned)
    ours = and_(*its, runs.c.owner == owner, runs.c.status == "running")
    unlocked = runs.c.id.in_(select(runs.c.id).where(ours).with_for_update(skip_locked=True))
    query = update(runs).where(ours if database.is_sqlite else unlocked).returning(*_BEATEN)
    with database.write(is_urgent=True) as connection:  # the clock is read inside: waiting shortens no lease
        lease = {"lease_until": database.lease_clock() + int(lease_s * 1000), "lease_boot": database.lease_boot()}
        extended = [Beat(**row) for row in connection.execute(query.values(**lease)).mappings()]
        if database.is_sqlite or len(extended) == len(owned):
            return extended, []
        every = [Beat(**row) for row in connection.execute(select(*_BEATEN).where(ours)).mappings()]
    known = {one.run_id for one in extended}
    return extended, [one for one in every if one.run_id not in known]


_BEATEN = (runs.c.id.label("run_id"), runs.c.fence, runs.c.reserved_to, runs.c.stop_requested)


def reserve_on(connection: Connection, run_id: str, fence: int, upto: int) -> bool:
    """Let the owner use numbers up to ``upto`` and return whether it still is the owner."""
    more = runs.c.reserved_to <= bindparam("upto")
    query = update(runs).where(*_is_owned(), more).values(reserved_to=bindparam("upto"))
    return connection.execute(query, {"its_id": run_id, "its_fence": fence, "upto": upto}).rowcount == 1


def stops(database: Database, owner: str) -> list[str]:
    """Return the runs of this owner that somebody asked to stop."""
    query = select(runs.c.id).where(runs.c.owner == owner, runs.c.status == "running", runs.c.stop_requested)
    with database.read() as connection:
        return list(connection.execute(query).scalars())


def _is_owned() -> tuple[Any, ...]:
    return runs.c.id == bindparam("its_id"), runs.c.fence == bindparam("its_fence"), runs.c.status == "running"
