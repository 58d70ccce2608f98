"""`./callboard check`: the checks before each commit, in under 60 seconds."""

from __future__ import annotations

import click

from cli.dev.changed import tests_of_change
from cli.dev.checks import group_of_tests, run_all, static_checks
from cli.main import FAILED, SUCCEEDED


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--fix", is_flag=True, help="Format, and apply the linter's fixes.")
@click.option("--static", is_flag=True, help="Skip the tests.")
@click.option("--changed", is_flag=True, help="Only the tests that the changes against main can affect.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def check(fix: bool, static: bool, changed: bool, pytest_args: tuple[str, ...]) -> int:
    """Check format, lint, import rules and types, and run the unit tests; the rest of the line goes to pytest."""
    checks = static_checks(fix=fix)
    files = (tests_of_change() if changed else None) or ()
    tests = [] if static else [group_of_tests("unit", (*pytest_args, *files))]
    if fix:  # one after another: each writes the files that the next one reads
        is_well = all([run_all(part) for part in (checks, tests) if part])
    else:
        is_well = run_all([*checks, *tests], beside=len(checks) + 1)
    return SUCCEEDED if is_well else FAILED
