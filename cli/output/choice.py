"""A choice typed at a terminal: a number, the decision's word, or nothing for not now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from cli.output.question import label


def choose(meanings: Mapping[str, str]) -> str | None:
    """Show the decisions with what each means, and return the one typed; None where nothing is."""
    for number, (decision, meaning) in enumerate(meanings.items(), 1):
        click.echo(f"  {number}  {click.style(label(decision), bold=True)}  {meaning}", err=True)
    return _chosen(list(meanings))


def prompt(text: str) -> str:
    """Return the line typed; empty where nothing is."""
    return str(click.prompt(text, default="", show_default=False, err=True))


def _chosen(offered: Sequence[str]) -> str | None:
    while text := prompt(f"Your answer, 1 to {len(offered)}, Enter for not now"):
        for number, decision in enumerate(offered, 1):
            if text.strip().lower() in (str(number), decision, label(decision)):
                return decision
        click.echo(f"Not one of the decisions: {', '.join(offered)}.", err=True)
    return None
