"""No worker loses a run but for a fault that was done to that worker: slowness is none."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import orjson
from sqlalchemy import Connection, select

from cli.crashlab.invariants import RecordedClaim
from config.database.engine import Database
from config.database.tables import events, runs
from config.errors import CallboardError

EVERY_S = 0.2
"""Between two looks at who owns what."""
REMEMBERED_MS = 30_000
"""A worker that was struck may lose what it owns for so long afterwards: it was frozen, or the database was away."""
_PID = re.compile(r"own_[0-9a-f]{12}_(\d+)_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Struck:
    """A worker process that a fault ended, froze, or cut off from the database."""

    pid: int
    at_ms: int
    """When, in ms since 1970; the end of the fault where it lasted."""


class OwnerWatch:
    """Notes which process owns which run, from outside: a run's row names only its owner of now."""

    def __init__(self, database: Database) -> None:
        self.pids: dict[tuple[str, int], int] = {}
        """(run id, fence) -> pid of the owner; one who had it for less than ``EVERY_S`` may be missing."""
        self._database = database
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="owner-watch", daemon=True)

    def begin(self) -> None:
        """Look from now on."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join(20)

    def _watch(self) -> None:
        owned = select(runs.c.id, runs.c.fence, runs.c.owner).where(runs.c.status == "running")
        while not self._over.wait(EVERY_S):
            with suppress(CallboardError), self._database.read() as connection:  # the database is away now and then
                for row in connection.execute(owned):
                    if form := _PID.match(row.owner or ""):
                        self.pids[row.id, row.fence] = int(form[1])


def lost_by_healthy(
    connection: Connection,
    claims: Mapping[str, Sequence[RecordedClaim]],
    pids: Mapping[tuple[str, int], int],
    struck: Sequence[Struck],
) -> Iterator[str]:
    """F37 to F41: a run has another owner only because it waited, or because its owner was struck."""
    waits = _waits(connection)
    for run_id, its in claims.items():
        for before, after in pairwise(its):
            pid = pids.get((run_id, before.fence))
            has_waited = any(before.position < position < after.position for position in waits.get(run_id, ()))
            if pid is None or has_waited or _was_struck(pid, before, after, struck):
                continue
            held_s = (after.at_ms - before.at_ms) / 1000
            yield f"a healthy worker (pid {pid}) lost {run_id}: owner {before.attempt} had it {held_s:.1f} s"


def _waits(connection: Connection) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for row in connection.execute(select(events).where(events.c.type == "status")):
        if orjson.loads(row.data_json)["status"] == "waiting":
            positions.setdefault(row.run_id, []).append(row.position)
    return positions


def _was_struck(pid: int, before: RecordedClaim, after: RecordedClaim, struck: Sequence[Struck]) -> bool:
    since_ms = before.at_ms - REMEMBERED_MS
    return any(strike.pid == pid and since_ms <= strike.at_ms <= after.at_ms for strike in struck)
