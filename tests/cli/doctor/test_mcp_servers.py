"""What the doctor says about MCP servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.doctor.mcp_servers import check_mcp_servers
from config.settings import Settings
from tests.agents.tools.mcp.conftest import FAKE
from tests.cli.doctor.conftest import only, verdicts

pytestmark = pytest.mark.parity
Write = Callable[..., Settings]


@pytest.fixture
def write(settings: Settings, tmp_path: Path) -> Write:
    """Writes a server's file and returns the settings that name its folder."""

    def written(name: str = "fake", *words: str, **fields: Any) -> Settings:
        folder = tmp_path / "mcp_servers"
        folder.mkdir(exist_ok=True)
        content = {"command": sys.executable, "args": ["-I", str(FAKE), *words], **fields}
        (folder / f"{name}.yaml").write_text(json.dumps(content))
        return settings.model_copy(update={"mcp_servers_dir": str(folder)})

    return written


def test_nothing_is_said_without_servers(settings: Settings, tmp_path: Path) -> None:
    assert list(check_mcp_servers(settings.model_copy(update={"mcp_servers_dir": str(tmp_path)}))) == []


def test_a_folder_that_is_not_there_is_named(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "mistyped"

    verdict, text = only(check_mcp_servers(settings.model_copy(update={"mcp_servers_dir": str(folder)})))

    assert verdict == "warn"
    assert f"there is no folder {folder}; correct CALLBOARD_MCP_SERVERS_DIR" in text


def test_a_server_that_answers_is_ok(write: Write) -> None:
    verdict, text = only(check_mcp_servers(write(included_tools=["echo", "fail"])))

    assert verdict == "ok"
    assert text.startswith("fake: 2 of its ")


def test_an_included_tool_that_is_not_there_is_named(write: Write) -> None:
    verdict, text = only(check_mcp_servers(write(included_tools=["ecco"])))

    assert verdict == "warn"
    assert "no tool 'ecco'" in text
    assert "Did you mean 'echo'" in text


def test_a_misspelt_tool_of_the_file_is_named(write: Write) -> None:
    verdict, text = only(check_mcp_servers(write(tools={"ecko": {"confirm": True}})))

    assert verdict == "warn"
    assert "no tool 'ecko', which" in text
    assert "fake.yaml has under `tools`. Did you mean 'echo'?" in text


def test_a_tool_behind_those_that_are_read_is_said_to_be_unread(write: Write) -> None:
    first = "its first 2,000 tools (no more are read)"

    assert (
        f"no tool 't2400' among {first}, which"
        in only(check_mcp_servers(write("a", "many_tools", included_tools=["t2400"])))[1]
    )
    (sentence,) = [text for _, text in check_mcp_servers(write("a", "many_tools"))]
    assert sentence == f"a: 2000 of {first} may be used"


def test_tools_that_cannot_be_used_are_not_counted(write: Write) -> None:
    remote = {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}
    tools = {"echo": {}, "remote": {"inputSchema": remote}, "no name": {}, "other": {"inputSchema": remote}}
    settings = write(env={"FAKE_TOOLS": json.dumps(tools)}, included_tools=["echo", "remote"])

    verdict, text = only(check_mcp_servers(settings))

    assert verdict == "warn"
    assert text == "fake: 1 of its 4 tools may be used; `./callboard mcp tools fake` says why remote may not"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "no-such-program-here"}, "Install the program"),
        ({"command": str(FAKE)}, "may execute (`chmod +x`)"),
        ({"args": ["-m", "no_such_package_here"]}, "Install the missing package"),
        ({"args": ["-c", "raise SystemExit(3)"]}, "status 3. Its standard error says why"),
        ({"args": ["-I", str(FAKE), "silent"], "start_s": 0.3}, "not ready within 0.3 seconds. Raise `start_s`"),
        ({"secrets": {"TOKEN": "env:NO_SUCH_VARIABLE_HERE"}}, "NO_SUCH_VARIABLE_HERE is missing"),
    ],
    ids=["no program", "not executable", "no package", "ends", "silent", "no secret"],
)
def test_what_is_wrong_is_said_with_its_remedy(write: Write, fields: dict[str, Any], message: str) -> None:
    verdict, text = only(check_mcp_servers(write(**fields)))

    assert verdict == "fail"
    assert message in text


def test_a_disabled_server_is_not_started(write: Write) -> None:
    verdict, text = only(check_mcp_servers(write("stripe", "exit", disabled=True)))

    assert (verdict, text.partition(" (")[0]) == ("ok", "stripe: disabled, so it is not started")


def test_each_broken_server_is_a_failure_of_its_own(write: Write) -> None:
    write("ends", "exit")
    write("odd name")

    findings = list(check_mcp_servers(write()))

    assert sorted(verdicts(iter(findings))) == ["fail", "fail", "ok"]
    assert any("a package is missing" in text for _, text in findings)
