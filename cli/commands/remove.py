"""`./callboard runs rm` and `./callboard threads rm`: delete ended runs and threads permanently."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli import options
from cli.open_runner import open_runner
from cli.output.json import print_json
from config.text.visible import visible


@click.command("rm")
@click.argument("run_ids", type=options.RUN, metavar="RUN...", nargs=-1, required=True)
@options.yes
@options.as_json
@options.state_dir
def rm_runs(run_ids: tuple[str, ...], yes: bool, as_json: bool, **flags: object) -> int:
    """Remove ended runs with their logs and steps; their threads keep the messages."""
    with open_runner(options.apply(**flags)) as runner:
        # Do not ask for confirmation of what cannot be removed.
        runner.journal.readers.runs.require_removable(runner.principal, run_ids)
        if not yes:
            options.confirm(f"Remove {_named('run', run_ids)} with log and steps; the thread keeps the messages?")
        runner.journal.readers.runs.remove(runner.principal, run_ids)
    return _say(run_ids, as_json)


@click.command("rm")
@click.argument("thread_ids", type=options.THREAD, metavar="THREAD...", nargs=-1, required=True)
@options.yes
@options.as_json
@options.state_dir
def rm_threads(thread_ids: tuple[str, ...], yes: bool, as_json: bool, **flags: object) -> int:
    """Remove threads with all their messages and runs."""
    with open_runner(options.apply(**flags)) as runner:
        runner.journal.readers.threads.require_removable(runner.principal, thread_ids)
        if not yes:
            options.confirm(f"Remove {_named('thread', thread_ids)} with all messages and runs?")
        runner.journal.readers.threads.remove(runner.principal, thread_ids)
    return _say(thread_ids, as_json)


def _named(kind: str, ids: Sequence[str]) -> str:
    return f"{kind} {visible(ids[0])}" if len(ids) == 1 else f"{len(ids)} {kind}s"


def _say(ids: Sequence[str], as_json: bool) -> int:
    if as_json:
        print_json({"removed": ids}, lines=True)
    else:
        for removed in ids:
            click.echo(f"{visible(removed)} was removed.")
    return 0
