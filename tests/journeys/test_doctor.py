"""The doctor and real workers: what one says of itself is what the other finds."""

import json

import pytest

from config.database.migrate import migrate
from config.folders import ROOT
from tests.fleet import Worker, environment
from tests.processes import run_python

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


def examine(settings) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """Run the doctor as a person in a terminal does; return its status and what it found, by name."""
    env = environment(settings) | {"PYTHONPATH": str(ROOT)}
    ran = run_python("-P", "-m", "cli", "doctor", "--json", env=env)
    findings: dict[str, list[tuple[str, str]]] = {}
    for finding in json.loads(ran.stdout):
        findings.setdefault(finding["about"], []).append((finding["verdict"], finding["text"]))
    return ran.returncode, findings


@pytest.fixture
def deployed(redis_settings):
    migrate(redis_settings)
    return redis_settings


def test_a_worker_on_another_queue_and_with_remote_control_is_reported(deployed):
    log = deployed.state / "worker.log"
    elsewhere = deployed.model_copy(update={"queue": "slow", "slots": 2})

    with Worker(elsewhere, "worker.enable_remote_control=1", log=log):
        status, findings = examine(deployed)
        own_status, own = examine(elsewhere)

    assert status == 1
    ((verdict, text),) = findings["queues"]
    assert verdict == "fail"
    assert "workers alive consume 'slow', this deployment publishes to 'runs'" in text
    assert findings["workers"] == [("ok", "1 alive")]
    assert own_status == 0, own
    assert "Celery is not configured as it has to be: worker_enable_remote_control is True" in log.read_text()
