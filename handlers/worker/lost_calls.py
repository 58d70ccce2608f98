"""Looks for what calls left whose worker and guard were killed: their folders and containers on this machine."""

from __future__ import annotations

import asyncio
import logging

from agents.tools.isolation.call_folder import calls_folder, remove_lost_folders
from agents.tools.runners.container import remove_lost_containers
from config.settings import Settings
from config.settings.container_engine import engine_of

log = logging.getLogger(__name__)

EVERY_S = 300.0
"""Seconds between two looks; the first one is at the worker's start."""


async def watch_lost_calls(settings: Settings) -> None:
    """Remove lost folders, and lost containers where they are on, for as long as the process lives."""
    engine = engine_of(settings.containers)
    while True:
        try:
            await asyncio.to_thread(remove_lost_folders, calls_folder(settings.state))
            if engine is not None:
                await asyncio.to_thread(remove_lost_containers, engine)
        except Exception:  # the task must survive any error
            log.exception("looking for what lost calls left failed")
        await asyncio.sleep(EVERY_S)
