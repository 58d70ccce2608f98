"""Retention: deletes threads, runs and logs that are older than the settings allow, in batches, and nothing open."""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
    update,
)

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.identity.envelope import are_expired, delete_expired
from bus.journal.log.events import event_row
from bus.journal.retention.removal import delete_runs, delete_threads
from bus.journal.states.conditions import is_open
from bus.payloads import EXPIRED, WithdrawnPayload
from config.clock import stamp
from config.database.engine import Database, wall_ms
from config.database.tables import (
    agent_aliases,
    agent_versions,
    definitions,
    events,
    failed_deliveries,
    idempotency_keys,
    internal_events,
    observer_cursors,
    observers,
    runs,
    threads,
)
from config.database.timeouts import patience
from config.identity.principal import Principal
from config.private_files import lock_private
from config.settings import Settings

log = logging.getLogger(__name__)

BATCH = 100
"""Rows of runs or threads per transaction."""
BATCH_WEIGHT = 20_000
"""Events and steps deleted per transaction, approximately; a run with more gets a transaction of its own."""
MIN_PAUSE_S = 0.02
HOT_LOG_SLACK_S = 3600
DAY_MS = 24 * 3600 * 1000
VERSIONS_MS = 90 * DAY_MS
"""For how long a version of an agent is kept that no run and no alias needs, after the agent's file had it."""

Pause = Callable[[float], None]
Batch = Callable[[Connection], int]
Whose = Callable[[Table], ColumnElement[bool]]
"""Returns the condition that a row of a table belongs to certain tenants."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Swept:
    """How many of each a sweep deleted."""

    threads: int = 0
    runs: int = 0
    """Runs deleted by themselves, without those of deleted threads."""
    internal_events: int = 0
    logs: int = 0
    """Runs whose events were deleted, and which are kept."""
    versions: int = 0
    """Versions of agents."""
    definitions: int = 0
    nonces: int = 0
    """Of signed envelopes that have expired."""
    files: int = 0
    """Files of the logger observer on this machine."""


def sweep(database: Database, settings: Settings, *, pause: Pause = time.sleep) -> Swept:
    """Delete what the ``retain_…`` settings no longer keep, and return how much that was.

    To be called on a plain thread. Several processes may sweep at once: they skip rows that another has locked. An
    interrupted sweep is continued by the next one.
    """
    with database.read() as connection:
        now_ms = wall_ms(connection)
        observed = _observed(connection, settings)
    swept = [
        _sweep_tenants(database, chosen, whose, now_ms, pause, observed) for chosen, whose in _by_tenants(settings)
    ]
    # Files have this machine's times, and lines of all tenants.
    files_days, old_files_s = settings.retain_logs_days, time.time() - settings.retain_logs_days * DAY_MS / 1000
    return Swept(
        threads=sum(result.threads for result in swept),
        runs=sum(result.runs for result in swept),
        internal_events=sum(result.internal_events for result in swept),
        logs=sum(result.logs for result in swept),
        versions=_versions(database, now_ms - VERSIONS_MS),
        definitions=_definitions(database, now_ms - DAY_MS),
        nonces=_nonces(database, now_ms, pause),
        files=remove_old_logs(settings.state / "logs", old_files_s) if files_days else 0,
    )


def _by_tenants(settings: Settings) -> list[tuple[Settings, Whose]]:
    """Return each tenant's settings that has its own, then the deployment's with all other tenants."""
    names = sorted(settings.tenants)
    own: list[tuple[Settings, Whose]] = [(settings.for_tenant(name), partial(_is_of, name)) for name in names]
    return [*own, (settings, lambda table: table.c.tenant.not_in(names) if names else true())]


def _is_of(tenant: str, table: Table) -> ColumnElement[bool]:
    return table.c.tenant == tenant


@dataclass(frozen=True, kw_only=True, slots=True)
class _Observed:
    """What observers that tail the log have had."""

    critical: int | None
    """Up to which position all critical ones have; None: there is none."""
    reliable: int | None
    wait_ms: float
    """For how much longer than its time a run is kept for a reliable one."""

    def needs(self, before_ms: int) -> ColumnElement[bool]:
        """Return the condition that an observer has not had all of a run, which would be removed otherwise."""
        c, waited = failed_deliveries.c, runs.c.ended_ms < before_ms - self.wait_ms
        held = select(c.id).join(observers, observers.c.name == c.observer).where(c.run_id == runs.c.id)
        is_held = exists(held.where(or_(~waited, observers.c.delivery == "critical")))
        conditions: list[ColumnElement[bool]] = [is_held] if self._are_any else []
        for position, condition in ((self.critical, true()), (self.reliable, ~waited)):
            if position is not None:
                behind = select(events.c.seq).where(events.c.run_id == runs.c.id, events.c.position > position)
                conditions.append(and_(condition, exists(behind)))
        return or_(false(), *conditions)

    @property
    def _are_any(self) -> bool:
        return (self.critical, self.reliable) != (None, None)


def _observed(connection: Connection, settings: Settings) -> _Observed:
    query = select(observers.c.delivery, func.min(observer_cursors.c.position)).join(observer_cursors)
    positions = {row[0]: row[1] for row in connection.execute(query.group_by(observers.c.delivery))}
    wait_ms = settings.retain_for_observers_days * DAY_MS
    return _Observed(critical=positions.get("critical"), reliable=positions.get("reliable"), wait_ms=wait_ms)


def _sweep_tenants(
    database: Database, settings: Settings, whose: Whose, now_ms: int, pause: Pause, observed: _Observed
) -> Swept:
    hot_ms = (settings.hot_log_ttl_s + HOT_LOG_SLACK_S) * 1000

    def before(days: float, at_least_ms: float = 0) -> int:
        return int(now_ms - max(days * DAY_MS, at_least_ms))

    def by_batches(days: float, batch: Batch) -> int:
        return _in_batches(database, batch, pause) if days else 0

    # A log that is still in Redis would lack the event that declares the deleted numbers.
    logs = _Logs(before(settings.retain_events_days, hot_ms), whose, observed)
    old_threads, old_runs = before(settings.retain_threads_days), before(settings.retain_runs_days)
    return Swept(
        threads=by_batches(
            settings.retain_threads_days, lambda connection: _threads(connection, old_threads, whose, observed)
        ),
        runs=by_batches(settings.retain_runs_days, lambda connection: _runs(connection, old_runs, whose, observed)),
        internal_events=by_batches(
            settings.retain_runs_days, lambda connection: _internal_events(connection, old_runs, whose)
        ),
        logs=by_batches(settings.retain_events_days, logs),
    )


def _in_batches(database: Database, batch: Batch, pause: Pause) -> int:
    """Repeat a transaction until it finds nothing, with a pause after each as long as the transaction took."""
    total = 0
    while True:
        began = time.monotonic()
        with patience(math.inf), database.write() as connection:  # one run may have millions of events
            count = batch(connection)
        if not count:
            return total
        total += count
        pause(max(MIN_PAUSE_S, time.monotonic() - began))


def _threads(connection: Connection, before_ms: int, whose: Whose, observed: _Observed) -> int:
    """Delete a batch of threads that were not used since ``before_ms`` and have no open run.

    Accepting a run updates its thread in the same transaction. So a row that this statement had to wait for is
    evaluated again, and a row that is found stays locked until it is deleted.
    """
    its = runs.c.thread_key == threads.c.key
    needed = exists(select(runs.c.id).where(its, or_(_is_needed(), observed.needs(before_ms))))
    weight = select(func.coalesce(func.sum(runs.c.reserved_to + runs.c.steps), 0)).where(its).scalar_subquery()
    query = (
        select(threads.c.key, threads.c.tenant, (threads.c.next_message + weight).label("weight"))
        .where(threads.c.updated_ms < before_ms, whose(threads), ~needed)
        .order_by(threads.c.updated_ms)
        .limit(BATCH)
        .with_for_update(of=threads, skip_locked=True)
    )
    rows = _portion(connection.execute(query).all())
    if rows:
        delete_threads(connection, [row.key for row in rows])
        _record(connection, "thread", rows, before_ms)
    return len(rows)


def _runs(connection: Connection, before_ms: int, whose: Whose, observed: _Observed) -> int:
    rows = _ended(connection, before_ms, whose(runs), ~observed.needs(before_ms))
    if rows:
        delete_runs(connection, runs.c.id.in_([row.id for row in rows]))
        _record(connection, "run", rows, before_ms)
    return len(rows)


def _internal_events(connection: Connection, before_ms: int, whose: Whose) -> int:
    """Delete a batch of internal events with their idempotency keys: they are kept as long as the tenant's runs."""
    c = internal_events.c
    old = select(c.id, c.tenant).where(c.created_ms < before_ms, whose(internal_events)).order_by(c.created_ms)
    rows: Sequence[Any] = connection.execute(old.limit(BATCH).with_for_update(skip_locked=True)).all()
    if rows:
        ids = [row.id for row in rows]
        connection.execute(delete(idempotency_keys).where(idempotency_keys.c.run_id.in_(ids)))
        connection.execute(delete(internal_events).where(c.id.in_(ids)))
        _record(connection, "internal_event", rows, before_ms)
    return len(rows)


def _record(connection: Connection, target: str, removed: Sequence[Row[Any]], before_ms: int) -> None:
    """Record how many of a kind were removed, for each tenant; always in one order, since each head is locked."""
    for tenant, count in sorted(Counter(row.tenant for row in removed).items()):
        retention = Principal(tenant=tenant, id="")
        record(connection, retention, Action.RETENTION, target, "", count=count, before=stamp(before_ms))


class _Logs:
    """Expires one batch of logs per call, continuing after the last batch, so that a sweep reads each run once."""

    def __init__(self, before_ms: int, whose: Whose, observed: _Observed) -> None:
        self._whose, self._needs = whose, observed.needs(before_ms)
        self._before_ms = before_ms
        self._place = (0, "")

    def __call__(self, connection: Connection) -> int:
        # Expiry leaves two events: the end, and the one before it.
        more = select(events.c.seq).where(events.c.run_id == runs.c.id, events.c.seq < runs.c.reserved_to - 1)
        is_further = tuple_(runs.c.ended_ms, runs.c.id) > self._place
        rows = _ended(connection, self._before_ms, self._whose(runs), is_further, exists(more), ~self._needs)
        for run in rows:
            _expire(connection, run.id, run.thread_id, run.reserved_to)
        if rows:
            _record(connection, "log", rows, self._before_ms)
            self._place = (rows[-1].ended_ms, rows[-1].id)
        return len(rows)


def _expire(connection: Connection, run_id: str, thread_id: str, end_seq: int) -> None:
    """Delete all events of an ended run but the last.

    The number before the end's becomes a ``withdrawn`` event. It overwrites the last deleted row, so that readers of
    all runs, who follow ``position``, do not see an old log as new events.
    """
    its = events.c.run_id == run_id
    ending = select(events.c.seq, events.c.type).where(its, events.c.seq >= end_seq - 1)
    if not any(row.type == "end" and row.seq == end_seq for row in connection.execute(ending)):
        return  # a log without an end is left as it is
    before = select(events.c.position, events.c.fence).where(its, events.c.seq < end_seq)
    last = connection.execute(before.order_by(events.c.seq.desc()).limit(1)).one()
    connection.execute(delete(events).where(its, events.c.seq < end_seq, events.c.position != last.position))
    gone = WithdrawnPayload(seq=end_seq - 1, at=stamp(), ranges=[[1, end_seq - 2]], reason=EXPIRED)
    row = event_row(gone, run_id, thread_id, last.fence)
    connection.execute(update(events).where(events.c.position == last.position).values(**row))


def _ended(connection: Connection, before_ms: int, *conditions: ColumnElement[bool]) -> Sequence[Row[Any]]:
    """Lock and return a batch of runs that ended before ``before_ms`` and that nothing refers to any more."""
    weight = (runs.c.reserved_to + runs.c.steps).label("weight")
    query = select(runs.c.id, runs.c.tenant, runs.c.thread_id, runs.c.ended_ms, runs.c.reserved_to, weight)
    query = query.where(runs.c.ended_ms < before_ms, ~_is_needed(), *conditions).order_by(runs.c.ended_ms, runs.c.id)
    return _portion(connection.execute(query.limit(BATCH).with_for_update(of=runs, skip_locked=True)).all())


def _is_needed() -> ColumnElement[bool]:
    """Return the condition that a run is open, is a child of an open run, or has an end to deliver to observers."""
    parent = runs.alias("parent")
    child_of_open = exists(select(parent.c.id).where(parent.c.id == runs.c.parent_id, is_open(parent)))
    return or_(is_open(runs), ~runs.c.observers_told, child_of_open)


def _portion(rows: Sequence[Any]) -> Sequence[Any]:
    """Return as many of the first rows as one transaction should delete, at least one."""
    weight = 0
    for count, row in enumerate(rows):
        weight += row.weight
        if weight > BATCH_WEIGHT and count:
            return rows[:count]
    return rows


def _versions(database: Database, before_ms: int) -> int:
    """Delete versions of agents that no run, no alias and no rollback needs; an agent's newest and last ones stay."""
    other, aliases = agent_versions.alias(), agent_aliases.c
    later = (other.c.number > agent_versions.c.number, other.c.seen_ms > agent_versions.c.seen_ms)
    its = other.c.agent_id == agent_versions.c.agent_id
    named = or_(aliases.number == agent_versions.c.number, aliases.previous == agent_versions.c.number)
    is_unneeded = (
        agent_versions.c.seen_ms < before_ms,
        *(exists(select(other.c.number).where(its, condition)) for condition in later),
        ~exists(select(aliases.number).where(aliases.agent_id == agent_versions.c.agent_id, named)),
        ~exists(select(runs.c.id).where(runs.c.definition_digest == agent_versions.c.digest)),
    )
    columns = agent_versions.c["agent_id", "number"]
    with patience(math.inf), database.read() as connection:
        keys = [tuple(row) for row in connection.execute(select(*columns).where(*is_unneeded).limit(BATCH))]
    if not keys:
        return 0
    with database.write() as connection:
        return connection.execute(delete(agent_versions).where(tuple_(*columns).in_(keys), *is_unneeded)).rowcount


def _definitions(database: Database, before_ms: int) -> int:
    """Delete stored definitions that no run and no version refers to and that were not written since ``before_ms``.

    Accepting a run writes its definition at most ``RENEW_S`` before (bus/journal/records/definition_store.py). So an
    old one is not about to be used, and one that is written at this moment is evaluated again.
    """
    is_used = exists(select(runs.c.id).where(runs.c.definition_digest == definitions.c.digest))
    is_version = exists(select(agent_versions.c.number).where(agent_versions.c.digest == definitions.c.digest))
    is_unused = (definitions.c.created_ms < before_ms, ~is_used, ~is_version)
    with patience(math.inf), database.read() as connection:  # every run is read: not where others wait for it
        digests = list(connection.execute(select(definitions.c.digest).where(*is_unused).limit(BATCH)).scalars())
    if not digests:
        return 0
    with database.write() as connection:
        return connection.execute(delete(definitions).where(definitions.c.digest.in_(digests), *is_unused)).rowcount


def _nonces(database: Database, now_ms: int, pause: Pause) -> int:
    """Delete the nonces of signed envelopes that no verifier accepts any more."""
    with database.read() as connection:  # most sweeps find none, and need no writer's turn
        if not are_expired(connection, now_ms):
            return 0
    return _in_batches(database, lambda connection: delete_expired(connection, now_ms), pause)


# --- old files


def remove_old_logs(folder: Path, before_s: float) -> int:
    """Delete the files ``runs-….log`` last written before this time (seconds since 1970) and return how many.

    The current file of a live process stays, whatever its age; that process rotates it.
    """
    removed = 0
    for path in sorted(folder.glob("runs-*.log*")):
        try:
            if path.stat().st_mtime < before_s and _remove(path):
                removed += 1
        except FileNotFoundError:  # rotated, or deleted by another process
            continue
        except OSError as error:
            log.warning("an old log file could not be deleted: %s", error)
    return removed


def _remove(path: Path) -> bool:
    if path.suffix != ".log":  # rotated: no process writes to it any more
        path.unlink()
        return True
    slot = lock_private(path.with_suffix(".lock"))  # see observers/logfile/rotated_file.py
    if slot is None:
        return False
    try:
        path.unlink()
        return True
    finally:
        os.close(slot)
