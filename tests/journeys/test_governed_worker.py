"""A real worker under a governance engine: it asks before each call, and sends what hooks saw of it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bus.payloads import ToolResultPayload
from cli.supervisor.child import guarded
from config.folders import ROOT
from config.settings import Settings
from tests.agents.governance.engine.engine_server import EngineServer
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment, keep_turn
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]
AGENT = "tools: ['tests.journeys.outward_tools:fetch', sql_query]\ndatabases: [shop]"


def test_a_worker_asks_before_each_call_and_reports_its_spans(
    fleet_settings: Settings, fleet_harness: AppHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders AS SELECT 7 AS number, 'pens' AS item")
    database.close()
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{tmp_path / 'shop.db'}")
    fleet_harness.agent(AGENT)
    with EngineServer() as engine:
        governed = {"governance_url": engine.url, "sql_databases": "shop=SHOP_URL"}
        query = Call(name="sql_query", arguments={"database": "shop", "sql": "SELECT * FROM orders"})
        fetch = Call(name="fetch", arguments={"url": f"{engine.url}/elsewhere"})
        fleet_harness.model.script([Turn(calls=[query]), Turn(calls=[fetch]), Turn(text="Done.")])
        ours = fleet_settings.model_copy(update=governed)
        with Worker(ours, "--concurrency", "2", log=ours.state / "worker.log"):
            end = fleet_harness.run(detached=True).result(90)

        assert (end.status, end.output) == ("succeeded", "Done.")
        (queried,), (fetched,) = (engine.of("ActivityCompleted", name) for name in ("sql_query", "fetch"))
        activities = [event["activity_type"] for event in engine.events if event.get("event_type") == "ActivityStarted"]
        assert activities == ["model", "sql_query", "model", "fetch", "model"]
        assert queried["activity_output"] == {"columns": ["number", "item"], "rows": [[7, "pens"]]}
        (statement,) = queried["spans"]
        assert (statement["kind"], statement["database"], statement["rows"]) == ("sql", "shop", 1)
        spans = {span["kind"]: span for span in fetched["spans"]}
        assert (spans["http"]["status"], spans["http"]["method"]) == (200, "POST")
        assert spans["http"]["request_headers"]["authorization"] == "[redacted]"
        assert spans["file"]["name"] == "open answer.txt"
        assert "plain-old-key" not in str(engine.events)


FACTORY = """
from handlers.worker.openbox import create_openbox_worker
create_openbox_worker(max_concurrent_workflow_tasks=3, max_concurrent_activity_tasks=4, max_cached_workflows=5).start()
"""


def test_a_program_starts_a_governed_worker_by_the_factory(
    fleet_settings: Settings, fleet_harness: AppHarness, tmp_path: Path
) -> None:
    fleet_harness.agent("tools: [clock]")
    fleet_harness.model.script([Turn(calls=[Call(name="clock", arguments={})]), Turn(text="Done.")])
    keep_turn(fleet_settings.state)  # so that the first model call imports httpx
    with EngineServer() as engine, (fleet_settings.state / "worker.log").open("wb") as log:
        chosen = environment(fleet_settings.model_copy(update={"governance_url": engine.url}))
        command = guarded((sys.executable, "-P", "-c", FACTORY))
        with subprocess.Popen(
            command, cwd=tmp_path, env=chosen | {"PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
        ) as worker:
            end = fleet_harness.run(detached=True).result(90)
            slots = {row["slots"] for row in fleet_harness.runner.journal.stores.workers.alive()}
            worker.terminate()
            status = worker.wait(40)

        assert (end.status, end.output, status) == ("succeeded", "Done.", 0)
        assert 3 in slots, "beside those of workers that earlier tests killed"
        answered, *_ = engine.of("ActivityCompleted", "model")
        assert [span["kind"] for span in answered["spans"]] == ["http"]


def test_the_factory_starts_no_worker_without_an_engine(fleet_settings: Settings) -> None:
    chosen = environment(fleet_settings) | {"PYTHONPATH": str(ROOT)}

    process = subprocess.run(
        [sys.executable, "-P", "-c", FACTORY], env=chosen, capture_output=True, text=True, check=False
    )

    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith("config.errors.SettingInvalid: create_openbox_worker() needs ")


def test_a_worker_whose_engine_is_away_makes_no_call_with_an_effect(
    fleet_settings: Settings, fleet_harness: AppHarness
) -> None:
    fleet_harness.agent("tools: [write_file, clock]")
    calls = [Call(name="write_file", arguments={"path": "a", "text": "b"}), Call(name="clock", arguments={})]
    fleet_harness.model.script([Turn(calls=calls), Turn(text="Done.")])
    ours = fleet_settings.model_copy(update={"governance_url": "http://127.0.0.1:9"})

    with Worker(ours, "--concurrency", "2", log=ours.state / "worker.log"):
        handle = fleet_harness.run(detached=True)
        end = handle.result(90)

    results = {event.name: event.outcome for event in handle.events() if isinstance(event, ToolResultPayload)}
    assert (end.status, results) == ("succeeded", {"write_file": "refused", "clock": "done"})
