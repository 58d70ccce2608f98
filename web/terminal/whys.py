"""`./callboard runs --why`: one sentence for each open run, about what it waits for."""

from __future__ import annotations

from dataclasses import asdict

import click

from bus.journal.who import Who
from bus.journal.why import Why, why
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json
from web.terminal.transcript import safe

MARKS = {
    "queued": ("○", "white"), "running": ("●", "green"), "waiting": ("◐", "yellow"), "succeeded": ("✓", "green"),
    "failed": ("✕", "red"), "cancelled": ("■", "yellow"), "dead": ("✕", "red"),
}  # fmt: skip
"""How a run's state is drawn in lists."""


def print_why(agent: str | None, thread_id: str | None, limit: int, as_json: bool, **flags: object) -> int:
    """Print what the open runs wait for, those of one agent or thread where one is named."""
    with open_runner(**flags) as runner, runner.journal.read() as connection:
        found = why(connection, runner.journal.database, Who(), agent=agent, thread_id=thread_id)
    wanted = found[:limit]
    if as_json:
        print_json([_facts(one) for one in wanted])
    elif not wanted:
        click.echo("no run is open.")
    for one in [] if as_json else wanted:
        mark, colour = MARKS[one.status]
        click.echo(f"{click.style(mark, fg=colour)} {one.run_id}  {one.agent}  {safe(one.title)}")
        click.echo(f"    {safe(one.sentence)}")
    return 0


def _facts(one: Why) -> dict[str, str]:
    facts = asdict(one)
    facts["why"] = facts.pop("sentence")
    return facts
