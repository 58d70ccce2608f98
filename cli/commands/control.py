"""The commands that request something of an open run, on whatever machine it runs: `cancel`, and each other verb."""

from __future__ import annotations

import click

from bus.journal.clients import CONTROLS, CommitResult, Control
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
    def command(run_id: str, as_json: bool, text: str = "", max_iterations: int = 0, **flags: object) -> int:
        with open_runner(options.apply(**flags)) as runner:
            handle = runner.handle(run_id)
            before = handle.status()
            if control.takes_text:
                written = runner.steer(run_id, text, by="terminal")
            else:
                data = {"max_iterations": max_iterations} if control.takes_limits else None
                written = handle.control(control, by="terminal", data=data)
            if as_json:
                facts = {"run_id": run_id, "status": written.status, "control_id": written.control_id}
                print_json({name: value for name, value in facts.items() if value is not None}, lines=True)
            else:
                click.echo(_sentence(control, written, before))
        return 0

    if control.takes_limits:
        help_text = "Most rounds with tools."
        return click.option("--max-iterations", type=click.IntRange(1, 100_000), required=True, help=help_text)(command)
    return click.argument("text", metavar="TEXT")(command) if control.takes_text else command


def _sentence(control: Control, written: CommitResult, before: str) -> str:
    run_id = written.run_id
    if before in TERMINAL:
        return f"{run_id} had ended already: {before}."
    if control.is_done(written.status):
        return f"{run_id} is {written.status}."
    return f"{run_id} was asked {control.request}; ./callboard watch {run_id} shows its end."
