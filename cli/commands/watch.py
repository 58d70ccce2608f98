"""`./callboard watch`: follow a run from its beginning or a cursor, live or after its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from agents.runner import Runner
from bus.journal.readers import parse_cursor
from cli import options
from cli.open_runner import open_runner
from cli.output.following import follow
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
    row = runner.journal.readers.runs.row(runner.principal, run_id)
    return row.detached and row.status in ("queued", "running") and not runner.journal.stores.workers.alive()


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--after", metavar="CURSOR", help="Start after the event with this number.")
@options.as_json
@options.state_dir
def watch(run_id: str | None, after: str | None, as_json: bool, **flags: object) -> int:
    """Follow RUN to its end; without one, the newest that is no child run. Ctrl-C ends the command, not the run."""
    cursor = parse_cursor(after)
    with open_runner(options.apply(**flags)) as runner:
        if run_id is None:
            newest = runner.journal.readers.runs.newest(runner.principal, is_child=False, limit=1)
            if not newest:
                click.echo('there are no runs yet. Start one: ./callboard run assistant "What is 17 * 23?"', err=True)
                return 1
            run_id = str(newest[0]["run_id"])
        runner.journal.readers.runs.bounds(runner.principal, run_id, cursor)
        with saying_when_no_worker_is_left(runner, run_id):
            return follow(runner.handle(run_id), after=cursor, as_json=as_json, is_stoppable=False)
