"""The tool ``sql_query``: one SELECT over a database that the deployment names and the agent's definition allows."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from agents.tools.spans.collector import span_if_collecting, statement_name
from agents.tools.sql.postgres import ask_postgres
from agents.tools.sql.sqlite import SqlAnswer, SqlQuery, ask_sqlite
from agents.tools.tool import FOR_AGENT, Tool, tool
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.effects import SENSITIVE, UNTRUSTED
from config.errors import ToolFailed
from config.redaction import register_secrets, secrets_in_url
from config.settings import ROOT, Settings
from config.text.names import did_you_mean

MAX_NAME = 64
"""Characters of a database's name."""
MAX_SQL = 10_000
"""Characters of the longest query."""
REMEDY = "The operator corrects it: `sqlite:////absolute/path.db` or `postgresql://role:password@host/name`."
_ODD = re.compile("[\0\ud800-\udfff]")


@tool(effect="pure", timeout_s=60, kind="connector", labels={SENSITIVE, UNTRUSTED})  # rows hold what customers wrote
async def sql_query(
    database: Annotated[str, Field(max_length=MAX_NAME)], sql: Annotated[str, Field(max_length=MAX_SQL)]
) -> dict[str, Any]:
    """Query a database with one SELECT statement and get columns and rows. Nothing can be changed.

    Args:
        database: the name of the database.
        sql: one SELECT in the database's own dialect, with a LIMIT where there may be many rows.
    """
    raise ToolFailed("no database can be asked without an agent whose definition lists it under `databases:`.")


def _limited(built: Tool, definition: AgentDefinition, settings: Settings) -> Tool:
    """Return the tool for the agent's databases only: its schema names them, so another name fails before the call.

    Raises:
        DefinitionInvalid: the definition has no databases, or one that the settings do not have.
    """
    names = definition.databases
    if not names:
        problem = "is missing, and the tool sql_query needs it; add the databases that it may ask, `databases: [shop]`."
        raise DefinitionInvalid(definition.file, None, "databases", problem)
    for position, name in enumerate(names):
        if name not in settings.sql_variables:
            all_names = ", ".join(settings.sql_variables) or "none"
            meant = did_you_mean(name, settings.sql_variables)
            problem = f"'{name}' is not in CALLBOARD_SQL_DATABASES.{meant} It has: {all_names}."
            raise DefinitionInvalid(definition.file, None, f"databases[{position}]", problem)

    async def ask_one(database: str, sql: str) -> dict[str, Any]:
        if database not in names:  # the schema says so too
            raise ToolFailed(f"the agent may not ask '{database[:80]}'; its databases: {', '.join(names)}.")
        return await query(database, sql, settings)

    schema = dict(built.parameters)
    properties = schema["properties"]
    schema["properties"] = properties | {"database": properties["database"] | {"enum": list(names)}}
    return dataclasses.replace(built, parameters=schema, function=ask_one)


setattr(sql_query, FOR_AGENT, _limited)


async def query(database: str, sql: str, settings: Settings) -> dict[str, Any]:
    """Return the columns and rows of one SELECT.

    Raises:
        ToolFailed: the query is no text, or the database refused it; see ``ask_sqlite`` and ``ask_postgres``.
        ToolFailed: the database has no address.
    """
    if len(sql) > MAX_SQL:
        raise ToolFailed(f"the query has {len(sql):,} characters and the limit is {MAX_SQL:,}.")
    if not sql.strip() or _ODD.search(sql):
        raise ToolFailed("the query is empty, or has characters that are no text; write one SELECT.")
    request = SqlQuery(database=database, sql=sql, time_s=settings.sql_timeout_s, max_rows=settings.sql_max_rows)
    location = place_of(database, settings)
    facts = {"statement": sql, "database": database, "system": "sqlite" if location.url is None else "postgresql"}
    with span_if_collecting("sql", statement_name(sql), **facts) as open_span:
        answer = await _answered(location, request)
        if open_span is not None:
            open_span.facts["rows"] = len(answer.rows)
    return answer.as_result()


async def _answered(location: SqlPlace, request: SqlQuery) -> SqlAnswer:
    if location.file is not None:
        return await ask_sqlite(location.file, request)
    assert location.url is not None
    return await ask_postgres(location.url, request)


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
    sql_variables = settings.sql_variables
    if name not in sql_variables:
        listing = ", ".join(sorted(sql_variables)) or "none"
        raise ToolFailed(
            f"there is no database '{name[:80]}'.{did_you_mean(name, sql_variables)} The databases are: {listing}."
        )
    variable = sql_variables[name]
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
