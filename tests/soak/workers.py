"""The same kill in a real `celery worker` on a real Redis; another worker, started after it, goes on."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from config.failpoints import VARIABLE as FAILPOINTS
from tests.fleet import Worker
from web.terminal.crashlab import ledger, lives
from web.terminal.crashlab.lab import Lab, Undisturbed
from web.terminal.crashlab.lives import Play
from web.terminal.crashlab.nursery import Life
from web.terminal.crashlab.places import Place

OF_A_WORKER = ("claim", "commit", "tool")


def place_for_a_worker(first: Undisturbed, draw: random.Random) -> Place:
    """Return one of the places a run passes in a worker."""
    return draw.choice([place for place in first.places if place.name.split("-")[0] in OF_A_WORKER])


class WorkerLab(Lab):
    """A lab whose lives are worker processes."""

    def begin(self, play: Play, place: Place, patience_s: float) -> Life:
        """Start a worker that will be killed, and give it the run."""
        with self._worker(play, place.points) as worker:
            accepted = self.nursery.live(partial(lives.accept, play, ""), patience_s)
            if accepted.end != "returned":
                return accepted
            try:
                worker.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                return Life(end="hung", said="the worker was not killed")
        return Life(end="killed")

    def go_on(self, play: Play, patience_s: float, points: str = "") -> Life:
        """Start another worker, and answer what the run asks."""
        with self._worker(play, points):
            return self.nursery.live(partial(lives.attend, play), patience_s)

    @contextmanager
    def _worker(self, play: Play, points: str) -> Iterator[Worker]:
        ours = {FAILPOINTS: points, ledger.VARIABLE: str(play.ledger)}
        os.environ.update(ours)
        try:
            with Worker(play.settings, "-I", "tests.soak.wrapping", log=play.settings.state / "worker.log") as worker:
                yield worker
        finally:
            for name in ours:
                del os.environ[name]
