"""Removes containers whose worker and guard are gone: those past the time that their names say."""

from __future__ import annotations

import logging
import subprocess
import time

from agents.tools.isolation.call_folder import is_lost
from agents.tools.runners.container import PREFIX
from config.engine import Engine, engine_variables

log = logging.getLogger(__name__)

ASK_S = 30.0
"""Seconds that the engine may take for an answer."""


def remove_lost_containers(engine: Engine, now_s: float | None = None) -> list[str]:
    """Remove the lost containers of this machine, and return their names; an engine that fails is logged.

    Takes as long as the engine; a container that another worker removes meanwhile is no error.
    """
    now_s = time.time() if now_s is None else now_s
    try:
        lost = [
            name for name in _names(engine) if name.startswith(PREFIX) and is_lost(name.removeprefix(PREFIX), now_s)
        ]
        if lost:
            _ask(engine.removing(*lost))
            log.warning("removed %d containers that lost workers left", len(lost))
        return lost
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("containers that lost workers left could not be looked for: %s", type(error).__name__)
        return []


def _names(engine: Engine) -> list[str]:
    listing = [*engine.command, "ps", "--all", "--filter", f"name={PREFIX}", "--format", "{{.Names}}"]
    return _ask(listing).split()


def _ask(command: list[str]) -> str:
    environment = engine_variables()
    done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False, env=environment)
    return done.stdout
