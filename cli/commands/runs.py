"""`./callboard runs`: list runs with their state, and what open ones wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from agents.runner import Runner
from bus.journal.readers import STATUSES
from cli import options
from cli.commands.agent_versions import upgrade
from cli.commands.remove import rm_runs
from cli.commands.repeats import export, rerun, retry
from cli.open_runner import open_runner
from cli.options import CommandGroup
from cli.output.durations import lasting
from cli.output.json import print_json
from cli.output.screen import show_live
from cli.output.table import Column, Form, Note, Row, Table
from cli.output.wait_reasons import COLOURS, MARKS, mark_of, print_why, require_known_agent
from config.settings import Settings

_DETAILS = ("url", "statement", "path")
"""The fact that says most of a span, whichever it has."""


def _span(span: Row) -> str:
    """Return a span's name and what it was about, where its name does not say that."""
    name, detail = span.get("name", ""), next((str(span[field])[:300] for field in _DETAILS if field in span), "")
    return name if name.endswith(detail) else f"{name} {detail}"


SPANS = Table(
    "number",
    (
        Column("STEP", "number", is_number=True),
        Column("CALL", "call", worth=90),
        Column("OUTCOME", "outcome", worth=50),
        Column("KIND", "kind", worth=60),
        Column(
            "TOOK", lambda span: f"{span['duration_ms']:,.1f} ms" if "duration_ms" in span else None, is_number=True
        ),
        Column("RESULT", lambda span: span.get("error") or span.get("status"), worth=80),
        Column("SPAN", _span),
    ),
)


@click.command("spans")
@click.argument("run_id", type=options.RUN, metavar="RUN")
@options.listing
@options.state_dir
def spans_of(run_id: str, form: Form, **flags: object) -> int:
    """List the HTTP requests, SQL statements and file operations of a run's calls of models and tools."""
    with open_runner(options.apply(**flags)) as runner:
        calls = runner.journal.readers.runs.spans(runner.principal, run_id)
    if form == "json":
        print_json(calls)
        return 0
    has_spans = any(call["spans"] for call in calls)
    rows = [
        {**span, "number": call["number"], "call": call["name"], "outcome": call["outcome"]}
        for call in calls
        for span in call["spans"] or ([{}] if has_spans and call["kind"] == "tool" else [])
    ]
    SPANS.print(rows, form, empty="no call of the run has spans.")
    return 0


def _title(run: Row) -> str:
    why = f"({run['reason']}) " if run.get("reason") and run["status"] != "succeeded" else ""
    mark = {"high": "↑ ", "low": "↓ "}.get(run["priority"], "") + ("↳ " if "parent_run_id" in run else "")
    return f"{mark}{'⚙ ' if run['kind'] == 'tool' else ''}{why}{run['title']}"


def _took(run: Row) -> str | None:
    return lasting(run["duration_ms"]) if "duration_ms" in run else None


def _work(run: Row) -> str | None:
    return lasting(run["work_ms"]) if "work_ms" in run else None


def _cost(run: Row) -> str | None:
    return f"${run['cost_usd']:.4f}" if "cost_usd" in run else None


def _heading(rows: list[dict[str, Any]]) -> str:
    """Return how many of the runs that are shown are in which state."""
    counts = Counter(run["status"] for run in rows)
    return "  ".join(f"{MARKS[status]} {counts[status]} {status}" for status in STATUSES if counts[status]) or "runs"


RUNS = Table(
    "run_id",
    (
        Column("RUN", "run_id"),
        Column("STATUS", "status", colour=lambda run: COLOURS[mark_of(run)], mark=mark_of),
        Column("AGENT", "agent", worth=90),
        Column("AGE", "created_at", worth=80, is_time=True, is_number=True),
        Column("TOOK", _took, worth=60, is_number=True),
        Column("WORK", _work, is_number=True, is_wide=True),
        Column("COST", _cost, worth=50, is_number=True),
        Column("KIND", "kind", is_wide=True),
        Column("MODEL", "model", is_wide=True),
        Column("OWNER", "principal", is_wide=True),
        Column("QUEUE", "queue", is_wide=True),
        Column("ERROR", "error", is_wide=True),
        Column("THREAD", "thread_id", is_wide=True),
        Column("TITLE", _title),
    ),
)
SORTS = ("newest", "oldest", "longest", "dearest")
NO_RUNS = 'no runs. Start one: ./callboard run assistant "What is 17 * 23?"'
NO_MATCH = "no run matches; leave out the filters (--status, --agent, --since, …) to list all, or add --children."
MEMBERS = {"export": export, "rerun": rerun, "retry": retry, "rm": rm_runs, "spans": spans_of, "upgrade": upgrade}


@click.command(cls=CommandGroup, members=MEMBERS)
@click.option("--status", type=click.Choice(["open", *STATUSES]), help="Only runs in this state.")
@click.option("--agent", type=options.AGENT_OR_WORKFLOW, help="Only runs of this agent or workflow.")
@click.option("--thread", "thread_id", type=options.THREAD, metavar="ID", help="Only runs of this thread.")
@click.option("--owner", metavar="NAME", help="Only runs of this principal.")
@click.option("--since", "since_ms", type=options.MOMENT, help="Only runs accepted then or later; with --code: ended.")
@click.option("--until", "until_ms", type=options.MOMENT, help="Only runs accepted then or earlier.")
@click.option("--search", "text", metavar="WORDS", help="Only runs with these words in their title.")
@click.option("--code", metavar="CODE", help="Only runs that failed with this error; any: all that failed.")
@click.option("--queue", metavar="NAME", help="Only runs for this queue.")
@click.option("--kind", type=click.Choice(["agent", "tool", "workflow"]), help="Only runs of this kind.")
@click.option("--trace", "trace_id", metavar="ID", help="Only runs with this trace id.")
@click.option("--correlation", "correlation_id", metavar="ID", help="Only runs with this correlation id.")
@click.option(
    "--why",
    "why",
    type=options.RUN,
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="Say what each open run waits for, or one run.",
)
@click.option(
    "--decisions",
    "decided_of",
    type=options.RUN,
    metavar="RUN",
    help="What the policy decided about each call of a run.",
)
@click.option("--children", is_flag=True, help="Also child runs; --thread, --trace and --correlation have them anyway.")
@click.option("--sort", type=click.Choice(SORTS), default="newest", show_default=True, help="Which runs come first.")
@click.option("--live", is_flag=True, help="Show the list and its changes until Ctrl-C.")
@click.option("--limit", type=options.WholeNumber(1, 1000), default=20, show_default=True)
@options.listing
@options.state_dir
def runs(
    why: str | None,
    decided_of: str | None,
    children: bool,
    sort: str,
    live: bool,
    limit: int,
    form: Form,
    state_dir: Path | None,
    **words: Any,
) -> int:
    """List the runs that no run has started, newest first; with --why, the open ones and what each waits for."""
    settings = options.apply(state_dir=state_dir)
    if decided_of is not None:
        return print_decisions(settings, decided_of, form)
    if why is not None:
        _require_filters_of_why(words)
        return print_why(settings, why or None, words["agent"], words["thread_id"], limit, form)
    with open_runner(settings) as runner:
        read = partial(_read, runner, words, limit, sort, children=children)
        if live:
            show_live(runner, RUNS, lambda: read()[:limit], form, _heading)
            return 0
        rows = read()
        if not rows and words["agent"] is not None:
            require_known_agent(runner, words["agent"])
    RUNS.print(rows[:limit], form, empty=NO_MATCH if any(words.values()) or sort != "newest" else NO_RUNS)
    if len(rows) > limit:
        more = f"these are the {sort} {limit}; there are more: --limit, --since, --status, --agent, …"
        click.secho(more, err=True, dim=True)
    return 0


def _read(runner: Runner, words: Mapping[str, Any], limit: int, sort: str, *, children: bool) -> list[dict[str, Any]]:
    """Return the first runs that the words select, and one more than the limit where there are more."""
    filters: Any = {**words, "limit": limit + 1, "default_queue": runner.settings.queue}
    if not (children or any(words[name] for name in ("thread_id", "trace_id", "correlation_id"))):
        filters["is_child"] = False
    if sort != "newest":
        return runner.journal.readers.runs.page(runner.principal, order=sort, **filters)[0]
    return runner.journal.readers.runs.newest(runner.principal, **filters)


def _require_filters_of_why(words: Mapping[str, Any]) -> None:
    """Return if nothing selects runs that ``--why`` does not select by."""
    if words["status"] not in (None, "open"):
        raise click.UsageError("--why is about open runs only; leave --status out.")
    if any(value is not None for name, value in words.items() if name not in ("status", "agent", "thread_id")):
        raise click.UsageError("--why selects by --agent and --thread; leave the other filters out.")


_COLOURS = {"constrain": "yellow", "require_approval": "yellow", "block": "red", "halt": "red"}
_PAGE = 1000


def _remarks(decision: Row) -> Iterator[Note]:
    """Yield why it was decided so, who approved, what the run had seen and what another engine said."""
    for words, name in (("", "reason"), ("", "approved"), ("remote engine: ", "remote")):
        if decision.get(name):
            yield f"{words}{decision[name]}", None
    if decision.get("seen"):
        yield f"the run had seen: {', '.join(decision['seen'])}", None


DECISIONS = Table(
    "number",
    (
        Column("STEP", "number", is_number=True),
        Column("POINT", "point", worth=50),
        Column("CALL", "name", worth=95),
        Column("VERDICT", "verdict", colour=lambda decision: _COLOURS.get(decision["verdict"])),
        Column("RULE", "rule"),
    ),
    _remarks,
)


def print_decisions(settings: Settings, run_id: str, form: Form) -> int:
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
    DECISIONS.print(rows, form, empty="the run has made no call yet.")
    return 0
