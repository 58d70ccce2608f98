"""Tests over forked processes end as they do over those that pytest-xdist starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.supervisor.serving import child_environment, python
from config.folders import ROOT
from tests.preforked import asked_for

IMPORTED = (
    "import os\nfrom pathlib import Path\n\nhere = Path(__file__).parent\n(here / f'imported-{os.getpid()}').touch()\n"
)
"""The head of a file of tests, which leaves the id of the process that imports it."""
UNUSED = ("valkey", "schemathesis", "anyio")
"""Plugins that are installed, which each interpreter would import for a second or two."""


def ran(tests: Path, source: str) -> tuple[int, str]:
    """Write a file of tests, run it over two forked processes, and return the status and what was printed."""
    tests.write_text(source)
    argv = (*python("tests.preforked"), "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--import-mode=importlib")
    unused = (option for plugin in UNUSED for option in ("-p", f"no:{plugin}"))
    command = [*argv, *unused, "--rootdir", str(tests.parent), "-n", "2", str(tests)]
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=False, timeout=50
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parity
def test_one_process_imports_the_tests_and_others_run_them(tmp_path: Path) -> None:
    tests = "".join(f"def test_{n}():\n    (here / f'ran-{{os.getpid()}}-{n}').touch()\n" for n in range(8))

    status, printed = ran(tmp_path / "test_it.py", IMPORTED + tests)

    assert (status, "8 passed" in printed) == (0, True), printed
    importing = {path.name.split("-")[1] for path in tmp_path.glob("imported-*")}
    running = {path.name.split("-")[1] for path in tmp_path.glob("ran-*")}
    assert (len(importing), len(running)) == (1, 2)
    assert not importing & running


@pytest.mark.parity
def test_a_file_that_cannot_be_imported_is_said(tmp_path: Path) -> None:
    status, printed = ran(tmp_path / "test_it.py", "import nothing_of_this_name\n")

    assert (status, "nothing_of_this_name" in printed) == (pytest.ExitCode.TESTS_FAILED, True), printed


@pytest.mark.parity
def test_a_process_that_crashes_is_replaced_and_its_test_failed(tmp_path: Path) -> None:
    tests = "import os\ndef test_crash():\n    os._exit(3)\n"
    tests += "".join(f"def test_{n}(): pass\n" for n in range(8))

    status, printed = ran(tmp_path / "test_it.py", tests)

    assert (status, "1 failed, 8 passed" in printed) == (pytest.ExitCode.TESTS_FAILED, True), printed


@pytest.mark.parametrize(
    ("arguments", "count"), [(["-n", "3"], 3), (["-n", "3", "-x", "-n", "0"], 0), (["-n", "auto"], 0), ([], 0)]
)
def test_the_last_option_says_over_how_many_processes(arguments: list[str], count: int) -> None:
    assert asked_for(arguments) == count
