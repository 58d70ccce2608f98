"""Tools that `callboard_client.tools` serves from another project: their effects, their times and their keys."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import find_tools, forget
from agents.testing import AgentKit, Call, Turn
from agents.tools.mcp.pool import close_pools
from bus.payloads import ToolResultPayload
from config.effects import Effect
from config.settings import Settings
from tests.clients.python.served_tools import command, make_project, variables

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes the file of a server of a project's tools, and returns its folder."""
    project = make_project(tmp_path / "project")

    def written(**fields: Any) -> Path:
        folder = tmp_path / "mcp_servers"
        folder.mkdir(exist_ok=True)
        path = f"{variables()['PYTHONPATH']}:{project}"
        program = {"command": sys.executable, "args": command("shop.tools")[1:], "env": {"PYTHONPATH": path}}
        (folder / "shop.yaml").write_text(json.dumps({**program, **fields}))
        return folder

    yield written
    close_pools()
    forget()


def effects(write: Write, settings: Settings, **fields: Any) -> dict[str, tuple[Effect, float | None]]:
    own = settings.model_copy(update={"mcp_servers_dir": str(write(**fields))})
    tools = find_tools("mcp:shop", own)
    return {tool.name: (tool.effect, tool.timeout_s) for tool in tools if tool.name in ("price", "send", "pay", "meet")}


def test_effects_and_times_are_those_of_the_project_where_its_hints_are_trusted(
    write: Write, settings: Settings
) -> None:
    tool_options = {"price": {"timeout_s": 9}, "send": {"effect": "unsafe"}}

    assert effects(write, settings, trusted_hints=True, tools=tool_options) == {
        "price": (Effect.PURE, 9),
        "send": (Effect.UNSAFE, None),
        "pay": (Effect.KEYED, None),
        "meet": (Effect.UNSAFE, None),
    }


def test_without_trust_each_call_is_unsafe(write: Write, settings: Settings) -> None:
    assert set(effects(write, settings).values()) == {(Effect.UNSAFE, None)}


def test_a_keyed_call_gets_its_key_and_one_that_takes_too_long_is_unknown(write: Write, settings: Settings) -> None:
    own = settings.model_copy(update={"mcp_servers_dir": str(write(trusted_hints=True))})
    with AgentKit(tools=find_tools("mcp:shop", own), on_unknown="tell_model") as kit:
        calls = (
            Call(name="price", arguments={"title": "Emma"}),
            Call(name="pay", arguments={"euros": 2}),
            Call(name="hang", arguments={}),
        )
        kit.model.script(*(Turn(calls=(call,)) for call in calls), Turn(text="Done."))
        handle = kit.run()
        handle.result(30)
        events = [event for event in handle.events() if isinstance(event, ToolResultPayload)]

    assert [(event.name, event.outcome) for event in events] == [
        ("price", "done"),
        ("pay", "done"),
        ("hang", "unknown"),
    ]
    assert events[0].result == {"result": 7}
    assert str(events[1].result).startswith("2.00 paid with ")
    assert "None" not in str(events[1].result)
