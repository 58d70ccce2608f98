"""A tool that logs on its own thread, as tools of users do."""

from __future__ import annotations

import logging

from agents.tools import tool

log = logging.getLogger("shop")


@tool(effect="pure")
def note() -> str:
    """Note something in the log."""
    log.info("a tool noted something")
    return "noted"
