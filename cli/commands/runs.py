"""`./callboard runs`: list runs with their state, and what open ones wait for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from bus.journal.readers import STATUSES, RunFilter
from cli import options
from cli.commands.agent_versions import upgrade
from cli.commands.remove import rm_runs
from cli.commands.repeats import export, rerun, retry
from cli.open_runner import open_runner
from cli.options import CommandGroup
from cli.output.durations import took
from cli.output.json import print_json
from cli.output.quoted import INDENT, columns
from cli.output.transcript import fit
from cli.output.wait_reasons import mark_of, print_why, require_known_agent
from config.settings import Settings
from config.text.visible import visible

TITLE_COLUMNS = 30
"""Columns that a title needs beside the facts of its run; on a narrower terminal it stands below them."""


_DETAILS = ("url", "statement", "path")
"""The fact that says most of a span, whichever it has."""


@click.command("spans")
@click.argument("run_id", metavar="RUN")
@options.as_json
@options.state_dir
def spans_of(run_id: str, as_json: bool, **flags: object) -> int:
    """List the HTTP requests, SQL statements and file operations of a run's calls of models and tools."""
    with open_runner(options.apply(**flags)) as runner:
        calls = runner.journal.readers.runs.spans(runner.principal, run_id)
    if as_json:
        print_json(calls)
    elif not any(call["spans"] for call in calls):
        click.echo("no call of the run has spans.")
    else:
        for call in (row for row in calls if row["spans"] or row["kind"] == "tool"):
            click.echo(f"{call['number']:>4}  {visible(call['name'])}  {call['outcome']}")
            for span in call["spans"]:
                click.echo(f"      {_line(span)}")
    return 0


def _line(span: Mapping[str, Any]) -> str:
    took = f"{span['duration_ms']:,.1f} ms" if "duration_ms" in span else ""
    outcome = str(span.get("error") or span.get("status") or "")
    detail = next((str(span[name]) for name in _DETAILS if name in span), "")
    facts = (span.get("kind", ""), span.get("name", ""), outcome, took, " ".join(detail.split())[:300])
    return "  ".join(visible(str(fact)) for fact in facts if fact)


MEMBERS = {"export": export, "rerun": rerun, "retry": retry, "rm": rm_runs, "spans": spans_of, "upgrade": upgrade}


@click.command(cls=CommandGroup, members=MEMBERS)
@click.option("--status", type=click.Choice(["open", *STATUSES]), help="Only runs in this state.")
@click.option("--agent", help="Only runs of this agent or workflow.")
@click.option("--thread", "thread_id", metavar="ID", help="Only runs of this thread.")
@click.option("--trace", "trace_id", metavar="ID", help="Only runs with this trace id.")
@click.option("--correlation", "correlation_id", metavar="ID", help="Only runs with this correlation id.")
@click.option(
    "--why", "why", metavar="[RUN]", is_flag=False, flag_value="", help="Say what each open run waits for, or one run."
)
@click.option("--decisions", "decided_of", metavar="RUN", help="What the policy decided about each call of a run.")
@click.option("--children", is_flag=True, help="Also child runs; --thread, --trace and --correlation have them anyway.")
@click.option("--limit", type=options.WholeNumber(1, 1000), default=20, show_default=True)
@options.as_json
@options.state_dir
def runs(
    status: str | None,
    agent: str | None,
    thread_id: str | None,
    trace_id: str | None,
    correlation_id: str | None,
    why: str | None,
    decided_of: str | None,
    children: bool,
    limit: int,
    as_json: bool,
    **flags: Any,
) -> int:
    """List the runs that no run has started, newest first; with --why, the open ones and what each waits for."""
    if decided_of is not None:
        return print_decisions(options.apply(**flags), decided_of, as_json)
    if why is not None:
        if status not in (None, "open"):
            raise click.UsageError("--why is about open runs only; leave --status out.")
        if trace_id or correlation_id:
            raise click.UsageError("--why selects by --agent and --thread; leave --trace and --correlation out.")
        return print_why(options.apply(**flags), why or None, agent, thread_id, limit, as_json)
    filters: RunFilter = {"status": status, "agent": agent, "thread_id": thread_id}
    filters |= {"trace_id": trace_id, "correlation_id": correlation_id, "limit": limit + 1}
    if not (children or thread_id or trace_id or correlation_id):
        filters["is_child"] = False
    with open_runner(options.apply(**flags)) as runner:
        rows = runner.journal.readers.runs.newest(runner.principal, **filters)
        if not rows and agent is not None:
            require_known_agent(runner, agent)
    rows, is_more = rows[:limit], len(rows) > limit
    if as_json:
        print_json(rows)
    elif not rows and (status or agent or thread_id or trace_id or correlation_id):
        click.echo("no run matches; leave out the filters (--status, --agent, …) to list all, or add --children.")
    elif not rows:
        click.echo('no runs. Start one: ./callboard run assistant "What is 17 * 23?"')
    else:
        _print(rows)
    if is_more:
        more = f"these are the newest {limit}; there are more: --limit, --status, --agent, --thread."
        click.secho(more, err=True, dim=True)
    return 0


def _print(runs_found: list[dict[str, Any]]) -> None:
    width = columns() if sys.stdout.isatty() else 0
    agent_width = max(len(run["agent"]) for run in runs_found)
    took_width = max(len("succeeded"), *(len(_took(run)) for run in runs_found))
    rows = [(run, _facts(run, agent_width, took_width), _title(run)) for run in runs_found]
    is_narrow = 0 < width < max(len(facts) for _, facts, _ in rows) + TITLE_COLUMNS
    for run, facts, title in rows:
        line = f"{mark_of(run['status'])} {facts}"
        if is_narrow:
            click.echo(f"{line.rstrip()}\n{INDENT}{fit(title, width - len(INDENT))}")
        else:
            click.echo(f"{line}{fit(title, width - len(facts) - 2) if width else title}")


def _took(run: dict[str, Any]) -> str:
    return took(run["duration_ms"], run.get("work_ms")) if "duration_ms" in run else str(run["status"])


def _facts(run: dict[str, Any], agent_width: int, took_width: int) -> str:
    cost = f"${run['cost_usd']:.4f}" if "cost_usd" in run else ""
    began = run["created_at"][:16].replace("T", " ")
    return f"{run['run_id']}  {began}  {run['agent']:<{agent_width}}  {_took(run):>{took_width}}  {cost:>8}  "


def _title(run: dict[str, Any]) -> str:
    why = f"  ({run['reason']})" if run.get("reason") and run["status"] != "succeeded" else ""
    mark = {"high": "↑ ", "low": "↓ "}.get(run["priority"], "") + ("↳ " if "parent_run_id" in run else "")
    return f"{mark}{'⚙ ' if run['kind'] == 'tool' else ''}{visible(run['title'])}{why}"


_COLOURS = {"constrain": "yellow", "require_approval": "yellow", "block": "red", "halt": "red"}
_PAGE = 1000


def print_decisions(settings: Settings, run_id: str, as_json: bool) -> int:
    """Print each decision about a call of the run, in order.

    Raises:
        RunUnknown: there is no such run.
    """
    rows: list[dict[str, Any]] = []
    with open_runner(settings) as runner:
        is_more = True
        while is_more:
            after = rows[-1]["number"] if rows else 0
            page = runner.journal.readers.runs.decisions(runner.principal, run_id, after=after, limit=_PAGE)
            rows, is_more = rows + page, len(page) == _PAGE
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("the run has made no call yet.")
    for row in [] if as_json else rows:
        click.echo(_decision_line(row))
    return 0


def _decision_line(row: dict[str, Any]) -> str:
    verdict = click.style(f"{row['verdict']:<16}", fg=_COLOURS.get(row["verdict"]))
    seen = f"  [{', '.join(row['seen'])}]" if row.get("seen") else ""
    reason = f"  {visible(row['reason'])}" if row.get("reason") else ""
    approved = f"  {visible(row['approved'])}" if row.get("approved") else ""
    remote = f"  remote engine: {visible(row['remote'])}" if row.get("remote") else ""
    call = f"{row['number']:>4}  {row['point']:<5}  {visible(row['name']):<24}"
    return f"{call}  {verdict}  {row['rule']}{reason}{approved}{seen}{remote}"
