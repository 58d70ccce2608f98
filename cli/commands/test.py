"""`./callboard test`: all tests."""

from __future__ import annotations

import click

from cli.devtools.checks import MARKS, group_of_tests, run_all, static_checks, status_of

STATIC = "static"
ONLY_HELP = "Run this part; may be repeated. Without it: all of them, the check first."


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--only", multiple=True, type=click.Choice([STATIC, *MARKS]), help=ONLY_HELP)
@click.option("--retry", is_flag=True, help="Run a failed test once more, alone; if it passes, report it as flaky.")
@click.option("--beside", is_flag=True, help="Run two parts at a time, beside the journeys the others in turn.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test(only: tuple[str, ...], retry: bool, beside: bool, pytest_args: tuple[str, ...]) -> int:
    """Run the check, then parity, journeys, browser and Postgres tests; the rest of the line goes to pytest."""
    looks = static_checks()
    looked = run_all(looks, beside=len(looks)) if not only or STATIC in only else True
    chosen = [group for group in MARKS if not only or group in only]
    if beside:
        chosen.sort(key=lambda group: group != "journeys")  # they take as long as the others together
    groups = [group_of_tests(group, pytest_args, retries=retry, beside=beside) for group in chosen]
    tested = run_all(groups, beside=2 if beside else 1) if groups else True
    return status_of(looked and tested)
