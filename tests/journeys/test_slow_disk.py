"""A slow or full disk: runs become slower, and nothing else. No worker that lives loses a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import Settings
from tests.backends import PostgresCluster, postgres_tool
from tests.backlog import define_payer, outcome, queue, until_ended
from tests.bench import full_disk
from tests.bench.slow_disk_tools import LEDGER
from tests.conftest import need
from tests.fleet import Worker
from tests.model_server import ModelServer
from tests.slow_disk import SlowDisk

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

SLOTS, SIZE = 100, 120
ENDED_S = 240.0


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Give these values to processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def assert_only_slower(settings: Settings, folder: Path, preloaded: dict[str, str]) -> None:
    """Have one worker work a backlog off: every run succeeds, under its first owner, with one call of its tool."""
    chosen = settings.model_copy(update={"agents_dir": str(folder / "agents"), "slots": SLOTS})
    (folder / "agents").mkdir()
    migrate(chosen)
    ledger, log = folder / "ledger", folder / "worker.log"
    with ModelServer() as model:
        define_payer(folder / "agents", model.url, tokens=20, rate=20)
        runner = Runner.open(chosen)
        try:
            queue(runner, SIZE)
            with environment(preloaded | {LEDGER: str(ledger)}), Worker(chosen, log=log):
                took_s = until_ended(runner.journal.database, SIZE, ENDED_S)
                result = outcome(runner.journal.database, ledger, log)
        finally:
            runner.close()
    print(f"{SIZE} runs in {took_s:.1f} s, {SIZE / took_s:.1f} a second")

    assert result.is_clean(SIZE), f"{result}\n{log.read_text()[-3000:]}"
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("delay_ms", [20, 100])
def test_a_slow_disk_under_sqlite(by_default: Settings, tmp_path: Path, slow_disk: SlowDisk, delay_ms: int) -> None:
    slow_disk.delay(delay_ms)

    assert_only_slower(by_default, tmp_path, slow_disk.environment)


@pytest.mark.postgres
def test_a_slow_disk_under_postgres(by_default: Settings, tmp_path: Path, slow_disk: SlowDisk) -> None:
    need(postgres_tool("initdb"), "Postgres (initdb)")
    slow_disk.delay(30)
    with PostgresCluster(slow_disk) as cluster:
        settings = by_default.model_copy(update={"database_url": cluster.new_database()})

        assert_only_slower(settings, tmp_path, {})


def test_a_disk_that_is_full_for_longer_than_a_lease(tmp_path: Path) -> None:
    need(shutil.which("gcc"), "gcc")

    # Leases are long enough for the beats of a busy machine: one that is late would be taken for the disk's fault.
    result = full_disk.endure(tmp_path, outages=3, full_s=10, lease_s=6.0, beat_s=1.5, reap_s=1.0)

    assert result.is_clean(3 * full_disk.SIZE), result
    assert "heartbeat failed: DatabaseFull" in (tmp_path / "worker.log").read_text()
