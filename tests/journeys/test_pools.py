"""Every pool Celery has that can run agents: the same outcome, and a stop that stops; test_worker.py has the others."""

from __future__ import annotations

import os

import pytest

from bus.payloads import Payload, ResponsePayload
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import ROOT, Worker, environment
from tests.model_server import Call, Turn
from tests.processes import run_python

pytestmark = pytest.mark.journey


@pytest.mark.parametrize("pool", ["threads", "processes", "solo"])  # Celery takes "prefork" for "as configured"
def test_a_pool_runs_agents_and_stops_them(pool: str, fleet_settings: Settings, fleet_harness: AppHarness) -> None:
    fleet_harness.agent("tools: ['tests.agents.sample_tools:add']")
    add = Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})])
    fleet_harness.model.script([add, Turn(text="Three."), Turn(text=["one ", "two ", "three"], stall_after=3)])
    log = fleet_settings.state / f"{pool}.log"

    with Worker(fleet_settings, "--pool", pool, "--concurrency", "2", log=log, executed=True):
        end = fleet_harness.run("What is 1 + 2?", detached=True).result(30)
        stopped = fleet_harness.run("Count.", detached=True)
        events: list[Payload] = []
        for event in stopped.events():
            events.append(event)
            if isinstance(event, ResponsePayload) and event.content == "two ":
                stopped.cancel()

    assert (end.status, end.output) == ("succeeded", "Three.")
    assert stopped.status() == "cancelled"
    assert fleet_harness.model.closed_early.wait(10)


def test_a_patched_process_is_refused_with_a_sentence(fleet_settings: Settings) -> None:
    pretend = (
        "import sys, types; m = types.ModuleType('gevent.monkey'); m.is_module_patched = lambda name: True; "
        "sys.modules['gevent.monkey'] = m; "
        "from celery.__main__ import main; sys.argv = ['celery', '-A', 'bus.celery_app', 'worker']; main()"
    )

    env = environment(fleet_settings) | {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    worker = run_python("-c", pretend, env=env, timeout_s=60)

    assert worker.returncode != 0
    assert "gevent and eventlet pools" in worker.stderr
