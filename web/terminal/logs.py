"""`./callboard logs`: what the logger observers of this machine's processes wrote, merged by time."""

from __future__ import annotations

import time
from collections import deque

import click

from observers.logfiles import POLL_S, log_lines
from web.terminal import options
from web.terminal.transcript import safe

TAIL = 10
"""Lines that following all runs begins with, as tail(1) does."""


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on with what is written later.")
@click.option(
    "--lines", "-n", type=click.IntRange(0), metavar="N",
    help=f"Begin with the last N lines; default: all, and {TAIL} with -f and no RUN.",
)  # fmt: skip
@options.state_dir
def logs(run_id: str | None, follow: bool, lines: int | None, **flags: object) -> int:
    """Print the observer log of RUN, or of all runs."""
    folder = options.apply(**flags).state / "logs"
    shown = _Shown(TAIL if lines is None and follow and run_id is None else lines)
    for line in log_lines(folder, run_id, follow=follow, pause=shown.pause):
        shown.take(line.text)
    shown.catch_up()
    if not shown.any:
        what = f"run '{safe(run_id)}'" if run_id else "any run"
        click.echo(f"nothing was logged of {what} in {folder}.", err=True)
    return 0


class _Shown:
    """Prints the last lines of what is there, and then each line as it comes."""

    def __init__(self, lines: int | None) -> None:
        self.any = False
        """Whether there was a line, printed or not."""
        self._held: deque[str] | None = None if lines is None else deque(maxlen=lines)

    def take(self, line: str) -> None:
        """Print a line, or keep it while older ones may have to make way."""
        self.any = True
        if self._held is None:
            click.echo(line)
        else:
            self._held.append(line)

    def catch_up(self) -> None:
        """Print what was kept; everything from here on is printed at once."""
        held, self._held = self._held, None
        for line in held or ():
            click.echo(line)

    def pause(self) -> None:
        """All that is there was read; wait for more."""
        self.catch_up()
        time.sleep(POLL_S)
