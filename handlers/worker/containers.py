"""Looks for the containers that lost workers of this machine left behind."""

from __future__ import annotations

import asyncio
import logging

from agents.capabilities.runners.lost_containers import remove_lost_containers
from config.engine import engine_of
from config.settings import Settings

log = logging.getLogger(__name__)

EVERY_S = 300.0
"""Seconds between two looks; the first one is at the worker's start."""


async def watch_containers(settings: Settings) -> None:
    """Remove lost containers for as long as the process lives; return at once where containers are off."""
    engine = engine_of(settings.containers)
    while engine is not None:
        try:
            await asyncio.to_thread(remove_lost_containers, engine)
        except Exception:  # the task must survive any error
            log.exception("looking for lost containers failed")
        await asyncio.sleep(EVERY_S)
