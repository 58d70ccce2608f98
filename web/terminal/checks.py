"""What `check` and `test` consist of, and how they are run: quietly, one line each, details when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from web.terminal.cli import FAILED, ROOT, SUCCEEDED
from web.terminal.serving import child_environment, python

NO_TESTS = 5
"""pytest's status when nothing was selected."""
MOST_TEST_PROCESSES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that is run and has to end well."""

    name: str
    argv: tuple[str, ...]
    may_be_empty: bool = False
    """Whether it is fine that pytest found nothing: the user narrowed the selection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a check ended."""

    check: Check
    status: int
    said: str
    seconds: float

    @property
    def is_ok(self) -> bool:
        return self.status == 0 or (self.check.may_be_empty and self.status == NO_TESTS)


def static_checks(*, fix: bool = False) -> list[Check]:
    """Return what looks at the code without running it."""
    beside = Path(sys.executable).parent
    ruff, linter = str(beside / "ruff"), str(beside / "lint-imports")
    return [
        Check(name="format", argv=(ruff, "format", "--quiet", *(() if fix else ("--check", "--diff")), ".")),
        Check(name="lint", argv=(ruff, "check", "--quiet", *(("--fix",) if fix else ()), ".")),
        Check(name="imports", argv=(linter,)),
        Check(name="types", argv=(*python("mypy"), "--no-error-summary")),
    ]


MARKS = {
    "unit": "not journey and not browser and not postgres",
    "journeys": "journey and not browser and not postgres",
    "browser": "browser",
    "postgres": "postgres",
}
"""Group of tests -> pytest's expression for it."""


def group_of_tests(group: str, extra: Sequence[str]) -> Check:
    """Return one group of tests; ``extra`` goes to pytest as it stands."""
    argv = (*python("pytest"), "-q", "-m", MARKS[group], *_spread(group), *extra)
    return Check(name=group, argv=argv, may_be_empty=bool(extra))


def _spread(group: str) -> tuple[str, ...]:
    """Return over how many processes a group is spread."""
    cores = os.cpu_count() or 1
    if group == "unit":
        return ("-n", str(min(cores, MOST_TEST_PROCESSES)))
    # Journeys start processes of their own and wait for them half of the time: more than two at once would be late
    # for each other's sake. Those of a file share what they started.
    return ("-n", str(min(cores, 2)), "--dist", "load" if group == "browser" else "loadfile")


def run_all(checks: Sequence[Check], *, at_once: bool = False) -> bool:
    """Run the checks, print a line for each as it ends, and return whether all are well."""
    with ThreadPoolExecutor(max_workers=len(checks) if at_once else 1) as pool:
        return all([_report(outcome) for outcome in pool.map(_run, checks)])


def status_of(all_well: bool) -> int:
    """Return the exit status for the result of ``run_all``."""
    return SUCCEEDED if all_well else FAILED


def _run(check: Check) -> Outcome:
    began = time.monotonic()
    environment = {**os.environ, **child_environment()}
    ran = subprocess.run(check.argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    said = "\n".join(part.rstrip() for part in (ran.stdout, ran.stderr) if part.strip())
    return Outcome(check=check, status=ran.returncode, said=said, seconds=time.monotonic() - began)


def _report(outcome: Outcome) -> bool:
    name = outcome.check.name
    verdict = click.style("ok  ", fg="green") if outcome.is_ok else click.style("FAIL", fg="red", bold=True)
    closing = outcome.said.splitlines()[-1] if name in MARKS and outcome.said else ""
    if not outcome.is_ok and outcome.said:
        click.echo(outcome.said)
    click.echo(f"{name:<9} {verdict} {outcome.seconds:6.1f} s  {closing}".rstrip())
    return outcome.is_ok
