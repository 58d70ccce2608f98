"""The number of live and starting workers, for `/health`, the page and the terminal."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from config.identity.principal import Principal

if TYPE_CHECKING:
    from bus.journal import WaitReason
    from web.process import WebProcess

START_UP_S = 90.0
"""Seconds after which a worker without a heartbeat no longer counts as starting."""


def workers_starting(state: Path, alive: int = 0) -> int:
    """Return how many workers a recently started `up` is starting on this state folder besides the live ones."""
    lock = state / "up.lock"
    try:
        if time.time() - lock.stat().st_mtime > START_UP_S:
            return 0
        owner = json.loads(lock.read_text())
        os.kill(int(owner["pid"]), 0)
        return max(0, int(owner["workers"]) - alive)
    except (OSError, ValueError, KeyError, TypeError):  # no `up`, one that ended, or one of an older release
        return 0


def unserved_queues(process: WebProcess, principal: Principal) -> list[str]:
    """Return the queues of a principal's agents that no living worker serves, the deployment's own first."""
    agents = process.runner.registry.seen_by(principal)
    named = sorted({one.queue for one in agents if one.queue is not None})
    default = [None] if any(one.queue is None for one in agents) else []
    return [queue or process.settings.queue for queue in process.journal.workers.unserved([*default, *named])]


def without_worker(state: Path) -> str:
    """Return why runs wait while no worker is alive."""
    starting = workers_starting(state)
    return f"workers are starting (0 of {starting})" if starting else "no worker is alive"


def with_starting(explained: WaitReason, state: Path) -> WaitReason:
    """Return the wait reason; if that is a worker and some are starting, with a sentence about them."""
    if explained.waits_for != "worker" or not workers_starting(state):
        return explained
    return replace(explained, sentence=f"queued; {without_worker(state)}.")
