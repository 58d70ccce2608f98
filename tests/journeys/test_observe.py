"""`./callboard observe` as a process: killed a hundred times it misses nothing; workers feed observers, too."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from bus.journal.tailing import ObserverCursors, ObserverState, observer_states, partition_of, values_of
from config.database.engine import Database, open_database
from config.database.tables import events, observer_cursors
from config.folders import ROOT
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment
from tests.model_server import ModelServer, Turn
from tests.observed import FILE
from tests.tailed_log import TailedLog, end, message, status
from tests.template import upgrade_by_copy

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]
NAME = "tests.observed:Noting"
KILLS = 100
FORKED = """
import os, sys, time
from contextlib import closing
from config.database.engine import open_database
from config.settings import read_settings
from observers.tailing.host import ObserverHost
from observers.tailing.tailed import tailed_observer
settings = read_settings()
tailed = tailed_observer(sys.argv[1], settings, "beginning")
for line in sys.stdin:
    if pid := os.fork():
        print(pid, flush=True)
        os.waitpid(pid, 0)
        continue
    with closing(open_database(settings.database)) as database:
        ObserverHost(settings, database).start(tailed)
        time.sleep(60)
"""
"""Forks a process that feeds the observer for each line it gets: imports a hundred times would take minutes."""


@pytest.fixture
def settings(each_database_url: str, tmp_path: Path) -> Settings:
    return Settings(  # type: ignore[call-arg]  # pydantic-settings' own
        _env_file=None, state_dir=tmp_path / "state", database_url=each_database_url, tool_modules="tests.observed"
    )


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    settings.state.mkdir(exist_ok=True)
    with closing(open_database(settings.database)) as opened:
        upgrade_by_copy(opened)
        yield opened


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FILE, str(tmp_path / "notes"))
    return tmp_path / "notes"


def until(what: str, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def state_of(database: Database, name: str) -> ObserverState | None:
    with database.read() as connection:
        return next((state for state in observer_states(connection) if state.name == name), None)


def test_killed_a_hundred_times_it_misses_nothing_and_keeps_the_order(
    settings: Settings, database: Database, notes: Path
) -> None:
    log, random_ = TailedLog(database), random.Random(7)
    ids = log.runs(40)
    written: dict[str, int] = defaultdict(int)
    allowed: list[tuple[int, dict[int, int]]] = []  # after so many bytes of notes, the cursors of a killed process
    command = [sys.executable, "-c", FORKED, NAME]
    forker = subprocess.Popen(
        command, cwd=ROOT, env=environment(settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert forker.stdin is not None
    assert forker.stdout is not None
    with forker:
        for _ in range(KILLS):
            forker.stdin.write("\n")
            forker.stdin.flush()
            pid = int(forker.stdout.readline())
            for _ in range(3):
                written_now = random_.sample(ids, 10)
                log.add_all((run_id, message(written[run_id] + 1)) for run_id in written_now)
                for run_id in written_now:
                    written[run_id] += 1
                time.sleep(random_.uniform(0, 0.06))
            os.kill(pid, signal.SIGKILL)
            until("the process is gone", lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
            allowed.append((notes.stat().st_size if notes.exists() else 0, _cursors(database)))
        forker.stdin.write("\n")
        forker.stdin.flush()
        last = int(forker.stdout.readline())
        until("all is delivered", lambda: _is_up_to_date(database))
        os.kill(last, signal.SIGKILL)
        forker.stdin.close()

    delivered = [line.split() for line in notes.read_text().splitlines()]
    first: dict[str, list[int]] = defaultdict(list)
    for run_id, seq in delivered:
        if int(seq) not in first[run_id]:
            first[run_id].append(int(seq))
    assert {run_id: list(range(1, count + 1)) for run_id, count in written.items()} == first
    assert _unacknowledged_alone(database, notes.read_text(), allowed)
    print(f"{sum(written.values())} events, {len(delivered) - sum(written.values())} of them again after {KILLS} kills")


def _is_up_to_date(database: Database) -> bool:
    state = state_of(database, "noting")
    return state is not None and state.behind == 0


def _cursors(database: Database) -> dict[int, int]:
    with database.read() as connection:
        rows = connection.execute(select(observer_cursors.c.partition, observer_cursors.c.position))
        return {row[0]: row[1] for row in rows}


def _unacknowledged_alone(database: Database, text: str, allowed: list[tuple[int, dict[int, int]]]) -> bool:
    """Return whether each event that came again was behind the cursor that the process before it had stored."""
    with database.read() as connection:
        rows = connection.execute(select(events.c.run_id, events.c.seq, events.c.position))
        position = {(row[0], row[1]): row[2] for row in rows}
    seen: set[tuple[str, int]] = set()
    at = 0
    for line in text.splitlines(keepends=True):
        run_id, seq = line.split()[0], int(line.split()[1])
        stored = [cursors for size, cursors in allowed if size <= at]
        if (run_id, seq) in seen and stored and position[run_id, seq] <= stored[-1].get(partition_of(run_id), 0):
            return False
        seen.add((run_id, seq))
        at += len(line)
    return True


def test_the_command_feeds_until_a_signal_and_frees_its_share(
    settings: Settings, database: Database, notes: Path
) -> None:
    log = TailedLog(database)
    run_id = log.run()
    log.add(run_id, status(1), message(2), end(3))
    command = [sys.executable, "-m", "cli", "observe", NAME, "--from", "beginning"]

    with subprocess.Popen(command, cwd=ROOT, env=environment(settings), stderr=subprocess.PIPE, text=True) as process:
        until("the events are delivered", lambda: notes.exists() and len(notes.read_text().splitlines()) == 3)
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=20)

    assert process.returncode == 0, output
    assert "feeding noting (reliable)" in output
    state = state_of(database, "noting")
    assert state is not None
    assert (state.state, state.delivered, state.behind) == ("stopped", 3, 0)


def test_what_cannot_be_read_delivers_nothing(settings: Settings, database: Database, tmp_path: Path) -> None:
    (tmp_path / "observers.yaml").write_text("noting: {class: 'tests.observed:Noting', tipes: [end]}\n")
    env = environment(settings) | {"CALLBOARD_OBSERVERS_FILE": str(tmp_path / "observers.yaml")}

    answer = subprocess.run(
        [sys.executable, "-m", "cli", "observe", "noting"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 2
    assert "observers.yaml:1: noting.tipes: there is no such field." in " ".join(answer.stderr.split())
    assert state_of(database, "noting") is None


def test_a_worker_feeds_the_metrics_of_its_own_runs(
    fleet_settings: Settings, fleet_harness: AppHarness, fleet_model: ModelServer
) -> None:
    fleet_harness.agent()
    fleet_model.script([Turn(text="Done.")] * 5)
    database = fleet_harness.runner.journal.database
    settings = fleet_settings.model_copy(update={"observe": "metrics"})

    with Worker(settings, log=fleet_settings.state / "observing.log"):
        until("the observer is there", lambda: state_of(database, "metrics"))
        ends = [fleet_harness.run(detached=True).result(60) for _ in range(5)]
        until("the ends are counted", lambda: _count(database, "runs_ended") >= 5)

    assert [run.status for run in ends] == ["succeeded"] * 5
    assert _count(database, "runs_ended") == 5
    assert _count(database, "activity_executions") == 5
    state = state_of(database, "metrics")
    assert state is not None
    assert state.state == "stopped"
    ObserverCursors(database).remove("metrics")


def _count(database: Database, name: str) -> float:
    with database.read() as connection:
        return sum(value for series, _, value in values_of(connection) if series.name == name)
