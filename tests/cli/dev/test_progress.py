"""Progress of a group of tests: counts, what runs, the slowest; live on a terminal, else a line now and then."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.dev import progress as module
from cli.dev.progress import GroupProgress, follow
from config.folders import ROOT
from tests.fleet import bare_environment
from tests.progress import send_less

TESTS = """
import pytest
def test_good(): pass
def test_bad(): assert False
@pytest.mark.skip
def test_left_out(): pass
@pytest.fixture
def broken():
    yield
    raise OSError
def test_broken_afterwards(broken): pass
"""


def said(**what: object) -> bytes:
    return json.dumps(what).encode()


def test_a_line_says_counts_time_and_what_has_run_longest() -> None:
    now = [100.0]
    progress = GroupProgress(name="journeys", clock=lambda: now[0])
    progress.note(said(total=9))
    progress.note(said(began="a::one"))
    now[0] = 160.0
    progress.note(said(began="a::two"))
    progress.note(said(began="a::three"))
    failed = progress.note(said(ended="a::two", outcome="failed", seconds=4.0))
    progress.note(said(ended="a::three", outcome="skipped", seconds=0.1))
    now[0] = 165.0

    assert failed == "a::two"
    assert progress.line() == "journeys  2 of 9, 1 failed, 1 skipped, 1:05; now a::one (65 s)"


def test_the_slowest_are_listed_longest_first_and_quick_ones_not_at_all() -> None:
    progress = GroupProgress(name="unit")
    for number in range(20):
        progress.note(said(ended=f"t::{number}", outcome="passed", seconds=float(number)))

    assert progress.slowest()[0] == "    19.0 s  t::19"
    assert len(progress.slowest()) == 10
    assert GroupProgress(name="unit", seconds={"t::quick": 0.2}).slowest() == []


@pytest.mark.parity
@pytest.mark.parametrize("processes", ["0", "2"])
def test_pytest_reports_its_progress(processes: str, tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(TESTS)
    reading, writing = os.pipe()
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]

    ran = subprocess.Popen(
        [*command, "-p", "xdist", "-n", processes, "-p", "tests.progress", "--tell", str(writing)],
        cwd=tmp_path,
        env=bare_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        pass_fds=(writing,),
        stdout=subprocess.PIPE,
    )
    os.close(writing)
    out = io.StringIO()
    progress = GroupProgress(name="unit")
    follow(progress, reading, out)
    os.close(reading)
    report = ran.communicate()[0].decode()

    assert ran.returncode == 1, report
    assert (progress.total, dict(progress.outcomes)) == (4, {"passed": 1, "failed": 2, "skipped": 1})
    test_names = sorted(line.rpartition("::")[2] for line in out.getvalue().splitlines())
    assert test_names == ["test_bad", "test_broken_afterwards"]
    assert progress.running == {}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ThreeLines(GroupProgress):
    """Has its line asked for three times; then the tests are over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reading, self._writing = os.pipe()
        self._asked = 0

    def line(self) -> str:
        self._asked += 1
        if self._asked == 3:
            os.close(self._writing)
        return f"line {self._asked}"


@pytest.mark.parametrize(
    ("out", "written"),
    [
        (Terminal(), "\r\x1b[Kline 1\r\x1b[Kline 2\r\x1b[Kline 3\r\x1b[K"),
        (io.StringIO(), "line 1\nline 2\nline 3\n"),
    ],
)
def test_a_terminal_has_one_live_line_and_a_log_a_line_each_time(
    out: io.StringIO, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TERMINAL_EVERY_S", 0.0)
    monkeypatch.setattr(module, "LOG_EVERY_S", 0.0)
    progress = ThreeLines(name="unit")

    follow(progress, progress.reading, out)

    os.close(progress.reading)
    assert out.getvalue() == written


def test_the_own_files_of_the_project_are_what_is_checked() -> None:
    from cli.dev.checks import static_checks

    for check in static_checks()[:2]:
        looked_at = [word for word in check.argv if (ROOT / word).exists() and not word.startswith("/")]
        assert looked_at, check.argv
        assert "." not in looked_at
        assert {"agents", "web", "tests", "callboard"} <= set(looked_at)


class Interactor:
    """Keeps what a process of pytest-xdist sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, object]]] = []

    def sendevent(self, name: str, **what: object) -> None:
        self.sent.append((name, what))


def report(*, when: str = "setup", outcome: str = "passed", duration: float = 0.001) -> dict[str, object]:
    return {"when": when, "outcome": outcome, "duration": duration}


@pytest.mark.parametrize(
    "important",
    [report(when="call"), report(outcome="failed"), report(when="teardown", outcome="failed"), report(duration=2.0)],
)
def test_a_call_a_failure_and_a_long_set_up_are_sent(important: dict[str, object]) -> None:
    interactor = Interactor()
    send_less(interactor)

    interactor.sendevent("testreport", data=important)

    assert interactor.sent == [("testreport", {"data": important})]


def test_a_quick_set_up_that_passed_is_not_sent_and_other_events_are() -> None:
    interactor = Interactor()
    send_less(interactor)

    interactor.sendevent("testreport", data=report())
    interactor.sendevent("logfinish", nodeid="a::one")

    assert interactor.sent == [("logfinish", {"nodeid": "a::one"})]


@pytest.mark.parametrize(("outcome", "expected"), [("passed", {}), ("failed", {"slow": 1})])
def test_the_keywords_of_a_call_that_passed_are_not_sent(outcome: str, expected: dict[str, int]) -> None:
    interactor = Interactor()
    send_less(interactor)

    interactor.sendevent("testreport", data=report(when="call", outcome=outcome) | {"keywords": {"slow": 1}})

    assert [what["data"]["keywords"] for _, what in interactor.sent] == [expected]  # type: ignore[index]
