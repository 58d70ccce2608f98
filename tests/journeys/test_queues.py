"""Two workers on different queues: each run is worked off only by the worker that serves its queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.handle import RunHandle
from config.identity.principal import Principal
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import read_until_it_speaks, run_row
from tests.journeys.up import Up
from tests.model_server import Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

EACH = 3


@pytest.fixture
def harness(open_harness: Callable[..., AppHarness]) -> AppHarness:
    """Workers poll often here: a poller that took another queue's run would be caught."""
    opened = open_harness(lease_s=15.0, beat_s=0.5, reap_s=0.2, slots=20)
    opened.agent()
    opened.agent("queue: gpu", "painter")
    return opened


def queues_of_owner(harness: AppHarness, run: RunHandle) -> list[str]:
    """Return the queues that the worker serves which has the run now."""
    owner = run_row(harness, run).owner
    workers = harness.runner.journal.stores.workers.alive()
    (worker,) = [worker for worker in workers if worker["worker_id"] == owner]
    return list(worker["queues"])


def reason(harness: AppHarness, run: RunHandle) -> str:
    journal = harness.runner.journal
    return "".join(explained.sentence for explained in journal.readers.runs.explain(Principal(), run_id=run.run_id))


def test_each_run_is_worked_off_by_the_worker_that_serves_its_queue(harness: AppHarness) -> None:
    slow = Turn(text=["two ", "words"], stall_after=2)
    harness.model.script([slow] * 2 * EACH)
    settings = harness.settings
    with (
        Worker(settings, log=settings.state / "default.log"),
        Worker(settings, "-Q", "gpu,mail", log=settings.state / "gpu.log"),
    ):
        handles = [harness.run("Hello", agent, detached=True) for _ in range(EACH) for agent in ("tester", "painter")]
        for handle in handles:
            read_until_it_speaks(handle)

        owners = [queues_of_owner(harness, handle) for handle in handles]
        harness.model.resume()
        ends = [handle.result(30).status for handle in handles]

    assert owners == [["runs"], ["gpu", "mail"]] * EACH
    assert ends == ["succeeded"] * 2 * EACH


def test_a_run_of_an_unserved_queue_waits_and_says_so_until_a_worker_comes(harness: AppHarness) -> None:
    harness.model.script([Turn(text="done")] * 2)
    settings = harness.settings
    with Worker(settings, log=settings.state / "default.log"):
        painted = harness.run("Hello", "painter", detached=True)
        harness.agent("queue: elsewhere", "painter")  # a run keeps the queue that it was accepted with
        assert harness.run("Hello", "tester", detached=True).result(30).status == "succeeded"

        assert "no worker serves queue 'gpu'" in reason(harness, painted)
        assert painted.status() == "queued"
        environment = {
            "CALLBOARD_REDIS_URL": str(settings.redis_url),
            "CALLBOARD_DATABASE_URL": settings.database,
            "CALLBOARD_DEPLOYMENT": settings.deployment,
            "CALLBOARD_AGENTS_DIR": settings.agents_dir,
        }
        with Up(settings.state, "-n", "1", "--queues", "gpu", command="worker", **environment):
            assert painted.result(60).status == "succeeded"
