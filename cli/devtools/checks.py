"""What `check` and `test` consist of, and how they are run: progress, then a line each, and details of what failed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import click

from cli.devtools.progress import GroupProgress, follow
from cli.main import SUCCEEDED
from cli.supervisor.serving import child_environment, python
from config.folders import FOLDERS, ROOT

NO_TESTS = 5
"""pytest's status when nothing was selected."""
TESTS_FAILED = 1
"""pytest's status when it ran all tests and some failed."""
MOST_TEST_PROCESSES = 8
MEMORY = Path("/dev/shm")
LEAST_MEMORY_BYTES = 4_000_000_000
MOST_RETRIED = 3
"""More failures than these in one group are not chance; none of them is retried."""
OWN = ("callboard", *FOLDERS, "clients", "docs", "tests")
"""What is looked at: Callboard's own files, and nothing that a user put beside them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that is run and has to end well."""

    name: str
    argv: tuple[str, ...]
    reports_progress: bool = False
    """Whether it is pytest, which reports its progress."""
    may_be_empty: bool = False
    """Whether it is fine that pytest found nothing: the user narrowed the selection."""
    retries: bool = False
    """Whether tests that failed run once more, alone."""


@dataclass(kw_only=True, slots=True)
class Outcome:
    """How a check ended."""

    check: Check
    status: int = SUCCEEDED
    output: str = ""
    seconds: float = 0.0
    slowest: Sequence[str] = ()
    """Lines on the tests that took longest."""
    flaky: Sequence[str] = ()
    """Tests that failed and then passed alone; ``output`` has the first failure."""

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
    "unit": "not parity and not journey and not browser and not postgres",
    "parity": "parity and not journey and not browser and not postgres",
    "journeys": "journey and not browser and not postgres",
    "browser": "browser",
    "postgres": "postgres",
}
"""Group of tests -> pytest's expression for it."""
LONGEST_FIRST = ("journeys", "browser", "postgres", "parity", "unit")
"""The order in which groups begin where they run beside each other."""
BESIDE = 3
"""Groups that run at the same time then: they wait half of the time, for leases, pauses and answers."""
FORKED = ("unit",)
"""Groups whose processes are forks of one that has imported the tests."""
TEST_FOLDERS = {"tests/browser": ("browser",), "tests/journeys": ("journeys", "postgres")}
"""Folder -> the groups of all its tests; other groups leave it out, since importing its tests takes time."""


def group_of_tests(group: str, extra: Sequence[str], *, retries: bool = False, beside: bool = False) -> Check:
    """Return one group of tests; ``extra``, such as files of tests, goes to pytest as it stands.

    Unit tests are never retried: no other process can delay them, so a failure is a defect. ``beside``: other groups
    run at the same time.
    """
    left_out = (f"--ignore={folder}" for folder, groups in TEST_FOLDERS.items() if group not in groups)
    program = "tests.preforked" if group in FORKED else "pytest"
    argv = (*python(program), "-q", "-m", MARKS[group], *left_out, *_spread(group, beside), *extra)
    is_retried = retries and group != "unit"
    return Check(name=group, argv=argv, reports_progress=True, may_be_empty=bool(extra), retries=is_retried)


def soak_of(minutes: float) -> Check:
    """Return a soak of so many minutes."""
    return Check(name="soak", argv=(*python("cli"), "soak", "--minutes", f"{minutes:g}"))


def _spread(group: str, beside: bool) -> tuple[str, ...]:
    """Return over how many processes a group is spread, and how."""
    cores = min(os.cpu_count() or 1, MOST_TEST_PROCESSES)
    if group == "journeys":
        # Journeys start processes of their own and wait for them more than half of the time, so that two a processor
        # keep it busy; more at once would be late for each other's sake. By themselves they are run on a developer's
        # machine, where others work. Those of a file share what they started; those that take longest begin first.
        return ("-n", str(min(cores, 2) * (2 if beside else 1)), "--dist", "loadfile", "--no-loadscope-reorder")
    if group == "unit" and not beside:
        # One more than the processors: a third of these tests' time they wait, for timeouts and other threads. Each
        # process begins with a run of neighbours, which share what their module has set up.
        return ("-n", str(min(cores + 1, MOST_TEST_PROCESSES)), "--dist", "worksteal")
    most = 2 if group in ("browser", "postgres") else MOST_TEST_PROCESSES
    # A browser uses a processor by itself; the tests of the other groups wait half of the time.
    count = min(max(1, cores // 2) if beside and group == "browser" else cores, most)
    if group == "postgres":  # among them journeys of half a minute, which begin first
        return ("-n", str(count), "--dist", "loadfile", "--no-loadscope-reorder")
    return ("-n", str(count), "--dist", "load")


def run_all(checks: Sequence[Check], *, beside: int = 1) -> bool:
    """Run so many of the checks beside each other, print a line for each as it ends and one with the total.

    Return whether all are well.
    """
    began, before_s = time.monotonic(), _children_cpu_s()
    with ThreadPoolExecutor(max_workers=beside) as pool:
        is_well = all([_report(ran.result()) for ran in as_completed([pool.submit(_run, check) for check in checks])])
    click.echo(f"in all {time.monotonic() - began:11.1f} s  {_children_cpu_s() - before_s:.0f} s of CPU")
    return is_well


def _children_cpu_s() -> float:
    """Return what processes that this one started and that ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(check: Check) -> Outcome:
    began = time.monotonic()
    outcome = Outcome(check=check)
    if check.reports_progress:
        _run_tests(outcome)
    else:
        ran = subprocess.run(check.argv, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
        outcome.status, outcome.output = ran.returncode, (ran.stdout + ran.stderr).rstrip()
    outcome.seconds = time.monotonic() - began
    return outcome


def _run_tests(outcome: Outcome) -> None:
    """Run a group of tests, and those that failed once more, alone, if the check says so."""
    check, progress = outcome.check, GroupProgress(name=outcome.check.name)
    with tempfile.TemporaryDirectory(prefix="cb", dir=_memory()) as folder:
        os.chmod(folder, 0o711)  # Postgres runs as a user of its own
        argv = (*check.argv, "-o", f"cache_dir={folder}/.cache", f"--basetemp={folder}/t")  # short, for unix sockets
        outcome.status, outcome.output = _run_pytest(argv, progress, folder)
        if check.retries and outcome.status == TESTS_FAILED and len(progress.failed) <= MOST_RETRIED:
            alone = (*argv, "--last-failed", "-n", "0")
            outcome.status, again = _run_pytest(alone, GroupProgress(name=f"{check.name} again"), folder)
            if outcome.status == SUCCEEDED:
                outcome.flaky = progress.failed
            else:
                outcome.output += f"\n\nonce more, alone:\n{again}"
    outcome.slowest = progress.slowest()


def _memory() -> Path | None:
    """Return a folder in memory for what tests write, or None; a disk takes milliseconds for each of their commits."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    shared = os.statvfs(MEMORY)
    is_enough = shared.f_bavail * shared.f_frsize >= LEAST_MEMORY_BYTES and not shared.f_flag & os.ST_NOEXEC
    return MEMORY if is_enough else None


def _run_pytest(argv: Sequence[str], progress: GroupProgress, folder: str) -> tuple[int, str]:
    """Run pytest, show its progress, and return its status and its report; tests write into ``folder``."""
    pipe, write_end = os.pipe()
    with os.fdopen(pipe) as reading, tempfile.TemporaryFile("w+") as report:
        argv = (*argv, "-p", "tests.progress", "--tell", str(write_end))
        with subprocess.Popen(
            argv,
            cwd=ROOT,
            env=_environment(TMPDIR=folder),
            stdout=report,
            stderr=subprocess.STDOUT,
            pass_fds=(write_end,),
        ) as pytest:
            os.close(write_end)
            follow(progress, reading.fileno())
        report.seek(0)
        return pytest.returncode, report.read().rstrip()


def _environment(**extra: str) -> dict[str, str]:
    """Return this environment and ``extra``; in it, Python keeps what it compiled.

    Compiling anew is half of collecting the tests and a quarter of starting a worker, in each of hundreds of processes.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return child_environment(kept, **extra)


def _report(outcome: Outcome) -> bool:
    name = outcome.check.name
    verdict = click.style("ok  ", fg="green") if outcome.is_ok else click.style("FAIL", fg="red", bold=True)
    has_closing = outcome.output and (outcome.is_ok or outcome.check.reports_progress)
    closing = outcome.output.splitlines()[-1] if has_closing else ""
    if outcome.output and (outcome.flaky or not outcome.is_ok):
        click.echo(outcome.output)
    click.echo(f"{name:<9} {verdict} {outcome.seconds:6.1f} s  {closing}".rstrip())
    for test in outcome.flaky:
        click.secho(f"    FLAKY  {test} failed once and passed alone: find out why", fg="yellow")
    for line in outcome.slowest:
        click.echo(line)
    return outcome.is_ok
