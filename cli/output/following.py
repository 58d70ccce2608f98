"""Follow a run to its end on a terminal, or leave it to the workers; Ctrl-C stops the run, or only the following."""

from __future__ import annotations

from collections.abc import Callable

import click

from agents.handle import RunHandle
from agents.runner import Runner
from bus.payloads import EndPayload, Payload, StatusPayload, encode
from cli.output.json import print_json, print_json_line
from cli.output.transcript import EXIT, WAITING, Transcript
from cli.output.wait_reasons import warn_of_no_worker

WAITING_HINT = "  this command waits for the answer; Ctrl-C stops the run, and --no-wait returns instead"


def follow(
    handle: RunHandle,
    *,
    after: int = 0,
    as_json: bool = False,
    is_stoppable: bool,
    no_wait: bool = False,
    answer: Callable[[], bool] | None = None,
    transcript: Transcript | None = None,
) -> int:
    """Print the run's events and return the exit status of its end.

    A wait that the log says before ``after`` is said first, since no event would come of it.
    With ``no_wait``, return as soon as the run waits for an approval, or when ``answer``, which asks the user, returns
    False. The first Ctrl-C cancels a run that ``is_stoppable``; any other ends the following, and the run continues.
    """
    transcript = transcript or Transcript(handle.run_id, still_asked=handle.approvals)
    before = handle.wait_before(after) if after else None
    if before is not None and (_asks(before) or not as_json):
        transcript.take(before)
    while True:
        try:
            for payload in handle.events(after):
                after = payload.seq
                if as_json:
                    print_json_line(encode(payload, handle.run_id, handle.thread_id).decode())
                if not as_json or _asks(payload):  # stdout has the events; the question goes to stderr
                    transcript.take(payload)
                if _asks(payload) and handle.approvals() and not _waits_for_answer(no_wait, answer, is_stoppable):
                    return WAITING
                if isinstance(payload, EndPayload):
                    return EXIT[payload.status]
            return 0  # the cursor was after the end
        except KeyboardInterrupt:
            if not is_stoppable:
                raise
            click.secho("\nstopping the run; Ctrl-C again stops following it", err=True, dim=True)
            handle.cancel(by="terminal")
            is_stoppable = False


def _waits_for_answer(no_wait: bool, answer: Callable[[], bool] | None, is_stoppable: bool) -> bool:
    """Return whether to follow a run that waits for a person, who is asked here if there is an ``answer``."""
    if answer is not None:
        return answer()
    if is_stoppable and not no_wait:
        click.secho(WAITING_HINT, err=True, dim=True)
    return not no_wait


def _asks(payload: Payload) -> bool:
    return isinstance(payload, StatusPayload) and payload.status == "waiting" and payload.reason == "approval"


def print_delivery(handle: RunHandle) -> None:
    """Print, on standard error, which run took the message of a start that made no run of its own."""
    ends = {
        "merged": f"merged into {handle.run_id}, which waits in the thread",
        "steered": f"steers {handle.run_id}: its model gets the text between two steps",
    }
    if handle.delivery.run_id is not None:
        click.secho(f"→ {ends[handle.delivery.delivered]}", err=True, fg="cyan")


SETTLE_S = 3.0
"""How long to wait until a detached run's message is published; after that the relay publishes it."""


def leave_to_workers(runner: Runner, handle: RunHandle, as_json: bool) -> int:
    """Print the id of a detached run, and what it waits for where no worker takes it; returns the exit status."""
    is_published = handle.settle(SETTLE_S)
    queue = runner.journal.readers.runs.row(runner.principal, handle.run_id).queue
    alive, fleet = runner.journal.stores.workers.alive(), runner.journal.stores.workers.serving(queue)
    if as_json:
        delivery = handle.delivery
        facts = {"run_id": handle.run_id, "thread_id": handle.thread_id, "workers": len(fleet)}
        if delivery.run_id is not None:
            facts |= {"delivered": delivery.delivered}
            facts |= {"control_id": delivery.control_id} if delivery.control_id is not None else {}
        print_json(facts, lines=True)
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
