"""`./callboard completion`: print what makes a shell complete commands, options, ids and names."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from cli.main import COMPLETES, cli
from config.folders import ROOT

NAME = "callboard"
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False, metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> None:
    """Print what makes a shell complete commands, options, ids of runs and threads, agents and workflows.

    Without a name it is the shell that SHELL names.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        own = "./callboard completion"
        raise click.UsageError(f"name your shell: `{own} bash`, `{own} zsh` or `{own} fish`.")
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
