"""An agent whose MCP server reports and asks, in an installation as users start it: over HTTP, through a worker."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agents.tools.mcp.calls.test_notifications import TALKING
from tests.journeys.up import Up
from tests.processes import folder_variables

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


def talking_up(folder: Path) -> Up:
    """Return an installation whose agent ``waiter`` uses the talking server, in both eras."""
    talking = {"command": sys.executable, "args": [str(TALKING), "stdio"], "elicitation": "always"}
    files = {
        "servers/new.yaml": talking,
        "servers/old.yaml": talking | {"mode": "legacy"},
        "agents/waiter.yaml": _agent("mcp:new/book", "mcp:new/report"),
        "agents/older.yaml": _agent("mcp:old/book"),
    }
    for name, fields in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(yaml.safe_dump(fields))
    variables = folder_variables(folder) | {
        "CALLBOARD_MCP_SERVERS_DIR": str(folder / "servers"),
        "CALLBOARD_DEFAULT_AGENT": "waiter",
    }
    return Up(folder / "state", "--port", "0", "--workers", "1", **variables)


def _agent(*tools: str) -> dict[str, Any]:
    return {"name": "Waiter", "model": "demo/assistant", "system_prompt": "You are a test.", "tools": list(tools)}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with talking_up(tmp_path_factory.mktemp("installation")) as started:
        yield started
        started.stop()


def post(up: Up, path: str, body: dict[str, Any]) -> dict[str, Any]:
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(up.address + path, data, headers), timeout=30) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


def asked(up: Up, run_id: str) -> dict[str, Any]:
    """Return the run's question, once there is one."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        approvals = up.get(f"/v1/runs/{run_id}/approvals")["approvals"]
        if approvals:
            return dict(approvals[0])
        time.sleep(0.1)
    raise AssertionError(up.events(run_id))


@pytest.mark.parametrize("agent", ["waiter", "older"])
def test_a_servers_question_is_answered_over_http(up: Up, agent: str) -> None:
    run_id = post(up, "/v1/runs", {"agent": agent, "input": "book: name ann"})["run_id"]
    question = asked(up, run_id)

    assert up.get(f"/v1/runs/{run_id}")["status"] == "waiting"
    assert question["reason"].endswith("asks: For how many?")
    answer = {"decision": "answer", "result": {"guests": 4}}
    post(up, f"/v1/runs/{run_id}/approvals/{question['approval_id']}", answer)

    events = up.events(run_id)
    (result,) = (event for event in events if event["type"] == "tool_result")
    assert (result["outcome"], result["result"]) == ("done", {"result": "ann: 4"})
    assert events[-1]["status"] == "succeeded"


def test_a_calls_reports_come_before_its_result(up: Up) -> None:
    run_id = post(up, "/v1/runs", {"agent": "waiter", "input": "report: tag ann, count 3, pause_s 1.1"})["run_id"]

    events = up.events(run_id)

    kinds = [event["type"] for event in events]
    reports = [event for event in events if event["type"] == "tool_progress"]
    assert [event["message"] for event in reports][-1] == "ann 3"
    assert len(reports) == 3
    assert kinds.index("tool_result") > kinds.index("tool_log")
    assert [event["message"] for event in events if event["type"] == "tool_log"] == ["ann info", "ann error"]
