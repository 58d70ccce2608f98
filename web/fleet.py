"""How many workers there are and how many are still to come, for `/health`, the page and the terminal."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

START_UP_S = 90.0
"""Seconds after which a worker that was not heard of is no longer called starting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """The workers of a deployment."""

    alive: int
    """Workers heard of within the last 15 seconds."""
    starting: int
    """Workers that an `up` on this state folder starts and that were not heard of yet."""

    def words(self) -> str:
        """Return why no run is taken while no worker is alive."""
        if self.starting:
            return f"workers are starting ({self.alive} of {self.alive + self.starting})"
        return "no worker is alive"


def fleet_of(state: Path, alive: int) -> Fleet:
    """Return the fleet of which ``alive`` workers were heard."""
    return Fleet(alive=alive, starting=max(0, _expected(state / "up.lock") - alive))


def _expected(lock: Path) -> int:
    """Return how many workers an `up` keeps that began a moment ago; 0 when there is none."""
    try:
        if time.time() - lock.stat().st_mtime > START_UP_S:
            return 0
        owner = json.loads(lock.read_text())
        os.kill(int(owner["pid"]), 0)
        return int(owner["workers"])
    except (OSError, ValueError, KeyError, TypeError):  # no `up`, one that ended, or one of an older release
        return 0
