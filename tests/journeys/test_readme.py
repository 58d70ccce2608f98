"""What the README and its next page say to type, typed: in order, in the project's folder, on a state of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from bus.journal.stores import Workers
from config.database.engine import open_database
from config.database.migrate import migrate
from config.folders import ROOT
from config.settings import Settings
from tests.fleet import bare_environment, environment
from tests.journeys.up import Up
from tests.test_readme import commands

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

ENDLESS_S = 5.0
"""Seconds that a command which follows something may follow it."""
BESIDE_UP = [line for line in commands() if "./callboard" in line and line.split()[1] not in ("up", "test")]


def typed(line: str, **more: str) -> tuple[int | None, str]:
    """Return a command's status (None: it was still following) and all it printed."""
    settings = bare_environment(PATH=os.environ["PATH"], **more)
    del settings["PYTHONPATH"]
    with subprocess.Popen(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=ROOT,
        env=settings,
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            return process.wait(ENDLESS_S if line.endswith(" -f") else 120), process.communicate()[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            return None, process.communicate()[0]


def test_the_commands_of_the_terminal_work_beside_up(tmp_path: Path) -> None:
    lines = [line for line in BESIDE_UP if line.split("./callboard ")[1].split()[0] not in ("migrate", "worker", "web")]
    outcomes: dict[str, tuple[int | None, str]] = {}
    run_id = "RUN"
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", CALLBOARD_REDIS_URL="") as up:
        assert up.address
        for line in lines:
            outcomes[line] = typed(line.replace("RUN", run_id), CALLBOARD_STATE_DIR=str(tmp_path / "state"))
            if line.endswith("--detach"):
                run_id = outcomes[line][1].split()[-1]
        up.stop()

    error = {line: how for line, how in outcomes.items() if how[0] not in ((None,) if line.endswith(" -f") else (0,))}
    assert error == {}
    assert not [line for line, (_, text) in outcomes.items() if "Traceback" in text]
    calendar = next(text for line, (_, text) in outcomes.items() if "letter.txt" in line)
    assert "2026-12-03" in calendar


def test_celery_as_it_is_printed_starts_a_worker_in_the_projects_folder(redis_settings: Settings) -> None:
    (line,) = (line for line in commands() if "/celery " in line)
    redis_settings.state.mkdir(exist_ok=True)
    migrate(redis_settings)
    settings = environment(redis_settings)
    settings.pop("PYTHONPATH", None)
    log = redis_settings.state / "celery.log"

    with log.open("wb") as out:
        process = subprocess.Popen(line.split(), cwd=ROOT, env=settings, stdout=out, stderr=out)
    try:
        wait_for_a_worker(redis_settings, process, log)
    finally:
        process.terminate()
        status = process.wait(60)

    assert status == 0, log.read_text()
    assert "room_taken" not in log.read_text()


def wait_for_a_worker(settings: Settings, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the worker's row is in the database and Celery listens to signals; it is another process."""
    database = open_database(settings.database)
    try:
        for _ in range(600):
            if Workers(database).alive() and " ready." in log.read_text():
                return
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
        raise AssertionError(log.read_text())
    finally:
        database.close()
