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
from cli.output.durations import lasting, took
from cli.output.table import Column, Form, Row, Table
from config.clock import epoch_ms
from config.settings import Settings
from config.text.names import did_you_mean
from config.text.visible import visible
from web.doctor.workers import restart_sentence
from web.fleet import with_starting, without_worker, workers_starting

MARKS = {"queued": "○", "running": "●", "waiting": "◐", "succeeded": "✓", "failed": "✕", "cancelled": "■", "dead": "✕"}
COLOURS = {"○": "white", "●": "green", "◐": "yellow", "✓": "green", "✕": "red", "■": "yellow"}


def mark_of(run: Row) -> str:
    """Return the mark of a run's state in lists."""
    return MARKS[run["status"]]


def _work(run: Row) -> str | None:
    """Return the time of work; of a run that works now it would be that of its last commit."""
    is_known = run["work_ms"] is not None and run["status"] != "running"
    return lasting(run["work_ms"]) if is_known else None


WHY = Table(
    "run_id",
    (
        Column("RUN", "run_id"),
        Column("STATUS", "status", colour=lambda run: COLOURS[mark_of(run)], mark=mark_of),
        Column("AGENT", "agent", worth=90),
        Column("OPEN FOR", lambda run: lasting(max(0, epoch_ms() - run["created_ms"])), worth=60, is_number=True),
        Column("AT WORK", _work, worth=50, is_number=True),
        Column("THREAD", "thread_id", is_wide=True),
        Column("TITLE", "title"),
    ),
    notes=lambda run: [(run["why"], None)],
)


def print_why(
    settings: Settings, run_id: str | None, agent: str | None, thread_id: str | None, limit: int, form: Form
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
    if ended is not None and form != "json":
        reason = f" ({ended.reason})" if ended.reason and ended.status != "succeeded" else ""
        spent = took(max(0, ended.ended_ms - ended.created_ms), ended.work_ms)
        ended_as = f"{ended.status}{reason} after {spent}"
        click.echo(f"{run_id} has ended: {ended_as}; `./callboard watch {run_id}` shows what happened.")
    else:
        WHY.print([_facts(row) for row in page], form, empty="no run is open.")
    if restart and form != "json":
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


def _facts(reason: WaitReason) -> dict[str, Any]:
    facts = asdict(reason)
    facts["why"] = facts.pop("sentence")
    return facts
