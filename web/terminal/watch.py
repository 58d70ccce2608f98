"""`./callboard watch`: follow a run from its beginning or a cursor, live or long after."""

from __future__ import annotations

import click

from bus.journal.reader import check_cursor, parse_cursor
from bus.journal.runs import list_runs, reader_bounds
from bus.journal.who import Who
from web.terminal import options
from web.terminal.following import follow
from web.terminal.opening import open_runner


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--after", metavar="CURSOR", help="Begin behind this event's number.")
@options.as_json
@options.state_dir
def watch(run_id: str | None, after: str | None, as_json: bool, **flags: object) -> int:
    """Follow RUN to its end; without one, the newest run. Ctrl-C ends the looking, not the run."""
    cursor = parse_cursor(after)
    with open_runner(**flags) as runner:
        with runner.journal.read() as connection:
            if run_id is None:
                newest = list_runs(connection, Who(), limit=1)
                if not newest:
                    click.echo(
                        'there are no runs yet. Start one: ./callboard run assistant "What is 17 * 23?"', err=True
                    )
                    return 1
                run_id = str(newest[0]["run_id"])
            _, _, issued = reader_bounds(connection, Who(), run_id)
        check_cursor(cursor, issued)
        return follow(runner.handle(run_id), after=cursor, as_json=as_json, on_interrupt=None)
