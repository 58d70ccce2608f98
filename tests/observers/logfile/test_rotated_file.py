"""A log file is set aside when it is full, and, where logs are not kept for ever, when it began too long ago."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.clock import stamp
from config.settings import Settings
from observers.logfile.rotated_file import RotatedFile
from observers.logger import SimpleLoggerObserver

LONG_AGO = b"2020-01-01T12:00:00.000Z  run_a      1  x  end  y\n"
DAY_S = 24 * 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs-0.log"


def test_a_file_that_began_too_long_ago_is_set_aside(path: Path) -> None:
    path.write_bytes(LONG_AGO)
    file = RotatedFile(1_000_000, 5, DAY_S)

    file.append(path, b"new\n")
    file.append(path, b"newer\n")

    assert path.with_name("runs-0.log.1").read_bytes() == LONG_AGO
    assert path.read_bytes() == b"new\nnewer\n"


@pytest.mark.parametrize("form", ["{at}  run_a  1  x  end  y\n", '{{"at":"{at}","run_id":"run_a"}}\n'])
@pytest.mark.parametrize(("max_age_s", "files"), [(DAY_S, 2), (None, 1), (100 * 365 * DAY_S, 1)])
def test_either_form_of_line_says_when_it_was(path: Path, form: str, max_age_s: float | None, files: int) -> None:
    path.write_text(form.format(at="2020-01-01T12:00:00.000Z"))

    RotatedFile(1_000_000, 5, max_age_s).append(path, b"new\n")

    assert len(list(path.parent.iterdir())) == files


def test_a_young_file_and_one_that_does_not_say_stay(path: Path) -> None:
    for begun in (f"{stamp()}  run_a  1  x  end  y\n".encode(), b"garbage \xff\n"):
        path.write_bytes(begun)

        RotatedFile(1_000_000, 5, DAY_S).append(path, b"new\n")

        assert path.read_bytes() == begun + b"new\n"
    assert [each.name for each in path.parent.iterdir()] == ["runs-0.log"]


def test_the_logger_takes_the_age_from_the_settings(tmp_path: Path, settings: Settings) -> None:
    folder = settings.state / "logs"
    folder.mkdir(parents=True)

    for days, files in ((0.0, 1), (1.0, 2)):
        (folder / "runs-0.log").write_bytes(LONG_AGO)
        logger = SimpleLoggerObserver.from_settings(settings.model_copy(update={"retain_logs_days": days}))
        logger._pending.append(b"new\n")
        logger.close()
        assert len(list(folder.glob("*.log*"))) == files
