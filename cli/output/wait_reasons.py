"""`./callboard runs --why`: print what each open run waits for."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from agents.runner import Runner
from bus.journal.readers import WaitReason
from cli.open_runner import open_runner
from cli.output.durations import took
from cli.output.json import print_json
from config.clock import epoch_ms
from config.settings import Settings
from config.text.names import did_you_mean
from config.text.visible import visible
from web.doctor.workers import restart_sentence
from web.fleet import with_starting, without_worker, workers_starting

MARKS = {"queued": "○", "running": "●", "waiting": "◐", "succeeded": "✓", "failed": "✕", "cancelled": "■", "dead": "✕"}
COLOURS = {"○": "white", "●": "green", "◐": "yellow", "✓": "green", "✕": "red", "■": "yellow"}


def mark_of(status: str) -> str:
    """Return the coloured mark of a run's state in lists."""
    return click.style(MARKS[status], fg=COLOURS[MARKS[status]])


def print_why(
    settings: Settings, run_id: str | None, agent: str | None, thread_id: str | None, limit: int, as_json: bool
) -> int:
    """Print what open runs wait for; only one of them, or those of an agent or thread, if it is given.

    Raises:
        RunUnknown: there is no run ``run_id``.
    """
    with open_runner(settings) as runner:
        rows = runner.journal.readers.runs.explain(runner.principal, run_id=run_id, agent=agent, thread_id=thread_id)
        if not rows and agent is not None:
            require_known_agent(runner, agent)
        restart = restart_sentence(runner.settings, runner.journal.stores.workers.alive())
        ended = runner.journal.readers.runs.row(runner.principal, run_id) if run_id and not rows else None
    page = [with_starting(row, runner.settings.state) for row in rows[:limit]]
    if as_json:
        print_json([_facts(row) for row in page])
    elif ended is not None:
        reason = f" ({ended.reason})" if ended.reason and ended.status != "succeeded" else ""
        spent = took(max(0, ended.ended_ms - ended.created_ms), ended.work_ms)
        ended_as = f"{ended.status}{reason} after {spent}"
        click.echo(f"{run_id} has ended: {ended_as}; `./callboard watch {run_id}` shows what happened.")
    elif not page:
        click.echo("no run is open.")
    for row in [] if as_json else page:
        click.echo(f"{mark_of(row.status)} {row.run_id}  {row.agent}  {visible(row.title)}  ({_so_far(row)})")
        click.echo(f"    {visible(row.sentence)}")
    if restart and not as_json:
        click.secho(restart.strip(), err=True, fg="yellow")
    return 0


def print_turn(runner: Runner, run_id: str) -> bool:
    """Print behind which run of its thread a run is queued, and what that one waits for, on standard error.

    Returns whether that one waits for a person's answer; False also where the run is not behind another one.
    """
    explain = partial(runner.journal.readers.runs.explain, runner.principal)
    for reason in explain(run_id=run_id):
        if reason.behind is None:
            break
        click.secho(f"○ {visible(reason.sentence)}", err=True, fg="yellow")
        for before in explain(run_id=reason.behind):
            if before.status == "waiting":
                click.secho(f"  {before.run_id} {visible(before.sentence)}", err=True, fg="yellow")
            return before.waits_for == "answer"
    return False


def warn_of_no_worker(state: Path, consequence: str) -> None:
    """Print that no worker is alive, with the remedy unless some are starting."""
    remedy = "" if workers_starting(state) else " Start one: ./callboard up"
    click.secho(f"{without_worker(state)}: {consequence}.{remedy}", err=True, fg="yellow")


def require_known_agent(runner: Runner, agent: str) -> None:
    """Return if the agent has a file or had runs.

    Raises:
        click.UsageError: it has neither; the name is probably misspelt.
    """
    ids = runner.registry.ids()
    if agent not in ids and not runner.journal.readers.runs.newest(runner.principal, agent=agent, limit=1):
        raise click.UsageError(
            f"there is no agent or workflow '{agent[:80]}' and no run of one.{did_you_mean(agent[:80], ids)} "
            "`./callboard agents` and `./callboard workflows` list them."
        )


def _so_far(reason: WaitReason) -> str:
    """Return how long a run is open; the time of work of one that works now is that of its last commit."""
    open_ms = max(0, epoch_ms() - reason.created_ms)
    return f"open for {took(open_ms, reason.work_ms if reason.status != 'running' else None)}"


def _facts(reason: WaitReason) -> dict[str, Any]:
    facts = asdict(reason)
    facts["why"] = facts.pop("sentence")
    return facts
