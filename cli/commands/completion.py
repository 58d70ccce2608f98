"""`./callboard completion`: print what makes a shell complete commands, options, ids and names."""

from __future__ import annotations

import shlex

import click
from click.shell_completion import get_completion_class

from cli.main import COMPLETES, cli
from config.folders import ROOT

NAME = "callboard"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options, ids of runs and threads, agents and workflows."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(_found_anywhere(kind(cli, {}, NAME, COMPLETES).source()), nl=False)


def _found_anywhere(script: str) -> str:
    """Return the script of click asking this checkout, which is on no PATH."""
    program = shlex.quote(str(ROOT / NAME))
    for shell in ("zsh", "fish"):
        script = script.replace(f"={shell}_complete {NAME}", f"={shell}_complete {program}")
        script = script.replace(f"(commandline -t) {NAME})", f"(commandline -t) {program})")
    return script.replace(f"    (( ! $+commands[{NAME}] )) && return 1\n", "")
