"""`./callboard runs spans`: what the calls of models and tools of a run did over HTTP, in databases and with files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli import options
from cli.opening import open_runner
from cli.output.json import print_json
from config.visible import visible

_DETAILS = ("url", "statement", "path")
"""The fact that says most of a span, whichever it has."""


@click.command("spans")
@click.argument("run_id", metavar="RUN")
@options.as_json
@options.state_dir
def spans_of(run_id: str, as_json: bool, **flags: object) -> int:
    """List the HTTP requests, SQL statements and file operations of a run's calls of models and tools."""
    with open_runner(options.apply(**flags)) as runner:
        calls = runner.journal.runs.spans(runner.principal, run_id)
    if as_json:
        print_json(calls)
    elif not any(call["spans"] for call in calls):
        click.echo("no call of the run has spans.")
    else:
        for call in (one for one in calls if one["spans"] or one["kind"] == "tool"):
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
