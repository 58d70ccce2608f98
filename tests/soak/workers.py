"""The same kill in a real `celery worker` on a real Redis; another worker, started after it, resumes the run."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import takewhile

from cli.crashlab import attempts, ledger
from cli.crashlab.fork_runner import ChildOutcome
from cli.crashlab.lab import Lab, Undisturbed
from cli.crashlab.places import Place
from cli.crashlab.trial import Trial
from config.failpoints import VARIABLE as FAILPOINTS
from tests.fleet import Worker

OF_A_WORKER = ("claim", "commit", "tool", "summary")
WAITS = "left the run waiting"


def place_for_a_worker(first: Undisturbed, draw: random.Random) -> Place:
    """Return one of the places that a worker passes before a person is needed, who comes later."""
    record = first.record
    has_person = bool(record.approvals) or any(control["kind"] == "pause" for control in record.controls)

    def needs_person(place: Place) -> bool:
        return (has_person and WAITS in place.where) or (place.process > 0 and place.name == "accept-before")

    places = takewhile(lambda place: not needs_person(place), first.places)
    return draw.choice([location for location in places if location.name.split("-")[0] in OF_A_WORKER])


class WorkerLab(Lab):
    """A lab whose lives are worker processes."""

    def begin(self, trial: Trial, location: Place) -> ChildOutcome:
        """Start a worker that will be killed, and give it the run."""
        with self._worker(trial, location.points) as worker:
            accepted = self.fork_runner.run(partial(attempts.accept, trial, ""), self.patience_s)
            if accepted.end != "returned":
                return accepted
            try:
                worker.process.wait(self.patience_s)
            except subprocess.TimeoutExpired:
                return ChildOutcome(end="hung", output="the worker was not killed")
        return ChildOutcome(end="killed")

    def resume(self, trial: Trial, points: str = "") -> ChildOutcome:
        """Start another worker, and answer what the run asks."""
        with self._worker(trial, points):
            return self.fork_runner.run(partial(attempts.answer_questions, trial), self.patience_s)

    @contextmanager
    def _worker(self, trial: Trial, points: str) -> Iterator[Worker]:
        ours = {FAILPOINTS: points, ledger.VARIABLE: str(trial.ledger)}
        os.environ.update(ours)
        try:
            with Worker(trial.settings, "-I", "tests.soak.wrapping", log=trial.settings.state / "worker.log") as worker:
                yield worker
        finally:
            for name in ours:
                del os.environ[name]
