"""`./callboard runs rerun`, `runs retry` and `runs export`: repeat a run, retry some, or write one for a test."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import click

from agents.recording.export import export_run
from agents.recording.recording import written
from agents.runner import Runner
from bus.journal.clients import Mode, Origin
from cli import options
from cli.main import CallerPath
from cli.open_runner import open_runner
from cli.output.json import print_json
from config.clock import epoch_ms, stamp
from config.private_files import open_private
from config.text.visible import visible

MOST = 1000
"""Runs that one command retries."""
UNITS = {"m": 60, "h": 3600, "d": 86400}
RETRIED = ("failed", "cancelled", "dead")


class Ago(click.ParamType[str]):
    """A time as ``30m``, ``2h`` or ``3d`` ago; returned as lists of runs write times."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        match = re.fullmatch(r"([0-9]{1,4})([mhd])", str(value))
        if match is None:
            self.fail(f"'{str(value)[:40]}' is no time ago; write minutes, hours or days: 30m, 2h, 3d.", param, ctx)
        return stamp(epoch_ms() - int(match[1]) * UNITS[match[2]] * 1000)


live = click.option("--live", is_flag=True, help="Make calls again that are recorded, after the usual approvals.")


@click.command("rerun")
@click.argument("run_id", type=options.RUN, metavar="RUN")
@click.option(
    "--from-step",
    metavar="N",
    type=options.WholeNumber(1, 2**31 - 1),
    required=True,
    help="The first step that is made anew; `runs --decisions RUN` lists the steps.",
)
@live
@options.as_json
@options.state_dir
def rerun(run_id: str, from_step: int, live: bool, as_json: bool, **flags: object) -> int:
    """Repeat a run from a step on, in a fork of its thread; a worker executes it."""
    origin = Origin(run_id=run_id, kind="rerun", from_step=from_step, mode="live" if live else "recorded")
    with open_runner(options.apply(**flags)) as runner:
        handle = runner.repeat(origin, runner.principal, detached=True)
    if as_json:
        print_json({"run_id": handle.run_id, "thread_id": handle.thread_id, "rerun_of": run_id})
    else:
        click.echo(f"{handle.run_id} repeats {visible(run_id)} from step {from_step}, in thread {handle.thread_id}.")
        click.echo(f"Follow it: ./callboard watch {handle.run_id}")
    return 0


@click.command("retry")
@click.argument("run_ids", type=options.RUN, metavar="[RUN]...", nargs=-1)
@click.option("--status", type=click.Choice(RETRIED), help="All runs in this state that were not retried yet.")
@click.option("--agent", help="With --status: only runs of this agent or workflow.")
@click.option(
    "--since", metavar="30m|2h|3d", type=Ago(), help="With --status: only runs that ended so long ago at most."
)
@click.option("--from-failed", is_flag=True, help="Of a workflow: the failed nodes and what follows; the default.")
@click.option(
    "--failed-items", is_flag=True, help="Of a workflow: only the failed items of FOR_EACH, and what follows."
)
@live
@options.yes
@options.as_json
@options.state_dir
def retry(
    run_ids: tuple[str, ...],
    status: str | None,
    agent: str | None,
    since: str | None,
    from_failed: bool,
    failed_items: bool,
    live: bool,
    yes: bool,
    as_json: bool,
    **flags: object,
) -> int:
    """Retry runs of yours that did not succeed, each as the next run of its thread; workers execute them."""
    if bool(run_ids) == (status is not None):
        raise click.UsageError("name the runs, or select them with --status.")
    if status is None and (agent or since):
        raise click.UsageError("--agent and --since go with --status.")
    if from_failed and failed_items:
        raise click.UsageError("--failed-items makes less again than --from-failed; keep one of both.")
    with open_runner(options.apply(**flags)) as runner:
        rows = [runner.journal.readers.runs.get(runner.principal, run_id) for run_id in dict.fromkeys(run_ids)]
        if status is not None:
            rows = _selected(runner, status, agent, since)
        if len(rows) > 1 or status is not None:
            _ask(rows, yes=yes)
        mode: Mode = "live" if live else "recorded"
        retries = []
        for row in rows:
            origin = Origin(run_id=row["run_id"], kind="retry", mode=mode, items_only=failed_items)
            run_id = runner.repeat(origin, runner.principal, detached=True).run_id
            retries.append({"run_id": run_id, "retry_of": row["run_id"]})
            if not as_json:  # at once: a later one may be refused
                click.echo(f"{run_id} retries {row['run_id']}")
    if as_json:
        print_json(retries)
    return 0


@click.command("export")
@click.argument("run_id", type=options.RUN, metavar="RUN")
@click.option("-o", "--output", type=CallerPath(dir_okay=False), help="The file to write; default: standard output.")
@options.state_dir
def export(run_id: str, output: Path | None, **flags: object) -> int:
    """Write a run that has ended to one file, which a test replays offline; it has prompts and texts of the run."""
    with open_runner(options.apply(**flags)) as runner:
        recording = export_run(runner, runner.principal, run_id)
    text = written(recording)
    if output is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    else:
        _write(output, text)
        calls, answers = len(recording.outcomes), len(recording.answers)
        click.echo(f"{output}: answers: {answers}, outcomes of calls: {calls}. Replay it: docs/testing.md", err=True)
    rebuilt = [str(number) for number, answer in enumerate(recording.answers, 1) if not answer.exact]
    if rebuilt:
        click.echo(
            f"warning: request {', '.join(rebuilt)} is what would be sent today; the agent's tools, the conversation "
            "or Callboard have changed since the run.",
            err=True,
        )
    return 0


def _write(output: Path, text: bytes) -> None:
    """Write the file, which only its owner may read, and the folders that are missing above it.

    Raises:
        click.ClickException: it cannot be written.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_private(output, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(text)
    except OSError as error:
        sentence = f"{output} cannot be written: {error.strerror}. Name another file with --output."
        raise click.ClickException(visible(sentence)) from error


def _selected(runner: Runner, status: str, agent: str | None, since: str | None) -> list[dict[str, Any]]:
    """Return the principal's own runs in this state that no run is a retry of, the newest first."""
    owner = runner.principal.id
    rows = runner.journal.readers.runs.newest(
        runner.principal, status=status, agent=agent, owner=owner, limit=MOST, is_retried=False
    )
    return [row for row in rows if since is None or row["ended_at"] >= since]


def _ask(rows: list[dict[str, Any]], *, yes: bool) -> None:
    """Show the runs with what was seen of them, and return when the user agrees to retry them."""
    for row in rows:
        click.echo(f"{row['run_id']}  {row['agent']}  {row['status']}  {visible(row['title'])}", err=True)
        notes = [str(row["error"])] if "error" in row else []
        notes += [", ".join(f"{name}: {fact}" for name, fact in crash.items()) for crash in row.get("crashes", ())]
        for note in notes:
            click.echo(f"    {visible(note)}", err=True)
    if rows and not yes:
        options.confirm(f"Retry {len(rows)} {'run' if len(rows) == 1 else 'runs'}?")
    if not rows:
        click.echo("no run to retry.", err=True)
