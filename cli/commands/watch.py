"""`./callboard watch`: follow a run from its beginning or a cursor, live or after its end."""

from __future__ import annotations

import os
import sys
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
from cli.supervisor import serving
from cli.supervisor.pid_lock import PidLock

LOOK_S = 5.0
"""Seconds between two looks; a worker counts as alive for 15 s after its last sign of life."""


@contextmanager
def saying_when_no_worker_is_left(runner: Runner, run_id: str) -> Iterator[None]:
    """Look at once and then every ``LOOK_S`` while the body runs, and say once for each time that no worker is left."""
    over = threading.Event()
    command = click.get_current_context()

    def look() -> None:
        with command.scope(cleanup=False):  # knows whether colours are wanted
            look_until_over()

    def look_until_over() -> None:
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
@click.argument("run_id", type=options.RUN, metavar="[RUN]", required=False)
@click.option("--after", metavar="CURSOR", help="Start after the event with this number.")
@options.as_json
@options.state_dir
def watch(run_id: str | None, after: str | None, as_json: bool, **flags: object) -> int:
    """Follow RUN to its end; without one, the newest that is no child run. Ctrl-C ends the command, not the run."""
    cursor = parse_cursor(after)
    with open_runner(options.apply(**flags)) as runner:
        run_id = run_id or _newest(runner)
        if run_id is None:
            return 1
        runner.journal.readers.runs.bounds(runner.principal, run_id, cursor)
        with saying_when_no_worker_is_left(runner, run_id):
            return follow(runner.handle(run_id), after=cursor, as_json=as_json, is_stoppable=False)


def _newest(runner: Runner) -> str | None:
    """Return the newest run that is no child run; None, said on standard error, where there is none."""
    newest = runner.journal.readers.runs.newest(runner.principal, is_child=False, limit=1)
    if not newest:
        click.echo('there are no runs yet. Start one: ./callboard run assistant "What is 17 * 23?"', err=True)
        return None
    return str(newest[0]["run_id"])


@click.command("open")
@click.argument("run_id", type=options.RUN, metavar="[RUN]", required=False)
@options.state_dir
def open_page(run_id: str | None, **flags: object) -> int:
    """Print the address of RUN on the page, and open it in a browser where there is one; without RUN the newest's."""
    with open_runner(options.apply(**flags)) as runner:
        run_id = run_id or _newest(runner)
        if run_id is None:
            return 1
        settings = runner.settings
        runner.journal.readers.runs.row(runner.principal, run_id)
    owner = PidLock(settings.state / "up.lock").owner()
    address = settings.public_url or (owner.address if owner is not None else None)
    if address is None:
        raise click.ClickException(
            f"no page is known: no `./callboard up` runs on {settings.state}. Start it, or set CALLBOARD_PUBLIC_URL."
        )
    route = serving.run_route(run_id)
    click.echo(f"{address.rstrip('/')}/#{route}")
    if sys.stdout.isatty() and has_browser():
        serving.open_page(serving.page_address(address.rstrip("/"), settings, route), settings)
    return 0


def has_browser() -> bool:
    """Return whether a browser has a screen to open on; one that takes the terminal is none."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
