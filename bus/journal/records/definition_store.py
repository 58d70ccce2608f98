"""Definitions as they were when runs were accepted, stored once by digest; later edits of the files change nothing."""

from __future__ import annotations

import time

from sqlalchemy import Connection, Table, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from config.database.engine import WALL_MS, Database
from config.database.tables import agent_versions, definitions
from config.definitions.behaviour import behaviour_in

RENEW_S = 600.0
"""Seconds for which a process skips writing a definition that it has written; retention deletes old, unused ones."""
RACES = 4
"""Tries to take the next number, which another transaction may take first."""

_known: dict[tuple[str, str], float] = {}


def pin(connection: Connection, digest: str, agent_id: str, content_json: str) -> None:
    """Store the definition as a version of its agent, in the transaction that accepts a run with it."""
    if time.monotonic() - _known.get((str(connection.engine.url), digest), -RENEW_S) < RENEW_S:
        return
    keep_content(connection, agent_id, digest, content_json)
    register(connection, agent_id, digest, content_json)


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


# --- versions: each content of an agent's file has a number


def register(
    connection: Connection, agent_id: str, digest: str, content_json: str, *, is_in_file: bool = False
) -> None:
    """Give a content its number unless it has one; ``is_in_file``: the agent's file has it now."""
    ours = {"agent_": agent_id, "digest_": digest}
    values = {"agent_id": agent_id, "digest": digest, "created_ms": WALL_MS, "seen_ms": WALL_MS}
    for _ in range(RACES):
        if connection.execute(_NUMBER_OF, ours).scalar() is not None:
            break
        number = connection.execute(_NEXT_NUMBER, ours).scalar_one()
        row = values | {"number": number, "behaviour": behaviour_in(content_json)}
        connection.execute(insert_into(connection, agent_versions).values(**row).on_conflict_do_nothing())
    if is_in_file:
        connection.execute(_SEEN, ours)


def keep_content(connection: Connection, agent_id: str, digest: str, content_json: str) -> None:
    """Store a definition by its digest; one that is stored is as good as new for retention."""
    row = {"digest": digest, "agent_id": agent_id, "content_json": content_json, "created_ms": WALL_MS}
    fresh = insert_into(connection, definitions).values(**row)
    connection.execute(fresh.on_conflict_do_update(index_elements=["digest"], set_={"created_ms": WALL_MS}))


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that may say what is done about a row that is there."""
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)


_ITS = agent_versions.c.agent_id == bindparam("agent_")
_OF_DIGEST = _ITS, agent_versions.c.digest == bindparam("digest_")
_NUMBER_OF = select(agent_versions.c.number).where(*_OF_DIGEST)
_NEXT_NUMBER = select(func.coalesce(func.max(agent_versions.c.number), 0) + 1).where(_ITS)
_SEEN = update(agent_versions).where(*_OF_DIGEST).values(seen_ms=WALL_MS)
