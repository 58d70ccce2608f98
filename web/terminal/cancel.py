"""`./callboard cancel`: stop a run, wherever it is."""

from __future__ import annotations

import click

from bus.payloads import TERMINAL
from web.terminal import options
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json


@click.command()
@click.argument("run_id", metavar="RUN")
@options.as_json
@options.state_dir
def cancel(run_id: str, as_json: bool, **flags: object) -> int:
    """Stop RUN. Asked again, or after its end, nothing happens."""
    with open_runner(**flags) as runner:
        handle = runner.handle(run_id)
        before = handle.status()
        stop = handle.cancel(by="terminal")
        if as_json:
            print_json({"run_id": run_id, "status": stop.status}, lines=True)
        elif before in TERMINAL:
            click.echo(f"{run_id} had ended already: {before}.")
        elif stop.status in TERMINAL:
            click.echo(f"{run_id} is {stop.status}.")
        else:
            click.echo(f"{run_id} was told to stop; ./callboard watch {run_id} shows its end.")
    return 0
