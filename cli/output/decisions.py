"""What the policy decided about the calls of a run, on the terminal."""

from __future__ import annotations

from typing import Any

import click

from cli.open_runner import open_runner
from cli.output.json import print_json
from config.settings import Settings
from config.text.visible import visible

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
        click.echo(_line(row))
    return 0


def _line(row: dict[str, Any]) -> str:
    verdict = click.style(f"{row['verdict']:<16}", fg=_COLOURS.get(row["verdict"]))
    seen = f"  [{', '.join(row['seen'])}]" if row.get("seen") else ""
    reason = f"  {visible(row['reason'])}" if row.get("reason") else ""
    approved = f"  {visible(row['approved'])}" if row.get("approved") else ""
    remote = f"  remote engine: {visible(row['remote'])}" if row.get("remote") else ""
    call = f"{row['number']:>4}  {row['point']:<5}  {visible(row['name']):<24}"
    return f"{call}  {verdict}  {row['rule']}{reason}{approved}{seen}{remote}"
