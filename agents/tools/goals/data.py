"""The local data set of the goals that ship: what ships is in `config/data/goals`, what was done in the state folder.

Each principal has its own with each agent, in a file of the sandbox. An entry is stored under the idempotency key of
its call, so that it is there once, however often the call is made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

import orjson

from agents.tools.call_context import current_call
from config.settings import ROOT

SHIPPED = ROOT / "config" / "data" / "goals"
FILE = "goals.sqlite"
WAIT_S = 10.0
"""Seconds that a call waits for another one of the same principal."""


@lru_cache
def shipped(name: str) -> Any:
    """Return a part of the data set as it ships; the data is shared, leave it as it is."""
    return orjson.loads((SHIPPED / f"{name}.json").read_bytes())


class Entries:
    """What was done so far, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, key: str) -> None:
        self._connection, self._key = connection, key

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of a kind, the oldest first."""
        rows = self._connection.execute("SELECT data FROM entries WHERE kind = ? ORDER BY number", (kind,))
        return [orjson.loads(data) for (data,) in rows]

    @property
    def own(self) -> dict[str, Any] | None:
        """The entry of this call, where it was made before."""
        row = self._connection.execute("SELECT data FROM entries WHERE key = ?", (self._key,)).fetchone()
        return None if row is None else orjson.loads(row[0])

    def add(self, kind: str, entry: dict[str, Any]) -> dict[str, Any]:
        """Store this call's entry, and return it."""
        values = self._key, kind, orjson.dumps(entry).decode()
        self._connection.execute("INSERT INTO entries (key, kind, data) VALUES (?, ?, ?)", values)
        return entry


@contextmanager
def entries() -> Iterator[Entries]:
    """Yield what was done so far; the body is one transaction, and nothing else writes meanwhile."""
    call = current_call()
    with closing(sqlite3.connect(call.sandbox / FILE, timeout=WAIT_S, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, key TEXT UNIQUE, kind TEXT, data TEXT)"
        )
        yield Entries(connection, call.idempotency_key)
        connection.execute("COMMIT")
