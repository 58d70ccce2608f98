"""Definitions as they were when runs were accepted: kept once by their digest, whatever becomes of the files."""

from __future__ import annotations

import time
from threading import Lock

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from config.database import WALL_MS, Database
from config.forks import after_fork
from config.tables import definitions

AGAIN_S = 600.0
"""How long a process takes a definition it wrote down for kept; retention takes away what is old and unused."""

_known: dict[tuple[str, str], float] = {}
_lock = Lock()


@after_fork
def _renew() -> None:
    global _lock
    _lock = Lock()


def pin(connection: Connection, digest: str, agent_id: str, content_json: str) -> None:
    """Keep the definition, in the transaction that accepts a run with it."""
    with _lock:
        known_s = _known.get((str(connection.engine.url), digest))
    if known_s is not None and time.monotonic() - known_s < AGAIN_S:
        return
    row = {"digest": digest, "agent_id": agent_id, "content_json": content_json, "created_ms": WALL_MS}
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    fresh = make(definitions).values(**row)
    connection.execute(fresh.on_conflict_do_update(index_elements=["digest"], set_={"created_ms": WALL_MS}))


def remember_pinned(database: Database, digest: str) -> None:
    """Know that the definition is kept; to be called when the transaction was committed.

    What is known already is not put off: it has to be written again in time, however busy the process is.
    """
    key, now_s = (str(database.engine.url), digest), time.monotonic()
    with _lock:
        if now_s - _known.get(key, -AGAIN_S) >= AGAIN_S:
            _known[key] = now_s


def read_pinned(connection: Connection, digest: str) -> str | None:
    """Return the content of a definition some run was accepted with, as JSON, or None when it was not kept."""
    return connection.execute(_READ, {"its_digest": digest}).scalar()


_READ = select(definitions.c.content_json).where(definitions.c.digest == bindparam("its_digest"))
