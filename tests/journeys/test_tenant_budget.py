"""A tenant's budget of live events, kept by two workers together: viewers and later readers get the whole log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bus.keys import Keys
from tests.fleet import Worker
from tests.journeys.stage import Stage, staged

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

BUDGET = 100_000
RUNS, PIECES, PACE = 6, 600, 60
LOOK_EVERY_S = 0.1


class Scales(threading.Thread):
    """Weighs what Redis holds of the tenant's runs, again and again."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.over = threading.Event()
        self._stage = stage

    def run(self) -> None:
        with self._stage.redis.client() as client:
            while not self.over.wait(LOOK_EVERY_S):
                self.most = max(self.most, weight(self._stage, client))


def weight(stage: Stage, client: redis.Redis) -> int:
    """Return the bytes that Redis needs for the streams of the tenant."""
    prefix = f"{Keys(stage.settings.deployment).prefix}{stage.settings.tenant}:"
    return sum(client.memory_usage(name, samples=0) or 0 for name in client.scan_iter(f"{prefix}*:log", count=1000))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A deployment with two workers, each of which does half of the runs."""
    with (
        staged(tmp_path, slots=RUNS // 2, tenant_hot_log_max_bytes=BUDGET) as new_stage,
        Worker(new_stage.settings, log=new_stage.settings.state / "second.log"),
    ):
        yield new_stage


def test_two_workers_keep_it_and_nothing_is_lost(stage: Stage) -> None:
    scales, account = Scales(stage), Keys(stage.settings.deployment).account(stage.settings.tenant)[0]
    scales.start()
    watched = stage.watch(RUNS, PIECES, PACE)
    for watching in watched:
        watching.to_the_end()
    scales.over.set()
    scales.join()
    stage.until(lambda: 0 < int(stage.redis.say("HGET", account, "total")) <= BUDGET, 10, "the budget is kept")
    with stage.redis.client() as client:
        left = weight(stage, client)
    char_count = sum(len(str(event)) for watching in watched for event in watching.to_the_end())

    print(
        f"\n{RUNS} runs said {char_count} characters: Redis held {scales.most} bytes at most, {left} after; {BUDGET=}"
    )
    for watching in watched:
        stage.assert_well_seen(watching, PIECES)
    stage.assert_calm()
    for name in ("worker.log", "second.log"):
        assert "more than its budget" in (stage.settings.state / name).read_text()
    assert scales.most < char_count / 2
    assert left < 2 * BUDGET
