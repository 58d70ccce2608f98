"""`./callboard runs rm` and `./callboard threads rm`: away with what is over, for good."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from bus.journal.removal import remove_runs, remove_threads, require_over, require_quiet
from bus.journal.who import Who
from web.terminal import options
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json
from web.terminal.transcript import safe

unasked = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.command("rm")
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@unasked
@options.as_json
@options.state_dir
def rm_runs(run_ids: tuple[str, ...], yes: bool, as_json: bool, **flags: object) -> int:
    """Remove ended runs with their logs and steps; what was said stays in their threads."""
    with open_runner(**flags) as runner:
        with runner.journal.read() as connection:  # nobody is asked about what cannot be
            require_over(connection, Who(), run_ids)
        _ask(yes, f"{_named('run', run_ids)}, log and steps; what was said stays in the thread")
        remove_runs(runner.journal.database, Who(), run_ids)
    return _say(run_ids, as_json)


@click.command("rm")
@click.argument("thread_ids", metavar="THREAD...", nargs=-1, required=True)
@unasked
@options.as_json
@options.state_dir
def rm_threads(thread_ids: tuple[str, ...], yes: bool, as_json: bool, **flags: object) -> int:
    """Remove threads with all that was said in them, and their runs."""
    with open_runner(**flags) as runner:
        with runner.journal.read() as connection:
            require_quiet(connection, Who(), thread_ids)
        _ask(yes, f"{_named('thread', thread_ids)}, all that was said and every run")
        remove_threads(runner.journal.database, Who(), thread_ids)
    return _say(thread_ids, as_json)


def _ask(is_unasked: bool, what: str) -> None:
    """Return when somebody agrees; what is removed does not come back."""
    if not is_unasked:
        agree(f"Remove {what}?")


def agree(question: str) -> None:
    """Return when somebody says yes; where nobody is there to ask, the command was wrong."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        click.echo(err=True)
        raise click.UsageError("nobody is there to answer, so nothing was done; --yes does not ask.") from None
    if not agreed:
        raise click.Abort


def _named(kind: str, ids: Sequence[str]) -> str:
    return f"{kind} {safe(ids[0])}" if len(ids) == 1 else f"{len(ids)} {kind}s"


def _say(ids: Sequence[str], as_json: bool) -> int:
    if as_json:
        print_json({"removed": ids}, lines=True)
    else:
        for removed in ids:
            click.echo(f"{safe(removed)} is removed.")
    return 0
