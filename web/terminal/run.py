"""`./callboard run`: give an agent a sentence, here and now, or leave it to the fleet."""

from __future__ import annotations

import contextlib
import sys

import click

from agents.handle import RunHandle
from agents.runner import Runner
from bus.journal import workers
from web.fleet import fleet_of
from web.terminal import options
from web.terminal.following import follow
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json

SETTLE_S = 3.0
"""How long a detached run's wake-up is waited for; after that the outbox has it."""


@click.command()
@click.argument("agent")
@click.argument("text", required=False)
@click.option("--thread", "thread_id", metavar="ID", help="Go on talking in this thread, or begin one of this name.")
@click.option("--detach", is_flag=True, help="Leave the run to the fleet, print its id and return.")
@click.option("--no-wait", is_flag=True, help="Return with status 3 once the run waits for a person.")
@options.as_json
@options.state_dir
def run(
    agent: str, text: str | None, thread_id: str | None, detach: bool, no_wait: bool, as_json: bool, **flags: object
) -> int:
    """Give AGENT a sentence. Without TEXT it is read from standard input.

    The answer goes to standard output, what happens around it to standard error. Ctrl-C stops the run.
    """
    objective = _objective(text)
    if not detach and not as_json and sys.stderr.isatty():
        click.secho("starting …", err=True, dim=True)  # LiteLLM takes seconds to import
    with open_runner(**flags) as runner:
        handle = runner.run(objective, agent, thread_id=thread_id, detached=detach)
        if detach:
            return _leave(runner, handle, as_json)
        if not as_json and sys.stderr.isatty():  # who sees this process die has what to ask for
            click.secho(f"{handle.run_id} · Ctrl-C stops it", err=True, dim=True)
        status = follow(handle, as_json=as_json, on_interrupt=lambda: _stop(handle), no_wait=no_wait)
        with contextlib.suppress(TimeoutError):  # the run has ended; what is still importing may be left
            runner.settle(5.0)
        if not as_json and status == 0 and sys.stderr.isatty():
            click.secho(f'  go on: ./callboard run {agent} --thread {handle.thread_id} "…"', err=True, dim=True)
        return status


def _stop(handle: RunHandle) -> None:
    handle.cancel(by="terminal")


def _objective(text: str | None) -> str:
    if text is not None and text != "-":
        return text
    if text is None and sys.stdin.isatty():
        raise click.UsageError('what should the agent do? Give it a sentence: run AGENT "…", or pipe one in.')
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as wrong:
        raise click.UsageError(
            f"what came in on standard input is not text in UTF-8 (byte {wrong.start + 1:,}); turn it into text first."
        ) from wrong


def _leave(runner: Runner, handle: RunHandle, as_json: bool) -> int:
    told = handle.settle(SETTLE_S)
    with runner.journal.read() as connection:
        fleet = workers.alive(runner.journal.database, connection)
    if as_json:
        print_json({"run_id": handle.run_id, "thread_id": handle.thread_id, "workers": len(fleet)}, lines=True)
    else:
        click.echo(handle.run_id)
    if not fleet:
        coming = fleet_of(runner.settings.state, alive=0)
        remedy = "" if coming.starting else " Start one: ./callboard up"
        click.secho(f"{coming.words()}: the run is accepted and waits.{remedy}", err=True, fg="yellow")
    elif runner.settings.redis_url is None:
        click.secho("no Redis is known here: a worker finds the run by itself, a little later", err=True, fg="yellow")
    elif not told:
        click.secho("Redis does not answer: the wake-up is sent once it does", err=True, fg="yellow")
    return 0
