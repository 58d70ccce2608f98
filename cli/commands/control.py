"""The commands that request something of an open run, on whatever machine it runs: `cancel`, and each other verb."""

from __future__ import annotations

import click

from bus.journal.clients import CONTROLS
from bus.payloads import TERMINAL
from cli import options
from cli.open_runner import open_runner
from cli.output.json import print_json


def __getattr__(verb: str) -> click.Command:
    """Return the command of a verb, by which ``COMMANDS`` names it."""
    if verb not in CONTROLS:
        raise AttributeError(verb)
    control = CONTROLS[verb]

    @click.command(verb, help=control.help)
    @click.argument("run_id", metavar="RUN")
    @options.as_json
    @options.state_dir
    def command(run_id: str, as_json: bool, **flags: object) -> int:
        with open_runner(options.apply(**flags)) as runner:
            handle = runner.handle(run_id)
            before = handle.status()
            now = handle.control(control, by="terminal").status
            if as_json:
                print_json({"run_id": run_id, "status": now}, lines=True)
            elif before in TERMINAL:
                click.echo(f"{run_id} had ended already: {before}.")
            elif control.is_done(now):
                click.echo(f"{run_id} is {now}.")
            else:
                click.echo(f"{run_id} was asked {control.request}; ./callboard watch {run_id} shows its end.")
        return 0

    return command
