"""Says while a run is watched that no worker is left to execute it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agents.runner import Runner
from cli.output.wait_reasons import warn_of_no_worker

LOOK_S = 5.0
"""Seconds between two looks; a worker counts as alive for 15 s after its last sign of life."""


@contextmanager
def saying_when_no_worker_is_left(runner: Runner, run_id: str) -> Iterator[None]:
    """Look at once and then every ``LOOK_S`` while the body runs, and say once for each time that no worker is left."""
    over = threading.Event()

    def look() -> None:
        was_left_alone = False
        while not over.is_set():
            is_left_alone = _is_left_alone(runner, run_id)
            if is_left_alone and not was_left_alone:
                warn_of_no_worker(runner.settings.state, "nothing of the run happens until one takes it")
            was_left_alone = is_left_alone
            over.wait(LOOK_S)

    thread = threading.Thread(target=look, name="look for workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LOOK_S)


def _is_left_alone(runner: Runner, run_id: str) -> bool:
    """Whether the run belongs to the workers, does not wait for something else, and none is alive."""
    row = runner.journal.runs.row(runner.principal, run_id)
    return row.detached and row.status in ("queued", "running") and not runner.journal.workers.alive()
