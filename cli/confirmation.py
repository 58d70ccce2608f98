"""The question of a command before it does what cannot be undone, and the flag that answers it."""

from __future__ import annotations

import sys

import click

yes_flag = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(question: str) -> None:
    """Return when the user says yes.

    Raises:
        click.Abort: the user says no.
        click.UsageError: standard input ended, so there is no user to ask.
    """
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        click.echo(err=True)
        raise click.UsageError("standard input has no answer, so nothing was done; --yes does not ask.") from None
    if not agreed:
        raise click.Abort
