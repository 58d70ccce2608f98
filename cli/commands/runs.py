"""`./callboard runs`: what is on, what waits, what ended and how."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from bus.journal.runs import STATUSES, list_runs
from bus.journal.who import Who
from web.terminal import options
from web.terminal.family import Family
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json
from web.terminal.removing import rm_runs
from web.terminal.transcript import fit, safe
from web.terminal.whys import MARKS, print_why


@click.command(cls=Family, members={"rm": rm_runs})
@click.option("--status", type=click.Choice(["open", *STATUSES]), help="Only these.")
@click.option("--agent", help="Only runs of this agent.")
@click.option("--thread", "thread_id", metavar="ID", help="Only runs of this thread.")
@click.option("--why", "is_why", is_flag=True, help="Say what each open run waits for.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@options.as_json
@options.state_dir
def runs(
    status: str | None, agent: str | None, thread_id: str | None, is_why: bool, limit: int, as_json: bool,
    **flags: object,
) -> int:  # fmt: skip
    """List the runs, the newest first; with --why, the open ones, the oldest first, and what each waits for."""
    if is_why:
        if status not in (None, "open"):
            raise click.UsageError("--why is about open runs only; leave --status out.")
        return print_why(agent, thread_id, limit, as_json, **flags)
    with open_runner(**flags) as runner, runner.journal.read() as connection:
        found = list_runs(connection, Who(), status=status, agent=agent, thread_id=thread_id, limit=limit + 1)
    found, is_more = found[:limit], len(found) > limit
    if as_json:
        print_json(found)
    elif not found and (status or agent or thread_id):
        click.echo("no such runs; without --status, --agent and --thread all are listed.")
    elif not found:
        click.echo('no runs. Start one: ./callboard run assistant "What is 17 * 23?"')
    else:
        _print(found)
    if is_more:
        click.secho(
            f"these are the newest {limit}; there are more: --limit, --status, --agent, --thread.", err=True, dim=True
        )
    return 0


def _print(found: list[dict[str, Any]]) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    agent_width = max(len(run["agent"]) for run in found)
    for run in found:
        mark, colour = MARKS[run["status"]]
        took = f"{run['duration_ms'] / 1000:.1f} s" if "duration_ms" in run else run["status"]
        cost = f"${run['cost_usd']:.4f}" if "cost_usd" in run else ""
        began = run["created_at"][5:16].replace("T", " ")
        facts = f"{run['run_id']}  {began}  {run['agent']:<{agent_width}}  {took:>9}  {cost:>8}  "
        why = f"  ({run['reason']})" if run.get("reason") and run["status"] != "succeeded" else ""
        click.echo(f"{click.style(mark, fg=colour)} {facts}{fit(safe(run['title']) + why, width - len(facts) - 2)}")
