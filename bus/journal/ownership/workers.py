"""The live worker processes: each renews a row; read by ``/health``, ``run --detach`` and ``doctor``.

An owner id, ``own_<machine>_<pid>_<started>_<random>``, names its process, so that another process of the same machine
can see that it has ended. The machine is this boot of this kernel and this pid namespace, so that equal pids of two
machines or containers differ; a reused pid has another start time. Except on Linux, and where a process may not be
inspected (``hidepid``, another user's), only the lease decides.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import Connection, delete, exists, insert, select, update

from config.clock import boot_id, epoch_ms, stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import tools, workers
from config.ids import new_id

ALIVE_MS = 15_000
"""A worker whose row is older (ms) counts as gone."""
LOST_MS = 3600 * 1000
"""A worker whose row is older (ms) is listed no more."""
KEPT_MS = 24 * 3600 * 1000
MOST_LISTED = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRow:
    """A worker process as it describes itself."""

    id: str
    host: str
    pid: int
    pool: str
    slots: int
    """Runs it can work on at once."""
    busy: int
    """Runs it works on now."""
    queue: str | None = None
    """The default queue in its configuration; None for a release that did not write it."""
    queues: tuple[str, ...] = ()
    """The queues it serves; empty for a release that served only ``queue``."""
    version: str | None = None
    """Callboard's version."""
    cpu_share: float | None = None
    """How much of one processor it has used since its row before: 0 to 1."""
    memory_share: float | None = None
    """How much it uses of the memory that its container or machine has."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """The payloads that it has dropped, by the observer that was too slow for them."""
    abandoned: Mapping[str, int] = field(default_factory=dict)
    """The calls that it gave up and that have not ended, by tool."""
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How each MCP server is in it, by name; see ``agents.tools.mcp.server_states.McpServerState``."""
    missing_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The variables of models' keys that are not set in it, with the agents that need them."""
    draining: bool = False
    """Whether it takes no more runs, since it is about to exit."""


class Workers:
    """The worker processes that are alive, as their rows say; each call uses a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def alive(self) -> list[dict[str, Any]]:
        """Return the workers whose rows are at most 15 s old; ``skew_ms`` is how far their clocks are ahead."""
        with self._database.read() as connection:
            return alive(connection)

    def listed(self) -> list[dict[str, Any]]:
        """Return the workers of the last hour as ``alive`` does, up to 500, each with its ``state`` and ``seen_s``.

        The state is ``alive``, ``draining``, or ``lost``: it has not said that it ends, and renews its row no more.
        """
        query = select(workers, WALL_MS.label("now_ms")).where(workers.c.seen_ms > WALL_MS - LOST_MS)
        query = query.order_by(workers.c.started_ms, workers.c.id).limit(MOST_LISTED)
        with self._database.read() as connection:
            return [_shown(row) | _state(row) for row in connection.execute(query)]

    def serving(self, queue: str | None) -> list[dict[str, Any]]:
        """Return those of them that serve a queue; None is the default queue."""
        return [worker for worker in self.alive() if serves(worker, queue)]

    def with_key(self, queue: str | None, variables: str, *, apart_from: str) -> list[dict[str, Any]]:
        """Return the workers of a queue that lack no key in these variables, without the one with this id."""
        others = (worker for worker in self.serving(queue) if worker["worker_id"] != apart_from)
        return [worker for worker in others if variables not in worker["missing_keys"]]

    def renew(self, worker: WorkerRow, own_clock: Callable[[], int] = epoch_ms) -> None:
        """Renew this worker's row with its own clock's time beside the database's, and delete long expired rows."""
        with self._database.write() as connection:  # read inside, so that waiting for a lock is not measured
            clock_ms = own_clock()
            row = asdict(worker) | {"queues": ",".join(worker.queues) or None, "seen_ms": WALL_MS, "clock_ms": clock_ms}
            for name in ("dropped", "abandoned", "mcp_servers", "missing_keys"):
                value = row.pop(name)
                row[f"{name}_json"] = orjson.dumps(value).decode() if value else None
            changed = connection.execute(update(workers).where(workers.c.id == worker.id).values(row))
            if changed.rowcount == 0:
                connection.execute(delete(workers).where(workers.c.seen_ms < WALL_MS - KEPT_MS))
                connection.execute(insert(workers).values(row | {"started_ms": WALL_MS}))

    def forget(self, worker_id: str) -> None:
        """Delete the row of a worker that ends; its tools stay listed where it was the last one."""
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))
            others = exists().where(workers.c.seen_ms > WALL_MS - ALIVE_MS)
            connection.execute(delete(tools).where(tools.c.worker_id == worker_id, others))


def alive(connection: Connection) -> list[dict[str, Any]]:
    """Return what ``Workers.alive`` does."""
    query = select(workers).where(workers.c.seen_ms > WALL_MS - ALIVE_MS).order_by(workers.c.started_ms)
    # The row of one that is gone is fresh for some seconds more.
    return [_shown(row) for row in connection.execute(query) if not is_gone(row.id)]


def _shown(row: Any) -> dict[str, Any]:
    return {
        "worker_id": row.id,
        "host": row.host,
        "pid": row.pid,
        "pool": row.pool,
        "slots": row.slots,
        "busy": row.busy,
        "started_at": stamp(row.started_ms),
        "seen_at": stamp(row.seen_ms),
        "queue": row.queue,
        "queues": _queues(row),
        "version": row.version,
        "cpu_share": row.cpu_share,
        "memory_share": row.memory_share,
        "dropped": orjson.loads(row.dropped_json or "{}"),
        "abandoned": orjson.loads(row.abandoned_json or "{}"),
        "mcp_servers": orjson.loads(row.mcp_servers_json or "{}"),
        "missing_keys": orjson.loads(row.missing_keys_json or "{}"),
        "skew_ms": None if row.clock_ms is None else row.clock_ms - row.seen_ms,
    }


def _state(row: Any) -> dict[str, Any]:
    age_ms = max(0, row.now_ms - row.seen_ms)
    is_lost = age_ms >= ALIVE_MS or is_gone(row.id)
    return {"state": "lost" if is_lost else "draining" if row.draining else "alive", "seen_s": age_ms / 1000}


def _queues(row: Any) -> list[str]:
    if row.queues is None:  # written by a release whose workers served one queue
        return [row.queue] if row.queue else []
    return str(row.queues).split(",")


def serves(worker: Mapping[str, Any], queue: str | None) -> bool:
    """Return whether a live worker serves a queue; None is the default queue, which each worker knows by name."""
    return (queue or worker["queue"]) in (worker["queues"] or [None])


def abandoned_calls(fleet: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the calls that the workers gave up and that have not ended, by tool."""
    counter: Counter[str] = Counter()
    for worker in fleet:
        counter.update(worker["abandoned"])
    return dict(sorted(counter.items()))


def missing_keys(fleet: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the variables of models' keys that workers lack, with the agents that need them and how many lack them."""
    missing: dict[str, dict[str, Any]] = {}
    for worker in fleet:
        for variables, agents in worker["missing_keys"].items():
            entry = missing.setdefault(variables, {"agents": [], "workers": 0})
            entry["agents"] = sorted({*entry["agents"], *agents})
            entry["workers"] += 1
    return dict(sorted(missing.items()))


# --- the names of owners


_FORM = re.compile(r"own_([0-9a-f]{12})_(\d+)_(\d+)_\w+")


def new_owner_id() -> str:
    """Return an id for this process."""
    pid = os.getpid()
    try:
        started = _started(pid)
    except OSError:
        started = None
    if started is None:
        return new_id("own")
    return f"own_{machine_id()}_{pid}_{started}_{new_id('x')[-12:]}"


def is_gone(owner: str | None) -> bool:
    """Return whether this owner was a process of this machine that has ended; False where that cannot be seen."""
    form = _FORM.fullmatch(owner or "")
    if form is None or sys.platform != "linux" or form[1] != machine_id():
        return False
    pid = int(form[2])
    try:
        return _started(pid) != form[3]
    except OSError:
        return not _may_live(pid)


@lru_cache(maxsize=1)
def machine_id() -> str:
    """Return what processes that see each other's pids have in common."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{boot_id()} {namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str | None:
    """Return the start time of a process in ticks since boot; None for a zombie process.

    Raises:
        OSError: there is no such process, it may not be inspected, or this process is out of file descriptors.
    """
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        facts = file.read().rpartition(")")[2].split()
    return None if facts[0] in "ZX" else facts[19]


def _may_live(pid: int) -> bool:
    """Return whether there is such a process, zombies included."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: larger than any pid
        return False
    except OSError:  # it is another user's
        pass
    return True
