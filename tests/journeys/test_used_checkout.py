"""A checkout that is used: its user's files, packages, settings and `up` fail neither the checks nor the tests.

All tests are collected there, and a sample of each group is run; `python -m tests.used_checkout` runs all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cli.dev.checks import MARKS, MEMORY
from config.folders import ROOT
from tests.journeys.neighbour import until
from tests.used_checkout import FILES, UsedCheckout

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

SAMPLES = {
    "unit": """
        tests/config/definitions/test_dotted_path.py tests/agents/governance/policy/test_policy_page.py
        tests/config/test_private_files.py tests/config/settings/test_settings.py tests/agents/test_shipped_agents.py
        tests/agents/test_catalogue.py tests/observers/test_discovery.py tests/cli/doctor tests/web/doctor
        tests/test_words.py
        """,
    "parity": "tests/cli/test_main.py",
    "journeys": "tests/journeys/test_doctor.py tests/journeys/test_keyless_web.py",
    "browser": "tests/browser/test_start_page.py",
    "postgres": "tests/web/doctor/test_workers.py",
}
"""Group -> tests of it that read definitions, settings, plugins, or each file of a folder."""
IMPORT_ALL = ("unit", "journeys", "browser")
"""Groups that import each file of tests between them; the others select from the same files."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsedCheckout]:
    """A used checkout whose `up` runs."""
    checkout = UsedCheckout(tmp_path_factory.mktemp("used"))
    with checkout.up():
        yield checkout


def test_the_copy_is_really_used(used: UsedCheckout) -> None:
    process = used.callboard("agents", "librarian")
    deployment = used.python("-P", "-c", "from config.settings import settings; print(settings().deployment)")

    assert process.returncode == 0, process.stdout + process.stderr
    assert "✓\tlibrarian\t" in process.stdout
    assert process.stderr.startswith("warning: `import config` finds Callboard's folder and hides "), process.stderr
    assert deployment.stdout == "theirs\n", "the files and the environment count for the user"


def test_format_lint_imports_and_types_look_at_our_own_files_only(used: UsedCheckout) -> None:
    ran = used.callboard("check", "--static")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left out, since they are not staged in git: config/agents/aardvark.yaml, " in ran.stdout


def test_fixing_leaves_the_users_files_alone(used: UsedCheckout) -> None:
    ran = used.callboard("check", "--fix", "--static")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (used.root / "tests" / "test_mine.py").read_text() == FILES["tests/test_mine.py"]


def test_every_test_is_collected_without_the_users_things(used: UsedCheckout) -> None:
    groups = [word for group in IMPORT_ALL for word in ("--only", group)]

    ran = used.callboard("test", *groups, "--", "-n", "0", "--collect-only", "--disable-warnings")

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert ran.stdout.count(" tests collected") == len(IMPORT_ALL)


@pytest.mark.parametrize("group", MARKS)
def test_tests_do_not_meet_the_users_things(group: str, used: UsedCheckout) -> None:
    files = SAMPLES[group].split()
    assert [name for name in files if not (ROOT / name).exists()] == []

    ran = used.callboard("test", "--only", group, "--", "-n", "0", *files)  # few; a process costs 2 s

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
    assert not used.has_started_a_server, "a test started an MCP server of the user's"


@pytest.mark.skipif(not MEMORY.is_dir(), reason="tests run in a folder on the disk here")
def test_a_run_of_all_tests_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "tests.used_checkout", "--only", "unit")
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
        started = psutil.Process(process.pid)
        until(lambda: bool(copies_of(started, tmp_path)), 120, "its tests run in a copy")
        copies, processes = copies_of(started, tmp_path), started.children(recursive=True)

        process.terminate()

        assert process.wait(60) == 143
        until(lambda: not any(copy.exists() for copy in copies), 60, "the copy is removed")
        until(lambda: not any(child.is_running() for child in processes), 60, "its processes have ended")
        until(lambda: not [*tmp_path.iterdir()], 60, "the checkout is removed")


def copies_of(process: psutil.Process, tmp_path: Path) -> set[Path]:
    """Return the folders in memory in which processes of this one work, without those of this test."""
    folders: set[Path] = set()
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            path = Path(child.cwd())
            folders |= {folder for folder in (path, *path.parents) if folder.parent == MEMORY}
    return folders.difference([ROOT, *ROOT.parents, *tmp_path.parents])
