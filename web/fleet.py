"""The live and starting workers, and which queues they serve: for `/health`, `/ready`, the page and the terminal."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.journal.readers import WaitReason
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """Who executes the runs of the agents now."""

    is_ready: bool
    """Whether a living worker serves a queue in use, or this process executes runs itself."""
    unserved: tuple[str, ...]
    """The queues in use that no living worker serves, the deployment's own first."""


def execution_of(process: WebProcess, fleet: Sequence[Mapping[str, Any]]) -> Execution:
    """Return which queues in use these workers serve.

    Raises:
        DefinitionUnreadable: the agents cannot be read, so their queues are not known.
    """
    from bus.journal.stores import serves  # the first request opens the journal

    queues = _queues_in_use(process)
    unserved = [queue for queue in queues if not any(serves(worker, queue) for worker in fleet)]
    return Execution(
        is_ready=len(unserved) < len(queues) or process.runner.works_inline,
        unserved=tuple(queue or process.settings.queue for queue in unserved),
    )


def _queues_in_use(process: WebProcess) -> list[str | None]:
    """Return the queues that agents use; None is the default one, also used where there is no agent yet."""
    queues = {agent.queue for agent in process.runner.registry.usable()} or {None}
    return sorted(queues, key=lambda queue: queue or "")


def without_worker(state: Path) -> str:
    """Return why runs wait while no worker is alive."""
    starting = workers_starting(state)
    return f"workers are starting (0 of {starting})" if starting else "no worker is alive"


def with_starting(explained: WaitReason, state: Path) -> WaitReason:
    """Return the wait reason; if that is a worker and some are starting, with a sentence about them."""
    if explained.waits_for != "worker" or not workers_starting(state):
        return explained
    return replace(explained, sentence=f"queued; {without_worker(state)}.")
