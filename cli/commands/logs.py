"""`./callboard logs`: print the logger observer's files of this machine, merged by time."""

from __future__ import annotations

import time
from collections import deque

import click

from cli import options
from config.database.migrate import require_installation
from config.settings import Settings
from config.text.visible import visible
from observers.logfile.reader import POLL_S, log_lines

TAIL = 10
"""Lines shown before following all runs, as tail(1) does."""
LINES_HELP = f"Start with the last N lines; default: all, or {TAIL} with -f and no RUN."


@click.command()
@click.argument("run_id", type=options.RUN, metavar="[RUN]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Keep printing lines as they are written.")
@click.option("--lines", "-n", type=options.WholeNumber(0), metavar="N", help=LINES_HELP)
@options.state_dir
def logs(run_id: str | None, follow: bool, lines: int | None, **flags: object) -> int:
    """Print the observer log of RUN, or of all runs."""
    settings = options.apply(**flags)
    folder = settings.state / "logs"
    if settings.database_url is None and not folder.is_dir():
        require_installation(settings)
    if run_id is not None and next(log_lines(folder, run_id), None) is None and not _is_known(run_id, settings):
        what = f"nothing was logged of run '{visible(run_id)}' in {folder}, and there is no run of that id"
        click.echo(f"error: {what}; `./callboard runs` lists the runs.", err=True)
        return 1
    tail = _Shown(TAIL if lines is None and follow and run_id is None else lines)
    line = None
    for line in log_lines(folder, run_id, follow=follow, pause=tail.pause):
        tail.take(line.text)
    tail.catch_up()
    if line is None:
        what = f"run '{visible(run_id)}'" if run_id else "any run"
        click.echo(f"nothing was logged of {what} in {folder}.", err=True)
    return 0


def _is_known(run_id: str, settings: Settings) -> bool:
    """Return whether the database has the run: its lines may be on another machine, or not written yet."""
    from bus.journal.errors import RunUnknown  # the journal and its libraries, which reading files does not need
    from cli.open_runner import open_runner

    try:
        with open_runner(settings) as runner:
            runner.handle(run_id)
    except RunUnknown:
        return False
    return True


class _Shown:
    """Prints the last existing lines, then each new line."""

    def __init__(self, lines: int | None) -> None:
        self._held: deque[str] | None = None if lines is None else deque(maxlen=lines)

    def take(self, line: str) -> None:
        """Print a line; before ``catch_up``, keep the last lines instead."""
        if self._held is None:
            click.echo(line)
        else:
            self._held.append(line)

    def catch_up(self) -> None:
        """Print the kept lines; later lines are printed at once."""
        held, self._held = self._held, None
        for line in held or ():
            click.echo(line)

    def pause(self) -> None:
        """Catch up and wait; called when every existing line was read."""
        self.catch_up()
        time.sleep(POLL_S)
