"""Servers that ask a model during a call: the run's own, as a step of the run, if their file allows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agents.catalogue import forget
from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.mcp.pool import close_pools
from bus.payloads import ResponsePayload, ToolLogPayload
from config.database.tables import steps
from tests.agents.governance.engine.engine_server import EngineServer
from tests.agents.tools.mcp.calls.test_notifications import TALKING
from tests.agents.tools.mcp.conftest import FAKE

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AgentKit]:
    with sampling_kit(tmp_path) as agent_kit:
        yield agent_kit


@contextmanager
def sampling_kit(tmp_path: Path, **settings: str) -> Iterator[AgentKit]:
    """Have agents that use servers which ask for samplings."""
    servers = tmp_path / "servers"
    servers.mkdir()
    talking = {"command": sys.executable, "args": [str(TALKING), "stdio"]}
    allowed = {"sampling": {"allowed": True, "max_calls": 2, "max_tokens": 20}}
    files = {
        "new": talking | allowed,
        "old": talking | allowed | {"mode": "legacy"},
        "new_off": talking,
        "old_off": {**talking, "mode": "legacy"},
        "fake": {"command": sys.executable, "args": ["-I", str(FAKE)], **allowed},
    }
    for name, fields in files.items():
        (servers / f"{name}.yaml").write_text(json.dumps(fields))
    (tmp_path / "policy.yaml").write_text("rules: []")
    settings |= {"mcp_servers_dir": str(servers), "policy": str(tmp_path / "policy.yaml")}
    with AgentKit(settings=settings) as agent_kit:
        for name in files:
            agent_kit.agent(name, tools=[f"mcp:{name}"])
        yield agent_kit
    close_pools()
    forget()


def rows(kit: AgentKit, handle: RunHandle) -> list[Any]:
    """Return the steps of a run, in order."""
    with kit.runner.journal.database.read() as connection:
        query = select(steps).where(steps.c.run_id == handle.run_id).order_by(steps.c.number)
        return list(connection.execute(query).all())


def notes(handle: RunHandle) -> str:
    return "\n".join(event.message for event in handle.events() if isinstance(event, ToolLogPayload))


@pytest.mark.parametrize("server", ["new", "old"])
def test_a_sampling_is_a_model_call_of_the_run(kit: AgentKit, server: str) -> None:
    kit.model.script(Turn(calls=(Call(name="colour"),)), Turn(text="Blue."), Turn(text="It is blue."))

    handle = kit.run(agent_id=server)
    end = handle.result(30)

    assert end.output == "It is blue."
    (sampled,) = (row for row in rows(kit, handle) if row.kind == "sample")
    assert (sampled.status, sampled.name) == ("done", kit.model.name)
    assert sampled.decision_json is not None
    assert sampled.ended_ms is not None
    used = [json.loads(row.usage_json)["input_tokens"] for row in rows(kit, handle) if row.usage_json]
    assert len(used) == 3
    assert end.usage is not None
    assert end.usage["input_tokens"] == sum(used)
    assert end.steps == 4
    streamed = "".join(event.content for event in handle.events() if isinstance(event, ResponsePayload))
    assert streamed == "It is blue."
    request = kit.model.requests[1]
    assert [message["content"] for message in request.messages[1:]] == ["Name a colour."]
    assert "Be brief." in request.messages[0]["content"]
    assert request.params["max_tokens"] == 20
    assert not request.tools
    assert f"The MCP server {server} asks the run's model: it was answered." in notes(handle)


@pytest.mark.parametrize("server", ["new_off", "old_off"])
def test_a_server_that_may_not_gets_no_answer(kit: AgentKit, server: str) -> None:
    kit.model.script(Turn(calls=(Call(name="colour"),)), Turn(text="Done."))

    handle = kit.run(agent_id=server)

    assert handle.result(30).output == "Done."
    assert [row.kind for row in rows(kit, handle)] == ["model", "tool", "model"]


def test_the_policy_decides_about_a_sampling(kit: AgentKit, tmp_path: Path) -> None:
    rule = "{name: one, point: model, verdict: block, reason: Too much., when: {spent: {steps: 2}}}"
    (tmp_path / "policy.yaml").write_text(f"rules: [{rule}]")
    kit.model.script(Turn(calls=(Call(name="colour"),)))

    handle = kit.run(agent_id="old")

    assert handle.result(30).reason == "policy_refused"
    (sampled,) = (row for row in rows(kit, handle) if row.kind == "sample")
    assert (sampled.status, json.loads(sampled.decision_json)["rule"]) == ("failed", "one")
    assert len(kit.model.requests) == 1
    assert "the model was not asked, or did not answer: policy_refused" in notes(handle)


def test_the_engine_sees_all_that_a_server_has_the_model_read(tmp_path: Path) -> None:
    with EngineServer() as engine, sampling_kit(tmp_path, governance_url=engine.url) as kit:
        kit.model.script(Turn(calls=(Call(name="colour"),)), Turn(text="Blue."), Turn(text="It is blue."))

        kit.run(agent_id="old").result(30)

    (_, sampled, _) = engine.of("ActivityStarted", "model")
    (activity,) = sampled["activity_input"]
    seen = [*(message["content"] for message in activity["earlier"]), activity["prompt"]]
    assert seen == [message["content"] for message in kit.model.requests[1].messages]


def test_a_loop_of_samplings_ends(kit: AgentKit) -> None:
    request = {"method": "sampling/createMessage", "count": 100, "fields": {}}
    kit.model.script(Turn(calls=(Call(name="elicit", arguments=request),)), *[Turn(text="Blue.")] * 3)

    handle = kit.run(agent_id="fake")

    assert handle.result(30).output == "Blue."
    assert [row.kind for row in rows(kit, handle)] == ["model", "tool", "sample", "sample", "model"]
    assert "at most 2 samplings a call" in notes(handle)
