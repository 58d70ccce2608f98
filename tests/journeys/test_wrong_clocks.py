"""Workers whose clocks are an hour off share a database with one whose clock is right, and one of them is killed."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select

from agents.runner import Runner
from bus.payloads import EndPayload
from config.database.migrate import migrate
from config.database.tables import runs
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.bus.journal_harness import assert_whole
from tests.fleet import Worker
from tests.journeys.skewed_tools import AHEAD_S, FOLDER
from tests.journeys.test_version_skew import DONE, WEIGH, until, weighed
from tests.model_server import ModelServer

pytestmark = [pytest.mark.journey, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(240)]

FEW = 6
HOUR_S = 3600


@pytest.mark.parametrize("killed", [HOUR_S, -HOUR_S])
def test_an_hours_skew_of_a_workers_clock_changes_nothing(
    killed: int, settings: Settings, postgres_url: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    ours = settings.model_copy(
        update={
            "database_url": postgres_url,
            "redis_url": redis_url,
            "agents_dir": str(tmp_path / "agents"),
            "slots": 4,
            "lease_s": 15.0,
            "beat_s": 2.0,
            "reap_s": 0.5,
        }
    )
    migrate(ours)
    with ExitStack() as open_things:
        model = open_things.enter_context(ModelServer())
        runner = Runner.open(ours)
        open_things.callback(runner.close)
        harness = AppHarness(runner, model, tmp_path / "agents")
        harness.agent("tools: [tests.journeys.skewed_tools:weigh]")
        model.respond = lambda body: DONE if any(m["role"] == "tool" for m in body["messages"]) else WEIGH
        log = tmp_path / "workers.log"

        def start(ahead_s: int) -> Worker:
            with monkeypatch.context() as patch:
                patch.setenv(AHEAD_S, str(ahead_s))
                return open_things.enter_context(Worker(ours, log=log))

        lost = start(killed)
        handles = [harness.run(f"Weigh {n}", detached=True) for n in range(FEW)]
        until("the tool is called", lambda: weighed(tmp_path) == ours.slots)
        others = [start(clock) for clock in (HOUR_S, -HOUR_S, 0)]
        until("the others are at work", lambda: weighed(tmp_path) >= FEW)
        with runner.journal.database.read() as connection:
            assert set(connection.execute(select(runs.c.crashes)).scalars()) == {0}, "no worker took a living one's run"
        os.killpg(lost.process.pid, signal.SIGKILL)
        (tmp_path / "free").touch()
        ends = [handle.result(60) for handle in handles]

        assert len(others) == 3
        assert [end.status for end in ends] == ["succeeded"] * FEW
        for handle in handles:
            events = harness.events(handle)
            assert isinstance(events[-1], EndPayload)
            assert events[-1].duration_ms is not None
            assert 0 <= events[-1].duration_ms < 120_000, "and no hour more, or less"
            with runner.journal.database.read() as connection:
                row = connection.execute(select(runs).where(runs.c.id == handle.run_id)).one()
            assert row.created_ms <= row.started_ms <= row.ended_ms
            assert row.crashes in (0, 1)
            assert_whole(list(runner.journal.readers.follow_blocking("default", handle.run_id, handle.thread_id, 0)))
        with runner.journal.database.read() as connection:
            crashes = list(connection.execute(select(runs.c.crashes)).scalars())
        # Fewer where a busy machine made it give some back before: that is no crash.
        assert sum(crashes) <= ours.slots, "those of the worker that was killed, and no others"
