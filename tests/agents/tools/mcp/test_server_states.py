"""How servers are said to be: by their files, in one process, and in the workers together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.tools.mcp import server_states as states
from agents.tools.mcp.server_states import McpServerState, McpState, ServerFiles, fleet_states, of_file
from agents.tools.mcp.unaccepted_tools import UnacceptedTools


def test_what_is_not_known_is_left_out() -> None:
    assert McpServerState(state=McpState.IDLE).plain() == {"state": "idle"}


def test_a_reason_has_no_secret_and_an_end() -> None:
    reason = "password=hunter2hunter2 " + "x" * 2000

    reason_text = McpServerState(state=McpState.BACKING_OFF, reason=reason).plain()["reason"]

    assert "hunter2" not in reason_text
    assert len(reason_text) <= states.MAX_REASON + 20


def test_files_are_read_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files.yaml").write_text("command: x\n")
    (tmp_path / "stripe.yaml").write_text("command: x\ndisabled: true\n")
    (tmp_path / "broken.yaml").write_text("comand: x\n")
    files = ServerFiles([tmp_path])

    servers, broken = files.read()
    assert {name: str(of_file(server).state) for name, server in servers.items()} == {
        "files": "configured",
        "stripe": "disabled",
    }
    assert "Did you mean 'command'?" in broken["broken"]

    monkeypatch.setattr(states, "read_servers", None)
    assert files.read() == (servers, broken)
    monkeypatch.undo()
    (tmp_path / "broken.yaml").unlink()
    assert files.read()[1] == {}


def worker(**servers: dict[str, Any]) -> dict[str, Any]:
    return {"mcp_servers": servers}


def test_the_most_urgent_state_of_the_workers_is_the_servers() -> None:
    fine = {"state": "ready", "transport": "stdio", "sessions": 2, "tools": 3}
    away = {"state": "backing_off", "transport": "stdio", "reason": "it ended with status 4", "next_try_s": 1.5}

    states = fleet_states(
        [worker(files=fine), worker(files=away), worker(files=fine | {"changed": ["b", "a"]}), worker()]
    )

    assert states == {
        "files": {
            "state": "backing_off",
            "transport": "stdio",
            "reason": "it ended with status 4",
            "next_try_s": 1.5,
            "workers": {"backing_off": 1, "ready": 2},
            "sessions": 4,
            "changed": ["a", "b"],
        }
    }


def test_a_state_of_another_release_comes_last() -> None:
    states = fleet_states([worker(files={"state": "dreaming"}), worker(files={"state": "idle"})])

    assert (states["files"]["state"], states["files"]["workers"]) == ("idle", {"dreaming": 1, "idle": 1})


def test_a_changed_tool_is_no_longer_one_when_any_process_accepts_it() -> None:
    accepted, changed = {"read": "d1", "list": "d2"}, UnacceptedTools()
    changed.note("files", "read", now="d9", accepted="d1")
    changed.note("files", "list", now="d8", accepted="d2")
    assert changed.changed(lambda server: accepted) == {"files": ["list", "read"]}

    accepted["read"] = "d9"
    changed.note("files", "list", now="d2", accepted="d2")

    assert changed.changed(lambda server: accepted) == {}
