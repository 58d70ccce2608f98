"""`./callboard watch`: follow a run from its beginning or a cursor, live or after its end."""

from __future__ import annotations

import click

from bus.journal import parse_cursor
from cli import options
from cli.opening import open_runner
from cli.output.following import follow
from cli.output.without_worker import saying_when_no_worker_is_left


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--after", metavar="CURSOR", help="Start after the event with this number.")
@options.as_json
@options.state_dir
def watch(run_id: str | None, after: str | None, as_json: bool, **flags: object) -> int:
    """Follow RUN to its end; without one, the newest run. Ctrl-C ends the command, not the run."""
    cursor = parse_cursor(after)
    with open_runner(options.apply(**flags)) as runner:
        if run_id is None:
            newest = runner.journal.runs.newest(runner.principal, limit=1)
            if not newest:
                click.echo('there are no runs yet. Start one: ./callboard run assistant "What is 17 * 23?"', err=True)
                return 1
            run_id = str(newest[0]["run_id"])
        runner.journal.runs.bounds(runner.principal, run_id, cursor)
        with saying_when_no_worker_is_left(runner, run_id):
            return follow(runner.handle(run_id), after=cursor, as_json=as_json, is_stoppable=False)
