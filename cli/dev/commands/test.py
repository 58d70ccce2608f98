"""`./callboard test`: all tests."""

from __future__ import annotations

import click

from cli.dev.checks import BESIDE, LONGEST_FIRST, MARKS, group_of_tests, run_all, soak_of, static_checks
from cli.main import FAILED, SUCCEEDED

STATIC = "static"
ONLY_HELP = "Run this part; may be repeated. Without it: all of them, the check first."


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--only", multiple=True, type=click.Choice([STATIC, *MARKS]), help=ONLY_HELP)
@click.option("--retry", is_flag=True, help="Run a failed test once more, alone; if it passes, report it as flaky.")
@click.option("--beside", is_flag=True, help=f"Run {BESIDE} parts at a time, those that take longest first.")
@click.option("--soak", type=click.FloatRange(0.5), metavar="MINUTES", help="At the end, soak for so long.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test(only: tuple[str, ...], retry: bool, beside: bool, soak: float | None, pytest_args: tuple[str, ...]) -> int:
    """Run the check, then parity, journeys, browser and Postgres tests; the rest of the line goes to pytest."""
    looks = static_checks()
    looked = run_all(looks, beside=len(looks)) if not only or STATIC in only else True
    chosen = [group for group in MARKS if not only or group in only]
    if beside:
        chosen.sort(key=LONGEST_FIRST.index)
    groups = [group_of_tests(group, pytest_args, retries=retry, beside=beside) for group in chosen]
    groups += [soak_of(soak)] if soak is not None else []
    tested = run_all(groups, beside=BESIDE if beside else 1) if groups else True
    return SUCCEEDED if looked and tested else FAILED
