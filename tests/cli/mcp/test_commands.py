"""`mcp servers`, `tools`, `call` and `inspect`, as a person types them, on SQL alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from agents.catalogue import forget
from agents.tools.mcp.pool import close_pools
from cli.main import status_of
from config.database.migrate import migrate
from config.settings import Settings
from tests.agents.tools.mcp.conftest import FAKE

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
AGENT = {"model": "demo/assistant", "system_prompt": "x", "tools": ["mcp:files/echo"]}
REMOTE = {"type": "object", "properties": {"x": {"$ref": "https://example.org/x"}}}
TOOLS = {"echo": {"description": "Say it."}, "redefine": {}, "crash": {}, "fetch": {"inputSchema": REMOTE}, "a b": {}}
Type = Callable[..., int]
Serve = Callable[..., None]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Writes a server's file; ``tools`` are those that it lists."""
    folder = tmp_path / "servers"
    folder.mkdir()

    def written(name: str, tools: dict[str, Any] | None = None, **fields: Any) -> None:
        definition: dict[str, Any] = {"command": sys.executable, "args": ["-I", str(FAKE)], **fields}
        if tools is not None:
            definition["env"] = {"FAKE_TOOLS": json.dumps(tools)}
        (folder / f"{name}.yaml").write_text(json.dumps(definition))

    written("files", TOOLS, included_tools=["echo", "redefine", "fetch", "missing"])
    return written


@pytest.fixture
def type_(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command into this test's own state folder; returns its exit status."""
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "tester.yaml").write_text(json.dumps({"name": "Tester", **AGENT}))
    override = {"echo": {"confirm": True}}
    (agents / "careful.yaml").write_text(json.dumps({"name": "Careful", "tool_overrides": override, **AGENT}))
    before = Path.cwd()
    for name, value in {"STATE_DIR": "state", "AGENTS_DIR": "agents", "MCP_SERVERS_DIR": "servers"}.items():
        monkeypatch.setenv(f"CALLBOARD_{name}", str(tmp_path / value))
    monkeypatch.setenv("CALLBOARD_DEFAULT_AGENT", "tester")
    migrate(Settings(state_dir=tmp_path / "state"))
    yield lambda *words: status_of(["mcp", *words])
    os.chdir(before)
    close_pools()
    forget()


@pytest.mark.parametrize("command", ["servers", "tools"])
def test_without_usable_servers_the_reason_is_said(
    command: str, type_: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "others"
    monkeypatch.setenv("CALLBOARD_MCP_SERVERS_DIR", str(folder))

    assert type_(command) == 0
    assert f"There is no folder {folder}" in "".join(capsys.readouterr())
    folder.mkdir()
    assert type_(command) == 0
    assert f"describe one in {folder} (docs/mcp-servers.md)." in "".join(capsys.readouterr())
    (folder / "stripe.yaml").write_text("command: x\ndisabled: true\n")
    assert type_(command) == 0
    assert "disabled" in capsys.readouterr().out


def test_servers_are_listed_with_their_state_and_what_is_pinned(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("stripe", disabled=True)
    assert type_("servers") == 0
    before = capsys.readouterr()
    assert "not used yet" in before.out
    assert "no worker is alive" in before.err
    type_("call", "files", "echo", '{"say": "x"}')
    serve("broken", comand="x")
    capsys.readouterr()

    assert type_("servers", "--json") == 1

    by_name = {row["name"]: row for row in orjson.loads(capsys.readouterr().out)}
    assert {name: row["state"] for name, row in by_name.items()} == {
        "broken": "invalid",
        "files": "configured",
        "stripe": "disabled",
    }
    assert (by_name["files"]["pinned_tools"], len(by_name["files"]["manifest"])) == (3, 64)
    assert "Did you mean 'command'?" in by_name["broken"]["reason"]


def test_tools_are_listed_as_agents_get_them_and_the_others_with_the_reason(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("files", TOOLS)
    assert type_("tools", "files", "--json") == 0

    by_name = {row["tool"]: row for row in orjson.loads(capsys.readouterr().out)}
    assert (by_name["echo"]["state"], by_name["echo"]["effect"]) == ("new", "unsafe")
    assert "is not local" in by_name["fetch"]["reason"]
    assert "no name by the protocol" in by_name["a b"]["reason"]

    serve("files", TOOLS, included_tools=["echo", "missing"])
    assert type_("tools") == 0
    output = capsys.readouterr().out
    assert "files: 1 of its 5 tools may be used; its hints are not trusted" in output
    assert "missing: the server does not have it" in output


def test_a_misspelt_tool_of_the_file_is_listed(
    type_: Type, serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("files", TOOLS)
    file = tmp_path / "servers" / "files.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tools": {"ecko": {"confirm": True}}}))

    assert type_("tools") == 0
    assert "ecko: the server does not have it" in capsys.readouterr().out


def test_tools_behind_those_that_are_read_are_said_to_be_unread(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("files", args=["-I", str(FAKE), "many_tools"], included_tools=["t1", "t2400"])

    assert type_("tools") == 0
    output = capsys.readouterr().out
    assert "files: 1 of its first 2,000 tools (no more are read) may be used" in output
    assert "t2400: the server does not have it among its first 2,000 tools (no more are read)" in output
    assert type_("inspect", "files") == 0
    assert "tools: 2,000 or more (1 included)" in capsys.readouterr().out


def test_a_changed_definition_is_shown_with_what_differs(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    type_("call", "files", "echo", '{"say": "x"}')
    serve("files", {**TOOLS, "echo": {"description": "Say it\u200b to the author."}})
    capsys.readouterr()

    assert type_("tools", "files") == 0

    output = capsys.readouterr().out
    assert "- Say it." in output
    assert "+ Say it⟨U+200B⟩ to the author." in output
    assert "mcp call files echo JSON" in output


def test_a_server_that_cannot_be_asked_costs_the_others_nothing(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("gone", command="no-such-program-here", args=[])

    assert type_("tools") == 1

    output = capsys.readouterr()
    assert "echo" in output.out
    assert "Install the program" in output.err


def test_a_call_is_a_run_of_an_agent_that_has_the_tool_or_of_none(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("spare", {"echo": {}})
    assert type_("call", "files", "echo", '{"say": "hello"}') == 0
    assert capsys.readouterr().out == "hello\n"
    assert type_("call", "spare", "echo", "--arguments", '{"say": "there"}') == 0
    assert capsys.readouterr().out == "there\n"

    assert type_("call", "files", "echo", '{"say": "x"}', "--agent", "careful", "--no-wait") == 3
    assert "approve" in capsys.readouterr().err
    status_of(["runs", "--json"])
    agents = [run["agent"] for run in orjson.loads(capsys.readouterr().out)]
    assert agents == ["careful", "mcp.spare", "tester"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fils", "echo"), "there is no MCP server 'fils'. Did you mean 'files'?"),
        (("files", "ecco"), "has no tool 'ecco' that may be used. Did you mean 'echo'?"),
        (("files", "fetch"), "is not local"),
        (("files", "echo", "[]"), "object"),
        (("files", "echo", "{}", "--arguments", "{}"), "write the arguments once"),
        (("files", "redefine", "--agent", "tester"), "does not have 'mcp:files/redefine'"),
        (("files", "echo", "--agent", "absent"), "absent"),
        (("off", "echo"), "is disabled; remove `disabled: true`"),
        (("broken", "echo"), "Did you mean 'command'?"),
        (("twin", "echo"), "rename one of them"),
    ],
    ids=["server", "tool", "schema", "no object", "twice", "agent", "no agent", "disabled", "broken", "two of a name"],
)
def test_what_cannot_be_called_is_said_with_its_remedy(
    type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    serve("off", disabled=True)
    serve("broken", comand="x")
    folder = Path(os.environ["CALLBOARD_MCP_SERVERS_DIR"])
    serve("twin")
    (folder / "twin.yml").write_text((folder / "twin.yaml").read_text())

    assert type_("call", *words) == 2
    assert message in capsys.readouterr().err


def test_a_server_is_inspected_in_each_era(type_: Type, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve("shop", args=[str(FAKE.with_name("sdk_server.py")), "stdio"], included_tools=["add"])

    assert type_("inspect", "shop", "--json") == 0
    modern = orjson.loads(capsys.readouterr().out)
    assert (modern["protocol"], modern["has_handshake"]) == ("2026-07-28", False)
    assert (modern["tools"], modern["included_tools"], modern["prompts"]) == (3, 1, 2)
    assert modern["ready_ms"] > 0

    assert type_("inspect", "files") == 0
    output = capsys.readouterr().out
    assert "2025-11-25, with the handshake" in output
    assert "tools: 5 (2 included)" in output
    assert "left out      a b" in output


@pytest.mark.parametrize(
    ("fields", "fault", "message"),
    [
        ({"command": "no-such-program-here", "args": []}, "no_program", "it ended with status 127"),
        ({"args": ["-I", str(FAKE), "exit"]}, "ended", "it ended with status 4"),
        ({"secrets": {"T": "env:NO_SUCH_VARIABLE_HERE"}}, None, "NO_SUCH_VARIABLE_HERE"),
    ],
    ids=["no program", "ends", "no secret"],
)
def test_what_is_wrong_with_an_inspected_server_is_said(
    type_: Type,
    serve: Serve,
    capsys: pytest.CaptureFixture[str],
    fields: dict[str, Any],
    fault: str | None,
    message: str,
) -> None:
    serve("sick", **fields)

    assert type_("inspect", "sick", "--json") == 1

    report = orjson.loads(capsys.readouterr().out)
    assert report.get("fault") == fault
    assert message in report["problem"]
    assert ("remedy" in report) == (fault is not None)
    assert type_("inspect", "sick") == 1
    assert "cannot be used" in capsys.readouterr().err or fault is None
