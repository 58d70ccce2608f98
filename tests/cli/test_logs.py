"""`logs -f` begins like tail(1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import status_of


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of 25 events of two runs."""
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "logs" / "runs-0.log"
    path.parent.mkdir()
    path.write_text("".join(line(number, f"run_{number % 2}") for number in range(25)))
    return path


def line(number: int, run_id: str, kind: str = "message") -> str:
    return f"2026-11-20T12:00:00.{number:03}Z  {run_id:<30}  {number:>5}  clerk         {kind:<11}  event {number}\n"


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [text.rpartition("  ")[2] for text in capsys.readouterr().out.splitlines()]


def follows(monkeypatch: pytest.MonkeyPatch, log: Path, *words: str) -> int:
    """Follow until the second pause; behind the first one more line was written."""
    pauses = iter([lambda: log.write_text(log.read_text() + line(99, "run_1")), _interrupt])
    monkeypatch.setattr("cli.commands.logs.time.sleep", lambda _: next(pauses)())
    return status_of(["logs", "-f", *words])


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "first"), [((), 15), (("-n", "3"), 22), (("-n", "0"), 25), (("-n", "100"), 0), (("run_1",), 1)]
)
def test_following_begins_with_the_last_lines(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], first: int
) -> None:
    assert follows(monkeypatch, log, *words) == 130

    step = 2 if "run_1" in words else 1
    assert printed(capsys) == [f"event {number}" for number in [*range(first, 25, step), 99]]


def test_without_following_everything_is_printed(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["logs"]) == 0

    assert printed(capsys) == [f"event {number}" for number in range(25)]


def test_the_last_lines_alone(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["logs", "-n", "2"]) == 0

    assert printed(capsys) == ["event 23", "event 24"]
