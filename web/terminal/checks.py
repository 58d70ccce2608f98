"""What `check` and `test` consist of, and how they are run: progress, then a line each, and details of what failed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from config.rooms import ROOMS
from web.terminal.cli import FAILED, ROOT, SUCCEEDED
from web.terminal.progress import Progress, follow
from web.terminal.serving import child_environment, python

NO_TESTS = 5
"""pytest's status when nothing was selected."""
MOST_TEST_PROCESSES = 8
OWN = ("callboard", *ROOMS, "tests")
"""What is looked at: Callboard's own files, and nothing that a user put beside them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that is run and has to end well."""

    name: str
    argv: tuple[str, ...]
    tells: bool = False
    """Whether it is pytest, which tells its progress."""
    may_be_empty: bool = False
    """Whether it is fine that pytest found nothing: the user narrowed the selection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a check ended."""

    check: Check
    status: int
    said: str
    seconds: float
    slowest: tuple[str, ...] = ()
    """Lines on the tests that took longest."""

    @property
    def is_ok(self) -> bool:
        return self.status == 0 or (self.check.may_be_empty and self.status == NO_TESTS)


def static_checks(*, fix: bool = False) -> list[Check]:
    """Return what looks at the code without running it."""
    beside = Path(sys.executable).parent
    ruff, linter = str(beside / "ruff"), str(beside / "lint-imports")
    return [
        Check(name="format", argv=(ruff, "format", "--quiet", *(() if fix else ("--check", "--diff")), *OWN)),
        Check(name="lint", argv=(ruff, "check", "--quiet", *(("--fix",) if fix else ()), *OWN)),
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
    return Check(name=group, argv=argv, tells=True, may_be_empty=bool(extra))


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
    if check.tells:
        status, said, slowest = _run_telling(check)
    else:
        ran = subprocess.run(
            check.argv, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        status, said, slowest = ran.returncode, ran.stdout.rstrip(), ()
    return Outcome(check=check, status=status, said=said, seconds=time.monotonic() - began, slowest=slowest)


def _run_telling(check: Check) -> tuple[int, str, tuple[str, ...]]:
    """Run pytest, show its progress, and return its status, its report and the slowest tests."""
    progress = Progress(name=check.name)
    pipe, told = os.pipe()
    with os.fdopen(pipe) as reading, tempfile.TemporaryFile("w+") as report:
        argv = (*check.argv, "-p", "tests.progress", "--tell", str(told))
        with subprocess.Popen(
            argv, cwd=ROOT, env=_environment(), stdout=report, stderr=subprocess.STDOUT, pass_fds=(told,)
        ) as pytest:
            os.close(told)
            follow(progress, reading.fileno())
        report.seek(0)
        return pytest.returncode, report.read().rstrip(), tuple(progress.slowest())


def _environment() -> dict[str, str]:
    return {**os.environ, **child_environment()}


def _report(outcome: Outcome) -> bool:
    name = outcome.check.name
    verdict = click.style("ok  ", fg="green") if outcome.is_ok else click.style("FAIL", fg="red", bold=True)
    closing = outcome.said.splitlines()[-1] if outcome.check.tells and outcome.said else ""
    if not outcome.is_ok and outcome.said:
        click.echo(outcome.said)
    click.echo(f"{name:<9} {verdict} {outcome.seconds:6.1f} s  {closing}".rstrip())
    for line in outcome.slowest:
        click.echo(line)
    return outcome.is_ok
