"""Checks of what workers ask besides models: the governance engine, and the databases of ``sql_query``."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

from agents.tools.sql.query import query
from cli.doctor.finding import Verdicts, fail, ok, warn
from config.errors import CallboardError
from config.settings import Settings

CONNECT_S = 2.0
_PORTS = {"http": 80, "https": 443}


def check_governance(settings: Settings) -> Verdicts:
    """Yield whether the engine accepts connections; no event is sent. Nothing is said where there is none."""
    if settings.governance_url is None:
        return
    parts = urlsplit(settings.governance_url)
    address = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443)
    if settings.governance_api_key is None:
        yield warn("CALLBOARD_GOVERNANCE_API_KEY is not set, so that the engine cannot know who asks")
    try:
        socket.create_connection(address, CONNECT_S).close()
    except OSError as error:
        yield fail(
            f"{address[0]}:{address[1]} accepts no connection ({error.strerror or type(error).__name__}): "
            f"{_MEANS[settings.governance_policy]} without it. Start the engine, or correct CALLBOARD_GOVERNANCE_URL."
        )
    else:
        yield ok(f"{address[0]}:{address[1]} accepts connections; {_MEANS[settings.governance_policy]} without it")


_MEANS = {
    "by_effect": "calls with an effect are not made",
    "fail_open": "every call is made",
    "fail_closed": "no call is made",
}


def check_sql_databases(settings: Settings) -> Verdicts:
    """Yield whether each database answers to a role that only reads; nothing where there is none."""
    for name in settings.sql_variables:
        try:
            asyncio.run(query(name, "SELECT 1 AS one", settings))
        except CallboardError as error:
            yield fail(f"{name}: {error}")
        else:
            yield ok(f"{name}: answers, and can only be read")
