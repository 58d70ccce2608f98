"""Servers that ask a person during a call: the run waits without a worker, and the answer reaches the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import forget
from agents.handle import RunHandle
from agents.testing import AgentKit
from agents.tools.mcp.pool import close_pools
from bus.journal.approvals import Decision
from bus.payloads import ApprovalPayload, EndPayload, ToolLogPayload, ToolResultPayload
from tests.agents.tools.mcp.calls.test_notifications import TALKING
from tests.agents.tools.mcp.conftest import FAKE

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AgentKit]:
    talking = {"command": sys.executable, "args": [str(TALKING), "stdio"]}
    fake = {"command": sys.executable, "args": ["-I", str(FAKE)]}
    pure = {"tools": {name: {"effect": "pure"} for name in ("elicit", "book")}}
    files = {
        "new": talking,
        "old": {**talking, "mode": "legacy", "elicitation": "always"},
        "careful": {**talking, "mode": "legacy"},
        "silent": {**talking, "elicitation": "never"},
        "mute": {**talking, "mode": "legacy", "elicitation": "never"},
        "fake": {**fake, **pure},
    }
    for name, fields in files.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps(fields))
    with AgentKit(settings={"mcp_servers_dir": str(tmp_path)}) as agent_kit:
        for name in files:
            agent_kit.agent(name, tools=[f"mcp:{name}"])
        yield agent_kit
    close_pools()
    forget()


def called(kit: AgentKit, server: str, tool: str, **arguments: Any) -> RunHandle:
    return kit.runner.call_tool(tool, arguments, agent_id=server)


def question(handle: RunHandle) -> dict[str, Any]:
    """Return the question that the run waits with."""
    next(event for event in handle.events() if isinstance(event, ApprovalPayload))
    (approval,) = handle.approvals()
    return dict(approval)


def answered(handle: RunHandle, **decision: Any) -> EndPayload:
    fields = decision or {"decision": "reject"}
    handle.decide(question(handle)["approval_id"], Decision(**fields), by="ann")
    return handle.result(30)


def notes(handle: RunHandle) -> str:
    return "\n".join(event.message for event in handle.events() if isinstance(event, ToolLogPayload))


@pytest.mark.parametrize("server", ["new", "old"])
def test_a_server_asks_and_gets_the_answer(kit: AgentKit, server: str) -> None:
    handle = called(kit, server, "book", name="ann")
    approval = question(handle)

    assert handle.status() == "waiting"
    assert approval["reason"] == f"The MCP server {server} asks: For how many?"
    assert approval["input_schema"]["properties"]["guests"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 12,
        "title": "Guests",
    }
    assert "state" not in approval
    end = answered(handle, decision="answer", result={"guests": 4})
    assert (end.status, end.output) == ("succeeded", {"result": "ann: 4"})


@pytest.mark.parametrize("server", ["new", "old"])
def test_the_answer_reaches_another_process_of_the_server(kit: AgentKit, server: str) -> None:
    handle = called(kit, server, "book", name="ann")
    question(handle)
    close_pools()  # as when another worker takes the run

    assert answered(handle, decision="answer", result={"guests": 4}).output == {"result": "ann: 4"}


def test_a_question_that_is_rejected_rejects_the_call(kit: AgentKit) -> None:
    handle = called(kit, "new", "book", name="ann")

    assert answered(handle).status == "failed"
    (result,) = (event for event in handle.events() if isinstance(event, ToolResultPayload))
    assert result.outcome == "refused"


def test_a_call_of_an_older_server_that_may_count_twice_is_not_made_again(kit: AgentKit) -> None:
    handle = called(kit, "careful", "book", name="ann")

    assert handle.result(30).status == "failed"
    assert handle.approvals() == []
    assert "write `elicitation: always` in the server's file" in notes(handle)


@pytest.mark.parametrize("server", ["silent", "mute"])
def test_a_server_that_may_not_ask_asks_no_person(kit: AgentKit, server: str) -> None:
    handle = called(kit, server, "book", name="ann")

    assert handle.result(30).status == "failed"
    assert not [event for event in handle.events() if isinstance(event, ApprovalPayload)]


def test_a_form_for_a_secret_is_declined_and_said(kit: AgentKit) -> None:
    handle = called(kit, "fake", "elicit", message="Sign in", fields={"password": {"type": "string"}})

    assert handle.result(30).output == "decline"
    assert "no person is asked: the field 'password' asks for a secret" in notes(handle)


def test_an_address_is_a_question_with_its_host(kit: AgentKit) -> None:
    handle = called(kit, "fake", "elicit", url="https://login.example.org/a")

    assert "at login.example.org in your browser" in question(handle)["reason"]
    assert answered(handle, decision="answer", result={"opened": True}).output == "accept"


def test_a_refusal_that_names_an_address_asks_for_it(kit: AgentKit, tmp_path: Path) -> None:
    arguments = {"url": "https://login.example.org/a", "file": str(tmp_path / "opened")}
    refused, taken = (called(kit, "fake", "address", **arguments) for _ in range(2))
    assert "at login.example.org in your browser" in question(refused)["reason"]
    assert answered(refused, decision="answer", result={"opened": True}).status == "failed"  # it is not asked twice

    question(taken)
    (tmp_path / "opened").touch()

    assert answered(taken, decision="answer", result={"opened": True}).output == "opened"
    odd = called(kit, "fake", "address", **arguments | {"url": "javascript:alert(1)", "file": "/nothing"})
    assert odd.result(30).status == "failed"
    assert odd.approvals() == []


def test_a_storm_of_questions_asks_a_person_once(kit: AgentKit) -> None:
    handle = called(kit, "fake", "elicit", message="More?", fields={"a": {"type": "boolean"}}, count=500)

    assert len(handle.approvals()) <= 1
    assert question(handle)["reason"] == "The MCP server fake asks: More?"
    end = answered(handle, decision="answer", result={"a": True})
    assert end.output == "accept" * 10 + "decline" * 490
