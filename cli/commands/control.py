"""The commands that request something of an open run, on whatever machine it runs: `cancel`, and each other verb."""

from __future__ import annotations

from typing import Any

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
    @click.argument("run_id", type=options.RUN, metavar="RUN")
    @options.as_json
    @options.state_dir
    def command(
        run_id: str,
        as_json: bool,
        text: str = "",
        max_iterations: int | None = None,
        priority: str | None = None,
        name: str = "",
        content: Any = None,
        **flags: object,
    ) -> int:
        limits = {"max_iterations": max_iterations, "priority": priority}
        data = {name: value for name, value in limits.items() if value is not None}
        if control.takes_limits and not data:
            raise click.UsageError("name what to set: --max-iterations, --priority or both.")
        with open_runner(options.apply(**flags)) as runner:
            handle = runner.handle(run_id)
            before = handle.status()
            if control.takes_text:
                written = runner.steer(run_id, text, by="terminal")
            elif control.takes_signal:
                written = runner.signal(run_id, name, content, by="terminal")
            else:
                written = handle.control(control, by="terminal", data=data or None)
        _print(control, written, before, as_json=as_json)
        return 0

    return _with_fields(control, command)


def _with_fields(control: Control, command: click.Command) -> click.Command:
    """Return the command with the arguments and options of its verb."""
    if control.takes_limits:
        limit = click.option("--max-iterations", type=click.IntRange(1, 100_000), help="Most rounds with tools.")
        return limit(options.priority(command))
    if control.takes_signal:
        content = click.argument("content", metavar="[JSON]", type=options.JsonValue(), required=False)
        return content(click.argument("name", metavar="NAME")(command))
    return click.argument("text", metavar="TEXT")(command) if control.takes_text else command


def _print(control: Control, written: CommitResult, before: str, *, as_json: bool) -> None:
    """Print what became of a control; ``before``: the run's status then."""
    if not as_json:
        click.echo(_sentence(control, written, before))
        return
    facts: dict[str, object] = {"run_id": written.run_id, "status": written.status}
    facts |= {"control_id": written.control_id, "number": written.number}
    print_json({name: value for name, value in facts.items() if value is not None}, lines=True)


def _sentence(control: Control, written: CommitResult, before: str) -> str:
    run_id = written.run_id
    if before in TERMINAL:
        return f"{run_id} had ended already: {before}."
    if control.takes_limits and written.events:
        return f"{run_id} is changed."
    if control.is_done(written.status):
        return f"{run_id} is {written.status}."
    return f"{run_id} was asked {control.request}; ./callboard watch {run_id} shows its end."
