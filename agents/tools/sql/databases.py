"""Which databases a deployment offers to its agents, and where each one is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from config.errors import ToolFailed
from config.redaction import register_secrets, secrets_in_url
from config.settings import ROOT, Settings
from config.spelling import did_you_mean

REMEDY = "The operator corrects it: `sqlite:////absolute/path.db` or `postgresql://role:password@host/name`."


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlPlace:
    """Where a database is: a file of SQLite, or a URL of libpq."""

    file: Path | None = None
    url: str | None = None


def place_of(name: str, settings: Settings, environment: Mapping[str, str] | None = None) -> SqlPlace:
    """Return where the database of this name is; its password becomes a secret that is redacted from now on.

    Raises:
        ToolFailed: no database has the name, its variable is not set, or has no usable address. The message has
            neither the address nor the folder.
    """
    known = settings.sql_variables
    if name not in known:
        listing = ", ".join(sorted(known)) or "none"
        raise ToolFailed(
            f"there is no database '{name[:80]}'.{did_you_mean(name, known)} The databases are: {listing}."
        )
    variable = known[name]
    address = (os.environ if environment is None else environment).get(variable, "").strip()
    if not address:
        raise ToolFailed(f"database '{name}' has no address: the worker has no variable {variable}. {REMEDY}")
    register_secrets(secrets_in_url(address))
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise ToolFailed(f"the address of database '{name}' in {variable} is no URL. {REMEDY}") from error
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return SqlPlace(file=(ROOT / url.database).resolve())
    if kind == "postgresql":
        return SqlPlace(url=url.set(drivername="postgresql").render_as_string(hide_password=False))
    raise ToolFailed(f"database '{name}' is neither SQLite nor PostgreSQL. {REMEDY}")
