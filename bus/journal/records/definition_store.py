"""Definitions as they were when runs were accepted, stored once by digest; later edits of the files change nothing."""

from __future__ import annotations

import time

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from config.database.engine import WALL_MS, Database
from config.database.tables import definitions

RENEW_S = 600.0
"""Seconds for which a process skips writing a definition that it has written; retention deletes old, unused ones."""

_known: dict[tuple[str, str], float] = {}


def pin(connection: Connection, digest: str, agent_id: str, content_json: str) -> None:
    """Store the definition, in the transaction that accepts a run with it."""
    if time.monotonic() - _known.get((str(connection.engine.url), digest), -RENEW_S) < RENEW_S:
        return
    row = {"digest": digest, "agent_id": agent_id, "content_json": content_json, "created_ms": WALL_MS}
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    fresh = make(definitions).values(**row)
    connection.execute(fresh.on_conflict_do_update(index_elements=["digest"], set_={"created_ms": WALL_MS}))


def is_pinned(database: Database, digest: str) -> bool:
    """Return whether this process has stored the definition lately, so that ``pin`` would write nothing."""
    return time.monotonic() - _known.get((str(database.engine.url), digest), -RENEW_S) < RENEW_S


def remember_pinned(database: Database, digest: str) -> None:
    """Remember that the definition is stored; to be called after the transaction was committed.

    A definition that is remembered already keeps its time, so that it is written again after ``RENEW_S`` in any case.
    """
    key, now_s = (str(database.engine.url), digest), time.monotonic()
    if now_s - _known.get(key, -RENEW_S) >= RENEW_S:
        _known[key] = now_s


def read_pinned(connection: Connection, digest: str) -> str | None:
    """Return a stored definition as JSON, or None where no run was accepted with it."""
    return connection.execute(_READ, {"digest_": digest}).scalar()


_READ = select(definitions.c.content_json).where(definitions.c.digest == bindparam("digest_"))
