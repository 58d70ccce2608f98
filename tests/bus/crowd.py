"""Many runs in any state, written as rows: what lists and counts read."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select

from config.clock import epoch_ms
from config.database.engine import Database
from config.database.tables import runs

ASKS: dict[str, Any] = {"status": "waiting", "reason": "approval"}


class Crowd:
    """Adds runs that are like one that was accepted, but for the fields that are given."""

    def __init__(self, database: Database, like: str, **fields: Any) -> None:
        self._database = database
        self._now_ms = epoch_ms()
        with database.read() as connection:
            self._template = connection.execute(select(runs).where(runs.c.id == like)).one()._asdict() | fields

    def add(
        self, name: str, number: int, ended_ago_ms: int | None = None, created_ago_ms: int = 0, **fields: Any
    ) -> None:
        """Add ``number`` runs, ``name-1`` the newest, each a second older than the one before."""
        over = {} if ended_ago_ms is None else {"ended_ms": self._now_ms - ended_ago_ms}
        newest_ms = self._now_ms - created_ago_ms
        rows = [
            self._template | over | fields | {"id": f"{name}-{index}", "created_ms": newest_ms - index * 1000}
            for index in range(1, number + 1)
        ]
        with self._database.write() as connection:
            connection.execute(insert(runs), rows)
