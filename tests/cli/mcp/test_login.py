"""`./callboard mcp login` and `logout`, and what the doctor says of a login."""

from __future__ import annotations

import base64
import json
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.process import use_process
from cli.main import status_of
from tests.agents.tools.mcp.oauth.login_server import LoginServer, browse, guarding

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoginServer]:
    """A server with a login, and this machine's browser."""
    opened: list[str] = []

    def open_browser(url: str) -> bool:
        opened.append(url)
        browse(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_browser)
    with guarding() as login_server:
        content = {"url": login_server.url, "oauth": {}, "mode": "legacy", "start_s": 10}
        (tmp_path / "tickets.yaml").write_text(json.dumps(content))
        (tmp_path / "files.yaml").write_text(json.dumps({"command": "files-server", "disabled": True}))
        monkeypatch.setenv("CALLBOARD_MCP_SERVERS_DIR", str(tmp_path))
        monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.setenv("CALLBOARD_SEAL_KEYS", base64.b64encode(bytes(32)).decode())
        yield login_server
    use_process(None)


def test_a_person_logs_in_and_out(server: LoginServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["mcp", "login", "tickets"]) == 0
    output = capsys.readouterr()

    assert f"Sign in at:\n\n{server.origin}/authorize?" in output.out
    assert "The agents of default are logged in at tickets." in output.out
    assert not [token for token in [*server.tokens, *server.refreshes] if token in output.out + output.err]

    assert status_of(["mcp", "logout", "tickets"]) == 0
    assert "logged out at tickets. Its tokens were revoked." in capsys.readouterr().out
    assert status_of(["mcp", "logout", "tickets"]) == 1
    assert "has no login" in capsys.readouterr().err


def test_a_login_at_a_disabled_server_can_be_ended(
    server: LoginServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["mcp", "login", "tickets"]) == 0
    file = tmp_path / "tickets.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "disabled": True}))

    assert status_of(["mcp", "logout", "tickets"]) == 0

    assert "Its tokens were revoked." in capsys.readouterr().out


@pytest.mark.parametrize("command", ["login", "logout"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ticket", "no MCP server 'ticket'. Did you mean 'tickets'? Known servers: files, tickets."),
        ("broken", "Did you mean 'command'?"),
    ],
    ids=["unknown", "broken"],
)
def test_a_server_that_is_none_is_said_as_by_the_other_commands(
    server: LoginServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str, message: str
) -> None:
    (tmp_path / "broken.yaml").write_text(json.dumps({"comand": "x"}))

    assert status_of(["mcp", command, name]) == 2

    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "key", "message"),
    [
        (["files"], True, "has no `oauth:`"),
        (["tickets"], False, "openssl rand -base64 32"),
        (["tickets", "--no-browser", "--timeout", "1"], True, "was not finished within 1 seconds"),
    ],
    ids=["stdio", "key", "time"],
)
def test_what_is_wrong_is_said(
    server: LoginServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    key: bool,
    message: str,
) -> None:
    if not key:
        monkeypatch.delenv("CALLBOARD_SEAL_KEYS")

    assert status_of(["mcp", "login", *arguments]) == 1

    assert message in capsys.readouterr().err


def test_the_doctor_looks_with_the_deployments_login(server: LoginServer, capsys: pytest.CaptureFixture[str]) -> None:
    status_of(["migrate"])
    status_of(["doctor"])
    assert "run `./callboard mcp login tickets`" in " ".join(capsys.readouterr().out.split())

    status_of(["mcp", "login", "tickets"])
    status_of(["doctor"])

    assert "tickets: 2 of its 2 tools may be used" in " ".join(capsys.readouterr().out.split())
