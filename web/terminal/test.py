"""`./callboard test`: everything."""

from __future__ import annotations

import click

from web.terminal.checks import MARKS, group_of_tests, run_all, static_checks, status_of

STATIC = "static"


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([STATIC, *MARKS]),
    help="Run this part; may be repeated. Without it: all of them, the check first.",
)
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test(only: tuple[str, ...], pytest_args: tuple[str, ...]) -> int:
    """Run the check, then journeys, browser and Postgres tests; the rest of the line goes to pytest."""
    looked = run_all(static_checks(), at_once=True) if not only or STATIC in only else True
    groups = [group_of_tests(group, pytest_args) for group in MARKS if not only or group in only]
    tested = run_all(groups) if groups else True
    return status_of(looked and tested)
