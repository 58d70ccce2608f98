"""The warm-up of a worker: imports and first uses that the first run would otherwise wait for."""

from __future__ import annotations

import asyncio
import logging
import os

from agents.compatibility import try_load
from agents.models.lite import is_imported
from agents.models.warm_up import needs_litellm, warm_up
from agents.process import Process
from config.errors import CallboardError
from observers.discovery import observers_for

log = logging.getLogger(__name__)

IMPORTS_S = 20.0
"""Seconds that a starting worker waits for the imports of its agents' tools."""


def prepare(process: Process) -> bool:
    """Import LiteLLM where an agent needs it, and each agent's tools; return whether LiteLLM was imported."""
    imports_litellm = is_imported() or needs_litellm(process.registry, os.environ)
    if imports_litellm:
        warm_up(process.journal.loop)
    process.journal.loop.run(rehearse(process), timeout_s=60)
    return imports_litellm


async def rehearse(process: Process) -> None:
    """Warm up: import tools, find observers, and claim a run that does not exist, so that the first run is fast."""
    journal = process.journal
    loading = [asyncio.create_task(_try_agent(process, agent_id)) for agent_id in process.registry.ids()]
    if loading:  # a module whose import hangs delays its own agent's runs, not the worker
        await asyncio.wait(loading, timeout=IMPORTS_S)
    await journal.loop.read(observers_for, ("sse", "logger") if process.settings.builtins else (), process.settings)
    await journal.claim("run_that_does_not_exist")
    await journal.hot_log.read_after("run_that_does_not_exist", 0)


async def _try_agent(process: Process, agent_id: str) -> None:
    loaded = await process.journal.loop.read(try_load, process, agent_id)
    if isinstance(loaded, CallboardError):
        log.warning("agent cannot be used: %s", loaded)
