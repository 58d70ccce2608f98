"""What a completion reads: ids, and the few settings that say where they are, without pydantic and SQLAlchemy.

Importing these takes longer than all the rest. The statements were made by SQLAlchemy beforehand; another database than
the state folder's is read as commands read it.
"""

from __future__ import annotations

import os
import sqlite3
import tomllib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.main import limit_reading
from config.folders import ROOT
from config.identity.principal import LOCAL
from config.ids import is_made

if TYPE_CHECKING:
    from bus.identity.short_ids import IdKind

Found = list[tuple[str, str | None]]
"""Ids with the titles of those that have one."""
PREFIX = "CALLBOARD_"
WAIT_S = 0.2
"""Seconds that reading waits for a writer."""
_ON = ("1", "true", "yes", "on")


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where ids and definitions are, and who asks; a test compares it with ``Settings``."""

    file: Path | None
    """The database of the state folder; None: a URL names another one."""
    agent_folders: tuple[Path, ...]
    tenant: str
    principal: str


def read_places(state_dir: Path | None = None) -> Places:
    """Return the places of this environment; ``state_dir`` is the option, which comes first."""
    values = _values()
    state = state_dir or Path(values.get("STATE_DIR", ".callboard"))
    folders = values.get("AGENTS_DIR", "config/agents:config/goals:config/workflows").split(":")
    return Places(
        file=None if values.get("DATABASE_URL") else (ROOT / state).resolve() / "callboard.db",
        agent_folders=tuple((ROOT / folder).resolve() for folder in folders if folder),
        tenant=values.get("TENANT", LOCAL.tenant),
        principal=values.get("PRINCIPAL", LOCAL.id),
    )


def _values() -> Mapping[str, str]:
    """Return the settings by their names in capitals; the environment comes before ``.env`` and ``callboard.toml``."""
    environment = _named(os.environ)
    if environment.get("NO_CONFIG", "").lower() in _ON:
        return environment
    return _of_toml() | _of_env_file() | environment


def _named(variables: Mapping[str, str | None]) -> dict[str, str]:
    names = {name.upper(): value for name, value in variables.items() if value is not None}
    return {name.removeprefix(PREFIX): value for name, value in names.items() if name.startswith(PREFIX)}


def _of_env_file() -> dict[str, str]:
    file = ROOT / ".env"
    if not file.is_file():
        return {}
    from dotenv import dotenv_values

    return _named(dotenv_values(file))


def _of_toml() -> dict[str, str]:
    with suppress(OSError, ValueError):
        document = tomllib.loads((ROOT / "callboard.toml").read_text(encoding="utf-8"))
        return {name.upper(): value for name, value in document.items() if isinstance(value, str)}
    return {}


# --- ids


def ids_for_shell(
    statements: Mapping[str, str], kind: IdKind, part: str, state_dir: Path | None, *, is_made_here: bool = False
) -> Found:
    """Return the ids of a kind that begin or end with ``part``; of names of threads those that were made here alone.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    places = read_places(state_dir)
    limit_reading()
    rows = _of_server(kind, part, state_dir) if places.file is None else _of_file(places, statements[kind], part)
    return [row for row in rows if row[0] == part or is_made("thr", row[0])] if is_made_here else rows


def _of_file(places: Places, statement: str, part: str) -> Found:
    escaped = part.replace("/", "//").replace("%", "/%").replace("_", "/_")
    values = {"tenant": places.tenant, "principal": places.principal, "part": escaped}
    # not mode=ro: where no process has the file open, the first reader makes the files beside it
    with closing(sqlite3.connect(f"{places.file and places.file.as_uri()}?mode=rw", uri=True, timeout=WAIT_S)) as file:
        file.execute("PRAGMA query_only = 1")
        rows: Found = file.execute(statement, values).fetchall()
    return [row for row in rows if row[0].startswith(part) or row[0].endswith(part)]  # LIKE of SQLite ignores case


def _of_server(kind: IdKind, part: str, state_dir: Path | None) -> Found:
    from cli.options import ids_with

    return ids_with(kind, part, state_dir)
