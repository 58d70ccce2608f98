"""Leave a detached run to the workers."""

from __future__ import annotations

import click

from agents.handle import RunHandle
from agents.runner import Runner
from cli.output.json import print_json
from cli.output.wait_reasons import warn_of_no_worker

SETTLE_S = 3.0
"""How long to wait until a detached run's message is published; after that the relay publishes it."""


def leave_to_workers(runner: Runner, handle: RunHandle, as_json: bool) -> int:
    """Print the id of a detached run, and what it waits for where no worker takes it; returns the exit status."""
    is_published = handle.settle(SETTLE_S)
    queue = runner.journal.readers.runs.row(runner.principal, handle.run_id).queue
    alive, fleet = runner.journal.stores.workers.alive(), runner.journal.stores.workers.serving(queue)
    if as_json:
        print_json({"run_id": handle.run_id, "thread_id": handle.thread_id, "workers": len(fleet)}, lines=True)
    else:
        click.echo(handle.run_id)
    if alive and not fleet:
        flag = f" --queues {queue}" if queue else ""
        name = f"queue '{queue}'" if queue else "the default queue"
        sentence = f"no worker serves {name}: the run is accepted and waits. Start one: ./callboard worker{flag}"
        click.secho(sentence, err=True, fg="yellow")
    elif not fleet:
        warn_of_no_worker(runner.settings.state, "the run is accepted and waits")
    elif runner.settings.redis_url is None:
        click.secho("no Redis is configured: a worker finds the run when it next polls", err=True, fg="yellow")
    elif not is_published:
        click.secho("Redis does not answer: the relay publishes the run once it does", err=True, fg="yellow")
    return 0
