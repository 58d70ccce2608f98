"""How a process claims a run: on which terms, how many at a time, and what comes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import orjson
from sqlalchemy import Connection, Row

from bus.journal.states import owned
from bus.journal.states.codes import RunStatus
from bus.journal.states.crashes import SUSPECT_AFTER, is_suspect, must_be_alone
from bus.journal.states.lease import Lease
from bus.journal.states.queue_order import next_of_queue
from bus.queues import ServedQueues
from config.database.engine import Database
from config.database.errors import DatabaseBusy
from config.settings import Settings
from config.settings.servers import POOL_FLOOR

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimTerms:
    """On which terms a process takes a run.

    The claim's own statement has them as conditions, so that a claim is never made and rolled back.
    """

    run_id: str
    queues: ServedQueues | None = None
    """Those that the process serves; None: every queue."""
    definition: tuple[str, str] | None = None
    """The agent's id and the digest of the definition that the process has loaded for it; None: any."""
    crashes: int | None = SUSPECT_AFTER - 1
    """How many owners it may have lost; None: any number."""
    is_suspect: bool = False
    """Whether the process has to admit it as a suspect, beside which it works on no other."""
    must_be_alone: bool = False
    """Whether the process has to admit it as a run beside which it works on none."""
    in_order: bool = False
    """Whether a queued run of its queue and tenant with a higher priority is first; with ``queues`` and ``crashes``."""
    is_first: bool = False
    """Whether it was looked up as the one that begins first, so that the claim's statement does not look again."""

    def conditions(self) -> tuple[ServedQueues | None, tuple[str, str] | None, int | None, bool]:
        """Return what ``states.owned.claim`` has as conditions."""
        return self.queues, self.definition, self.crashes, self.in_order and not self.is_first


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """The claim is committed, with the start of the first step."""

    lease: Lease
    work: T


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run stays queued: it cannot be claimed on these terms."""

    reason: Literal["queue", "definition", "suspect", "priority", "leaving"]
    terms: ClaimTerms | None = None
    """On which this process can claim it, or the run that begins before it; None: it cannot."""


@dataclass(frozen=True, slots=True)
class Refused:
    """There is nothing to claim: the run is not queued, or an earlier run of its thread is open."""


def why_not(connection: Connection, database: Database, terms: ClaimTerms) -> Waiting | Refused:
    """Return why a run cannot be claimed on these terms, and on which it, or the run before it, can."""
    row = owned.claimable(connection, terms.run_id)
    if row is None:
        return _in_its_place(connection, database, terms)
    if terms.queues is not None and not terms.queues.has(row.queue):
        return Waiting("queue")
    definition = row.agent_id, row.definition_digest
    if terms.definition not in (None, definition):
        return Waiting("definition", replace(terms, definition=definition))
    if terms.crashes is None or row.crashes <= terms.crashes:  # another one is before it, or was until now
        return _next_run(connection, database, terms, row)
    notes = orjson.loads(row.crashes_json or "[]")
    suspect, alone = is_suspect(row.crashes, notes), must_be_alone(row.crashes, notes)
    on = {"crashes": row.crashes, "is_suspect": suspect, "must_be_alone": alone, "in_order": False}
    return Waiting("suspect", replace(terms, **on))


def _in_its_place(connection: Connection, database: Database, terms: ClaimTerms) -> Waiting | Refused:
    """Return which run the wake-up of a run is for that another wake-up has begun before.

    Each wake-up begins a run, so a run that gave way is begun by the wake-up of the one that went before it.
    """
    row = owned.place_of(connection, terms.run_id)
    if row is None or row.status == RunStatus.QUEUED:  # behind an open run of its thread, whose end wakes it
        return Refused()
    return _next_run(connection, database, terms, row)


def _next_run(connection: Connection, database: Database, terms: ClaimTerms, row: Row[Any]) -> Waiting | Refused:
    """Return on which terms the run of this one's tenant and queue is claimed that begins first."""
    queues, crashes = terms.queues, terms.crashes
    if not terms.in_order or queues is None or crashes is None or not queues.has(row.queue):
        return Refused()
    first = next_of_queue(connection, database, row.tenant, row.queue, queues, crashes)
    if first is None:
        return Refused()
    definition = first.agent_id, first.definition_digest
    return Waiting("priority", replace(terms, run_id=first.id, definition=definition, is_first=True))


# --- admission: at most 16 claims at a time, and none while the database is slow; other workers can take the runs


AT_ONCE = 16
"""Claims in flight: enough to share a commit, few enough not to delay the commits of running runs."""
PATIENCE_S = 20.0
LOOK_S = 0.05


class Admission:
    """One per process. More runs would slow the database further, until heartbeats are late and leases expire."""

    def __init__(self, delay_s: Callable[[], float], slow_s: float) -> None:
        """``delay_s`` returns the seconds that writes take now; from ``slow_s`` on nothing more is claimed."""
        self._delay_s = delay_s
        self._slow_s = slow_s
        self._places = threading.BoundedSemaphore(AT_ONCE)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the ``AT_ONCE`` places, and wait for it; to be called on a plain thread.

        Raises:
            DatabaseBusy: the database stayed slow for ``PATIENCE_S``.
        """
        ends_s = time.monotonic() + PATIENCE_S
        if not self._places.acquire(timeout=PATIENCE_S):
            raise _slow()
        try:
            while self._delay_s() >= self._slow_s:
                if time.monotonic() >= ends_s:
                    raise _slow()
                time.sleep(LOOK_S)  # other threads' commits send no notification
            yield
        finally:
            self._places.release()


def _slow() -> DatabaseBusy:
    return DatabaseBusy("the database is too slow for more runs in this process; the run stays queued.")


def pool_problem(settings: Settings) -> str | None:
    """Return in what the slots do not fit the pool of connections, as a sentence with the remedy; None if they do.

    A run that begins reads its model and definition on the thread of its slot. Too few connections cost time and no
    run, so this is no error; fewer than ``POOL_FLOOR`` are.
    """
    pool = settings.database_pool_size + settings.database_max_overflow
    beginning = min(settings.slots, AT_ONCE)
    if pool >= POOL_FLOOR + beginning:
        return None
    return (
        f"CALLBOARD_SLOTS ({settings.slots}) lets {beginning} runs begin at once, and a process's {pool} database "
        f"connections (CALLBOARD_DATABASE_POOL_SIZE and CALLBOARD_DATABASE_MAX_OVERFLOW) leave {pool - POOL_FLOOR} for "
        f"them beside its own {POOL_FLOOR}, so runs begin later; allow {POOL_FLOOR + beginning}, or fewer slots."
    )
