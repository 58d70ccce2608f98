"""`./callboard check`: what has to hold before each commit, in under 90 seconds."""

from __future__ import annotations

import click

from web.terminal.checks import group_of_tests, run_all, static_checks, status_of


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--fix", is_flag=True, help="Format, and mend what the linter can.")
@click.option("--static", is_flag=True, help="Leave out the tests.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def check(fix: bool, static: bool, pytest_args: tuple[str, ...]) -> int:
    """Check format, lint, import rules and types, then run the unit tests; the rest of the line goes to pytest."""
    looked = run_all(static_checks(fix=fix), at_once=not fix)
    tested = static or run_all([group_of_tests("unit", pytest_args)])
    return status_of(looked and tested)
