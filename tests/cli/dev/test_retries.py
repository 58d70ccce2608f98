"""`./callboard test --retry`: what failed by chance is named and does not fail the run; anything else does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cli.dev.checks import MOST_RETRIED, Check, group_of_tests, run_all

pytestmark = pytest.mark.parity

TESTS = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    ran = pathlib.Path(__file__).with_name(f"ran_{{number}}")
    is_first = not ran.exists()
    ran.touch()
    assert not is_first, "the first time"
def test_good(): pass
"""
ALWAYS = "def test_bad(): assert False\n"


def run(tests: str, folder: Path, *, retries: bool = True, processes: str = "0") -> bool:
    (folder / "test_these.py").write_text(tests)
    unused = (option for plugin in ("valkey", "schemathesis", "anyio") for option in ("-p", f"no:{plugin}"))
    where = ("-c", os.devnull, f"--rootdir={folder}", str(folder))
    argv = (sys.executable, "-m", "pytest", "-q", *unused, "-n", processes, *where)
    return run_all([Check(name="journeys", argv=argv, reports_progress=True, retries=retries)])


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_test_that_passes_alone_is_named_with_its_first_failure(
    processes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(TESTS.format(flaky=1), tmp_path, processes=processes)

    output = capsys.readouterr().out
    assert "the first time" in output
    assert "FLAKY  test_these.py::test_flaky[0] failed once and passed alone" in output


@pytest.mark.parametrize(
    ("tests", "retries", "tried_again"),
    [
        pytest.param(TESTS.format(flaky=1) + ALWAYS, True, True, id="one fails again"),
        pytest.param(TESTS.format(flaky=MOST_RETRIED + 1), True, False, id="too many"),
        pytest.param(TESTS.format(flaky=1), False, False, id="not asked for"),
    ],
)
def test_the_run_fails(
    tests: str, retries: bool, tried_again: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not run(tests, tmp_path, retries=retries)
    output = capsys.readouterr().out
    assert "FLAKY" not in output
    assert ("once more, alone:" in output) is tried_again


def test_unit_tests_are_never_retried() -> None:
    assert not group_of_tests("unit", (), retries=True).retries
    assert group_of_tests("journeys", (), retries=True).retries
