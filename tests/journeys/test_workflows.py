"""Workflows on a real fleet: what waits outlives all its processes, and what a worker had done is not done again."""

from __future__ import annotations

import json
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.agents.workflows.flows import END, START, chain, edges, node
from tests.journeys.neighbour import until
from tests.journeys.up import Up, WarmingUp
from tests.model_server import ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

TIMER_S = 2


def write_workflow(folder: Path, model: ModelServer, **fields: Any) -> None:
    folder.mkdir()
    fields = {"name": "Flow", "model": "openai/gpt-5-mini", "api_base": model.url, **fields}
    (folder / "flow.yaml").write_text(yaml.safe_dump(fields))


def opened(tmp_path: Path, up_class: type[Up] = Up) -> Up:
    folders = {"CALLBOARD_AGENTS_DIR": str(tmp_path / "agents"), "OPENAI_API_KEY": "unused"}
    return up_class(tmp_path / "state", "--port", "0", "--workers", "1", **folders)


def post(up: Up, path: str, body: Any) -> Any:
    request = urllib.request.Request(up.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def kill_all(up: Up) -> None:
    """End all processes at once, as a machine does whose power is cut."""
    children = up.children()
    up.process.kill()
    for child in children:
        with suppress(psutil.NoSuchProcess):  # it ends with its supervisor
            child.kill()
    up.process.wait()


def done(events: list[dict[str, Any]]) -> list[str]:
    return [event["node_id"] for event in events if event["type"] == "node" and event["status"] == "done"]


def test_a_run_that_waits_outlives_every_process_and_asks_its_model_once(tmp_path: Path) -> None:
    nodes = [
        START,
        node("draft", "LLM", prompt="Write about {{ input.about }}."),
        node("paid", "WAIT", signal="paid"),
        node("later", "WAIT", seconds=TIMER_S),
        {**END, "config": {"output": ["{{ nodes.draft }}", "{{ nodes.paid }}"]}},
    ]
    lines = edges("start draft", "draft paid", "draft later", "paid end", "later end")
    with ModelServer() as model:
        model.respond = lambda body: Turn(text="A draft.")
        write_workflow(tmp_path / "agents", model, nodes=nodes, edges=lines)
        with opened(tmp_path) as up:
            run_id = post(up, "/v1/runs", {"workflow": "flow", "input": {"about": "lamps"}})["run_id"]
            until(lambda: up.get(f"/v1/runs/{run_id}")["status"] == "waiting", 60, "it waits for its signal")
            kill_all(up)
        time.sleep(TIMER_S)  # nothing is there when the time is over
        with opened(tmp_path) as up:
            post(up, f"/v1/runs/{run_id}/signals/paid", {"amount": 3})
            events = up.events(run_id)

        assert (events[-1]["status"], events[-1]["output"]) == ("succeeded", ["A draft.", {"amount": 3}])
        assert sorted(done(events)) == ["draft", "end", "later", "paid", "start"]
        assert len(model.requests) == 1


def test_a_worker_that_is_killed_in_a_list_loses_no_item_and_asks_again_for_none_that_was_done(tmp_path: Path) -> None:
    each = node("each", "FOR_EACH", items=list(range(6)), at_once=1)
    fields = chain(each)
    fields["nodes"].append(node("say", "LLM", prompt="Number {{ item }}."))
    fields["edges"] += edges("each say foreach-body")
    fields["nodes"][-2]["config"] = {"output": "{{ nodes.each }}"}
    with ModelServer() as model:
        model.respond = lambda body: (
            Turn(text=["cut ", "off"], stall_after=1)
            if len(model.requests) == 4
            else Turn(text=body["messages"][-1]["content"])
        )
        write_workflow(tmp_path / "agents", model, **fields)
        with opened(tmp_path, WarmingUp) as up:
            run_id = post(up, "/v1/runs", {"workflow": "flow", "input": {}})["run_id"]
            until(lambda: len(model.requests) == 4, 60, "the fourth item's model is asked")
            for worker in up.children("celery"):
                worker.kill()
            events = up.events(run_id)

        assert (events[-1]["status"], events[-1]["output"]) == ("succeeded", [f"Number {n}." for n in range(6)])
        assert len(model.requests) == 7
