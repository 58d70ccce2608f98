"""What a call reports while it is under way: events of its run, before the call's result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agents.catalogue import forget
from agents.testing import AgentKit, Call, Turn
from agents.tools import current_call, tool
from agents.tools.mcp.pool import close_pools
from bus.payloads import ToolLogPayload, ToolProgressPayload, ToolResultPayload
from tests.agents.tools.mcp.conftest import FAKE


@tool(effect="pure", timeout_s=10)
def copy(files: int) -> str:
    """Copy files."""
    for number in range(files):
        current_call().progress(number + 1, files, f"file {number + 1}")
    current_call().log("one file is empty", level="warning", logger="copy")
    return "copied"


Report = ToolProgressPayload | ToolLogPayload | ToolResultPayload


def reported(kit: AgentKit, name: str, **arguments: object) -> list[Report]:
    """Return what a call's run has of it after its start."""
    kit.model.script(Turn(calls=(Call(name=name, arguments=arguments),)), Turn(text="Done."))
    return [event for event in kit.play().events if isinstance(event, Report)]


def test_a_tools_reports_are_events_before_its_result() -> None:
    with AgentKit(tools=[copy]) as kit:
        *reports, result = reported(kit, "copy", files=3000)

    assert isinstance(result, ToolResultPayload)
    progress = [event for event in reports if isinstance(event, ToolProgressPayload)]
    (line,) = (event for event in reports if isinstance(event, ToolLogPayload))
    assert len(progress) < 20, "they flooded the run's log"
    assert (progress[-1].done, progress[-1].total, progress[-1].message) == (3000, 3000, "file 3000")
    assert (line.level, line.message, line.logger) == ("warning", "one file is empty", "copy")
    own: list[Report] = [line, *progress]
    assert {(event.call_id, event.step_id) for event in own} == {(result.call_id, result.step_id)}


@pytest.mark.parity
@pytest.mark.timeout(60)
def test_a_server_that_floods_costs_a_few_events(tmp_path: Path) -> None:
    words = {"command": sys.executable, "args": ["-I", str(FAKE)], "max_bytes": 8 * 1024 * 1024}
    (tmp_path / "fake.yaml").write_text(json.dumps(words))
    with AgentKit(settings={"mcp_servers_dir": str(tmp_path)}) as kit:
        kit.agent(tools=["mcp:fake/flood", "mcp:fake/log"])
        *reports, flooded = reported(kit, "flood", count=5000)
        (line, logged) = reported(kit, "log", count=1, length=4 * 1024 * 1024)
    close_pools()
    forget()

    assert isinstance(flooded, ToolResultPayload)
    assert flooded.outcome == "done"
    assert len(reports) < 300
    assert isinstance(line, ToolLogPayload)
    assert line.message == "x" * 1000
    assert isinstance(logged, ToolResultPayload)
    assert logged.outcome == "done"
