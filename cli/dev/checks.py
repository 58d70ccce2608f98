"""What `check` and `test` consist of, and how they are run: progress, then a line each, and details of what failed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import click

from cli.dev.own_files import LANDMARK, OwnFiles, copied, own_files, temporary_folder
from cli.dev.progress import GroupProgress, follow
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
MOST_NAMED = 5
"""Files that are not looked at, of which the names are said."""
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
    writes: bool = False
    """Whether it changes files of the checkout; others run in a copy."""


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
    own = tuple(name for name in own_files().kept if name.endswith(".py") or name == LANDMARK) if fix else OWN
    formats, mends = ((), ("--fix",)) if fix else (("--check", "--diff"), ())
    return [
        Check(name="format", argv=(ruff, "format", "--quiet", *formats, *own), writes=fix),
        Check(name="lint", argv=(ruff, "check", "--quiet", *mends, *own), writes=fix),
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
LONGEST_FIRST = ("journeys", "parity", "browser", "postgres", "unit")
"""The order in which groups begin where they run beside each other: on two cores they take 17, 13, 9 and 5 minutes."""
BESIDE = 2
"""Groups that run at the same time then: journeys, which wait half of the time, and the others one after the other.
With a third group tests failed that pass alone."""
TEST_FOLDERS = {"tests/browser": ("browser",), "tests/journeys": ("journeys", "postgres")}
"""Folder -> the groups of all its tests; other groups leave it out, since importing its tests takes time."""


def group_of_tests(group: str, extra: Sequence[str], *, retries: bool = False, beside: bool = False) -> Check:
    """Return one group of tests; ``extra``, such as files of tests, goes to pytest.

    Its processes are forks of one that has imported the tests. That takes two to eight seconds of CPU, twice as much in
    the copy, where the tests are not compiled yet, and each process of pytest-xdist would do it for itself.

    Unit tests are never retried: no other process can delay them, so a failure is a defect. ``beside``: other groups
    run at the same time.
    """
    left_out = (f"--ignore={folder}" for folder, groups in TEST_FOLDERS.items() if group not in groups)
    chosen = ("-m", MARKS[group], *left_out, *_spread(group, beside), *_in_any_copy(extra))
    argv = (*python("tests.preforked"), "-q", *chosen)
    is_retried = retries and group != "unit"
    return Check(name=group, argv=argv, reports_progress=True, may_be_empty=bool(extra), retries=is_retried)


def _in_any_copy(words: Sequence[str]) -> Iterator[str]:
    """Yield the words; the path of a test in the checkout becomes that of the same test in the folder where it runs."""
    yield from (word.removeprefix(f"{ROOT}{os.sep}") for word in words)


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

    They run in a copy of Callboard's own files. Return whether all are well.
    """
    began, before_s = time.monotonic(), _children_cpu_s()
    own = own_files()
    _tell_of_others(own)
    with copied(own, _memory()) as copy, ThreadPoolExecutor(max_workers=beside) as pool:
        running = [pool.submit(_run, check, ROOT if check.writes else copy) for check in checks]
        is_well = all([_report(ran.result()) for ran in as_completed(running)])
    click.echo(f"in all {time.monotonic() - began:11.1f} s  {_children_cpu_s() - before_s:.0f} s of CPU")
    return is_well


def _tell_of_others(own: OwnFiles) -> None:
    """Say which files are not looked at, since a developer may have meant some of them."""
    if not own.is_tracked:
        click.secho("git does not tell Callboard's own files here, so that those of config/ are looked at as they are.")
    elif own.others:
        names = ", ".join(own.others[:MOST_NAMED]) + (", ..." if len(own.others) > MOST_NAMED else "")
        click.secho(
            f"left out, since they are not staged in git: {names} (`git add` what is Callboard's own)", dim=True
        )


def _children_cpu_s() -> float:
    """Return what processes that this one started and that ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(check: Check, folder: Path) -> Outcome:
    began = time.monotonic()
    outcome = Outcome(check=check)
    if check.reports_progress:
        _run_tests(outcome, folder)
    else:
        environment = _environment(folder)
        ran = subprocess.run(check.argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        outcome.status, outcome.output = ran.returncode, (ran.stdout + ran.stderr).rstrip()
    outcome.seconds = time.monotonic() - began
    return outcome


def _run_tests(outcome: Outcome, copy: Path) -> None:
    """Run a group of the copy's tests, and those that failed once more, alone, if the check says so."""
    check, progress = outcome.check, GroupProgress(name=outcome.check.name)
    with temporary_folder(_memory()) as folder:
        os.chmod(folder, 0o711)  # Postgres runs as a user of its own
        argv = (*check.argv, "-o", f"cache_dir={folder}/.cache", f"--basetemp={folder}/t")  # short, for unix sockets
        outcome.status, outcome.output = _run_pytest(argv, progress, copy, folder)
        if check.retries and outcome.status == TESTS_FAILED and len(progress.failed) <= MOST_RETRIED:
            alone = (*argv, "--last-failed", "-n", "0")
            outcome.status, again = _run_pytest(alone, GroupProgress(name=f"{check.name} again"), copy, folder)
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


def _run_pytest(argv: Sequence[str], progress: GroupProgress, copy: Path, folder: str) -> tuple[int, str]:
    """Run pytest in the copy, show its progress, and return its status and report; tests write into ``folder``."""
    pipe, write_end = os.pipe()
    with os.fdopen(pipe) as reading, tempfile.TemporaryFile("w+") as report:
        argv = (*argv, "-p", "tests.progress", "--tell", str(write_end))
        with subprocess.Popen(
            argv,
            cwd=copy,
            env=_environment(copy, TMPDIR=folder),
            stdout=report,
            stderr=subprocess.STDOUT,
            pass_fds=(write_end,),
        ) as pytest:
            os.close(write_end)
            follow(progress, reading.fileno())
        report.seek(0)
        return pytest.returncode, report.read().rstrip()


def _environment(copy: Path, **extra: str) -> dict[str, str]:
    """Return this environment and ``extra``; in it, Python imports the copy and keeps what it compiled.

    Compiling anew is half of collecting the tests and a quarter of starting a worker, in each of hundreds of processes.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = child_environment(variables, **extra)
    paths = environment["PYTHONPATH"].split(os.pathsep)
    return environment | {"PYTHONPATH": os.pathsep.join(str(copy) if path == str(ROOT) else path for path in paths)}


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
