"""FUNCTION: a Celery task, an MCP server, an HTTP server, a capability and an agent, called by a node."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import forget
from agents.testing import AgentKit, Turn
from agents.tools.mcp.pool import close_pools
from bus.celery_tasks.application import close_applications
from bus.payloads import ChildPayload, ToolPayload
from tests.agents.capabilities.conftest import COUNT, WHOLE
from tests.agents.injection.obedience import Site
from tests.agents.tools.mcp.conftest import FAKE
from tests.agents.workflows.flows import END, START, answer, chain, edges, events, labels, node, results, states, until
from tests.scripted_shop import ScriptedShop

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        server.pages["/count"] = (200, {"Content-Type": "application/json"}, b'{"words": 2}')
        yield server


@pytest.fixture
def shop(redis_url: str, deployment: str, tmp_path: Path) -> Iterator[ScriptedShop]:
    shop = ScriptedShop(redis_url, deployment)
    shop.describe(tmp_path / "tasks")
    yield shop
    shop.close()
    close_applications()


@pytest.fixture
def kit(site: Site, tmp_path: Path) -> Iterator[AgentKit]:
    """A kit with a capability of each kind, an MCP server, and the file of the shop's tasks where there is one."""
    folders = {name: tmp_path / name for name in ("capabilities", "servers", "tasks")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    (folders["capabilities"] / "count.py").write_text(COUNT)
    endpoint = {"runner": {"type": "http", "url": f"http://{site.host}/count"}, "labels": ["untrusted"]}
    for name, fields in {"count_words": {}, "count_there": endpoint}.items():
        (folders["capabilities"] / f"{name}.yaml").write_text(json.dumps(WHOLE | fields))
    (folders["servers"] / "fake.yaml").write_text(json.dumps({"command": sys.executable, "args": ["-I", str(FAKE)]}))
    places = {"capabilities": "capabilities_dir", "servers": "mcp_servers_dir", "tasks": "celery_tasks_dir"}
    forget()
    with AgentKit(settings={places[name]: str(folder) for name, folder in folders.items()}) as agent_kit:
        yield agent_kit
    close_pools()
    forget()


def calling(tool: str, more: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """Return the fields of a workflow with one call, whose failure leads elsewhere."""
    call = node("f", "FUNCTION", {"on_error": "branch", **(more or {})}, tool=tool, arguments=arguments)
    other = node("other", "TRANSFORM", output="{{ nodes.f.error.code }}")
    pairs = edges("start f", "f end", "f other error", "other end")
    return {"nodes": [START, call, other, END], "edges": pairs}


@pytest.mark.parametrize(
    ("tool", "arguments", "output", "read"),
    [
        ("count_words", {"text": "{{ input.text }}"}, {"words": 3}, []),
        ("count_there", {"text": "{{ input.text }}"}, {"words": 2}, ["untrusted"]),
        ("mcp:fake/echo", {"say": "{{ input.text }}"}, "one two three", ["untrusted"]),
        ("agent:writer", {"message": "{{ input.text }}"}, "Of one two three", ["model"]),
    ],
)
def test_a_node_calls_what_an_agents_tools_may_name(
    kit: AgentKit, site: Site, tool: str, arguments: dict[str, Any], output: Any, read: list[str]
) -> None:
    kit.agent("writer")
    kit.model.respond = lambda call: Turn(text=[f"Of {call.messages[-1]['content']}"])
    kit.workflow(**calling(tool, **arguments))
    handle = kit.start("flow", {"text": "one two three"})

    assert handle.result(30).output == output
    assert (results(kit, handle)["f"], labels(kit, handle)["f"]) == (("done", output), read)
    assert [event.step_id is not None for event in events(kit, handle) if isinstance(event, ToolPayload)] == [True]
    assert any("one two three" in request for request in site.asked) == (tool == "count_there")
    is_child = any(isinstance(event, ChildPayload) for event in events(kit, handle))
    assert is_child == tool.startswith("agent:")


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("count_words", {"words": "a"}, "arguments_invalid"),
        ("count_there", {"text": "a"}, "capability_failed"),
        ("mcp:fake/fail", {}, "tool_failed"),
    ],
)
def test_a_call_that_fails_leads_elsewhere(
    kit: AgentKit, site: Site, tool: str, arguments: dict[str, Any], code: str
) -> None:
    site.pages["/count"] = (500, {}, b"out of order")
    kit.workflow(**calling(tool, **arguments))
    handle = kit.start()

    assert handle.result(30).output == code
    assert states(kit, handle)["f"] == "failed error"


@pytest.mark.parametrize("decision", ["take_as_done", "fail"])
def test_a_call_of_a_server_that_crashes_asks_a_person(kit: AgentKit, decision: str) -> None:
    kit.workflow(**chain(node("f", "FUNCTION", tool="mcp:fake/crash")))
    handle = kit.start()

    answer(handle, decision)

    assert handle.result(30).status == ("succeeded" if decision == "take_as_done" else "failed")


def test_a_node_waits_for_its_celery_task_without_a_worker(shop: ScriptedShop, kit: AgentKit) -> None:
    kit.workflow(**calling("celery:shop.refund", number="{{ input.number }}"))
    handle = kit.start("flow", {"number": "A-1"})
    task = shop.take()
    until(handle, "waiting")
    row = kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id)
    assert (row.owner, row.reason, task.arguments) == (None, "task", {"number": "A-1"})

    shop.succeed(task, {"paid": 1})

    assert handle.result(30).output == {"paid": 1}
    assert shop.waiting() == 0, "it was sent once"


def test_a_celery_task_that_fails_leads_elsewhere(shop: ScriptedShop, kit: AgentKit) -> None:
    kit.workflow(**calling("celery:shop.refund", number="A-1"))
    handle = kit.start()

    shop.fail(shop.take(), ValueError("no such order"))

    assert handle.result(30).output == "tool_failed"
    assert "no such order" in str(results(kit, handle)["f"])
