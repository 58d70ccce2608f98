"""Workers of which one lacks the key of a model: it leaves such runs to those that have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bus.journal.stores import WorkerRow
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.test_version_skew import runs_why, state, until
from tests.model_server import ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

KEY = "JOURNEYS_MODEL_KEY"
ELSEWHERE = WorkerRow(id="own_elsewhere", host="elsewhere", pid=1, pool="threads", slots=1, busy=0)


@pytest.fixture(scope="module")
def provider() -> str:
    return "openai"


@pytest.fixture
def harness(
    fleet_harness: AppHarness, fleet_model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AppHarness]:
    """A runner whose agent needs a key that no worker has unless a test sets it."""
    monkeypatch.delenv(KEY, raising=False)
    fleet_harness.agent(f"api_key_env: {KEY}")
    fleet_model.script([Turn(text="Done.")])
    yield fleet_harness
    fleet_harness.runner.journal.stores.workers.forget(ELSEWHERE.id)


def test_a_run_waits_for_the_worker_that_has_its_models_key(
    fleet_settings: Settings, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, log = harness.runner.journal.stores.workers, fleet_settings.state / "keys.log"

    with Worker(fleet_settings, log=log):
        until("the worker says what it lacks", lambda: KEY in workers.alive()[0]["missing_keys"])
        workers.renew(replace(ELSEWHERE, queue=fleet_settings.queue, queues=(fleet_settings.queue,)))
        run = harness.run(detached=True)
        until("the run is given back", lambda: state(harness, run.run_id)["status"] == "waiting")
        waiting, output = state(harness, run.run_id), runs_why(fleet_settings)
        monkeypatch.setenv(KEY, "key-of-a-journey")
        with Worker(fleet_settings, log=log):
            end = run.result(60)

    assert (waiting["reason"], waiting["fence"]) == ("code_version", 1)
    assert KEY in " ".join(output.split())
    assert (end.status, end.output) == ("succeeded", "Done.")
    fence = state(harness, run.run_id)["fence"]
    assert fence in range(3, 99, 2), "claimed, resumed, and claimed once more, perhaps by the one without a key again"


def test_a_run_fails_at_once_where_no_worker_has_its_models_key(fleet_settings: Settings, harness: AppHarness) -> None:
    with Worker(fleet_settings, log=fleet_settings.state / "keys.log"):
        end = harness.run(detached=True).result(60)

    assert (end.status, end.reason) == ("failed", "model_key_missing")
