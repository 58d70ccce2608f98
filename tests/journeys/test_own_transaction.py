"""The examples of an application's own transaction, run as it runs them, with a worker behind them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from config.identity.principal import Principal
from config.settings import ROOT
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment
from tests.processes import run_python

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

EXAMPLES = ROOT / "docs" / "examples" / "own_transaction"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def harness(open_harness: Callable[..., AppHarness], request: pytest.FixtureRequest) -> AppHarness:
    more = {} if request.param == "sqlite" else {"database_url": request.getfixturevalue("postgres_url")}
    opened = open_harness(lease_s=15.0, beat_s=0.5, reap_s=0.5, **more)
    opened.agent(agent_id="assistant")
    return opened


def order(harness: AppHarness, example: str, item: str) -> subprocess.CompletedProcess[str]:
    variables = environment(harness.settings) | {
        "CALLBOARD_DATABASE_URL": harness.settings.database,
        "PYTHONPATH": str(ROOT),
    }
    return run_python(str(EXAMPLES / example), item, env=variables, timeout_s=60)


@pytest.mark.parametrize("example", ["with_sqlalchemy.py", "with_django.py"])
def test_an_order_and_its_run_are_there_together_or_not_at_all(harness: AppHarness, example: str) -> None:
    placed = order(harness, example, "mug")
    refused = order(harness, example, "nothing")
    runs, _ = harness.runner.journal.readers.runs.page(Principal(), limit=10)

    assert placed.stderr == ""
    assert "nothing cannot be ordered" in refused.stderr
    assert [run["run_id"] for run in runs] == [placed.stdout.strip()]

    with Worker(harness.settings, log=harness.settings.state / "worker.log"):
        assert harness.runner.handle(placed.stdout.strip()).result(30).status == "succeeded"
