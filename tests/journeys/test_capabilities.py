"""Capabilities in a worker: a call whose worker was killed leaves nothing behind, and a pure one is made again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agents import catalogue
from agents.tools.runners.container import container_name
from bus.payloads import ToolResultPayload
from tests.agents.tools.runners.machines import (
    container_engine,
    containers,
    eventually,
    import_image,
    processes_with,
)
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

SLOWLY = """sleep 3; echo '{"words": 3}'"""
RUNNERS = {
    "process": {"type": "process", "command": ["/bin/sh", "-c", SLOWLY]},
    "container": {"type": "container", "image": "callboard-test:1", "command": ["/bin/sh", "-c", SLOWLY]},
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("engine")
    text = container_engine(folder)
    import_image(text, folder, "callboard-test:1")
    return text


def declare(folder: Path, kind: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, object] = {
        "name": "Count",
        "description": "Count words.",
        "version": "1.0.0",
        "maintainer": "a@example.org",
    }
    fields |= {"kind": "transformer", "effect": "pure", "timeout_s": 60, "input_schema": {"type": "object"}}
    (folder / "count.yaml").write_text(yaml.safe_dump(fields | {"runner": RUNNERS[kind]}))
    catalogue.forget()


@pytest.mark.parametrize(("kind", "pool"), [("process", "threads"), ("container", "threads"), ("process", "prefork")])
def test_a_call_whose_worker_was_killed_is_made_again_and_leaves_nothing(
    open_harness: Callable[..., AppHarness], tmp_path: Path, engine: str, kind: str, pool: str
) -> None:
    declare(tmp_path / "capabilities", kind)
    harness = open_harness(
        lease_s=15.0, beat_s=5.0, reap_s=0.5, capabilities_dir=str(tmp_path / "capabilities"), containers=engine
    )
    log = harness.settings.state / "worker.log"
    harness.agent("tools: [count]")
    harness.model.script([Turn(calls=[Call(name="count", arguments={})]), Turn(text="Three.")])

    with Worker(harness.settings, "--pool", pool, "--concurrency", "2", log=log) as first:
        handle = harness.run("Count", detached=True)
        mark = f"CALLBOARD_RUN_ID={handle.run_id}"
        assert eventually(lambda: any("sleep" in " ".join(process.cmdline()) for process in processes_with(mark)), 30)
        first.kill()
        is_clean = eventually(lambda: not processes_with(mark) and not containers(engine), 30)
    with Worker(harness.settings, log=log):
        result = handle.result(60)

    assert is_clean
    assert (result.status, result.output) == ("succeeded", "Three.")
    (outcome,) = [event for event in handle.events() if isinstance(event, ToolResultPayload)]
    assert (outcome.outcome, outcome.result) == ("done", {"words": 3})
    assert processes_with(mark) == []
    assert containers(engine) == []


def test_a_worker_that_starts_removes_the_containers_that_lost_ones_left(
    open_harness: Callable[..., AppHarness], engine: str
) -> None:
    harness = open_harness(containers=engine)
    late = container_name("a", -1000)
    subprocess.run(
        [*engine.split(), "create", "--name", late, "callboard-test:1", "/bin/true"], check=True, capture_output=True
    )

    with Worker(harness.settings, log=harness.settings.state / "worker.log"):
        assert eventually(lambda: late not in containers(engine), 30)


def test_a_call_that_is_stopped_leaves_nothing(
    open_harness: Callable[..., AppHarness], tmp_path: Path, engine: str
) -> None:
    declare(tmp_path / "capabilities", "container")
    harness = open_harness(capabilities_dir=str(tmp_path / "capabilities"), containers=engine)
    harness.agent("tools: [count]")
    harness.model.script([Turn(calls=[Call(name="count", arguments={})]), Turn(text="Three.")])

    with Worker(harness.settings, log=harness.settings.state / "worker.log"):
        handle = harness.run("Count", detached=True)
        assert eventually(lambda: containers(engine), 30)
        handle.cancel()
        assert handle.result(30).status == "cancelled"
        assert eventually(lambda: not containers(engine), 30)
