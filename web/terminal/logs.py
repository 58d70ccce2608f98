"""`./callboard logs`: what the logger observers of this machine's processes wrote, merged by time."""

from __future__ import annotations

import click

from observers.logfiles import log_lines
from web.terminal import options


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on with what is written later.")
@options.state_dir
def logs(run_id: str | None, follow: bool, **flags: object) -> int:
    """Print the observer log of RUN, or of all runs."""
    settings = options.apply(**flags)
    folder = settings.state / "logs"
    found = False
    for line in log_lines(folder, run_id, follow=follow):
        found = True
        click.echo(line.text)
    if not found:
        what = f"run '{run_id}'" if run_id else "any run"
        click.echo(f"nothing was logged of {what} in {folder}.", err=True)
    return 0
