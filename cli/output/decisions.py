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
    found: list[dict[str, Any]] = []
    with open_runner(settings) as runner:
        is_more = True
        while is_more:
            after = found[-1]["number"] if found else 0
            page = runner.journal.readers.runs.decisions(runner.principal, run_id, after=after, limit=_PAGE)
            found, is_more = found + page, len(page) == _PAGE
    if as_json:
        print_json(found)
    elif not found:
        click.echo("the run has made no call yet.")
    for one in [] if as_json else found:
        click.echo(_line(one))
    return 0


def _line(one: dict[str, Any]) -> str:
    verdict = click.style(f"{one['verdict']:<16}", fg=_COLOURS.get(one["verdict"]))
    seen = f"  [{', '.join(one['seen'])}]" if one.get("seen") else ""
    reason = f"  {visible(one['reason'])}" if one.get("reason") else ""
    approved = f"  {visible(one['approved'])}" if one.get("approved") else ""
    remote = f"  remote engine: {visible(one['remote'])}" if one.get("remote") else ""
    call = f"{one['number']:>4}  {one['point']:<5}  {visible(one['name']):<24}"
    return f"{call}  {verdict}  {one['rule']}{reason}{approved}{seen}{remote}"
