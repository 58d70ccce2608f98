"""`./callboard keys`, `./callboard principals` and `./callboard grant`."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from cli.main import status_of
from config.redaction import REDACTED, redact
from tests.cli.test_tools import Type, type_


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command on an installation of this test's own; returns its status, output and complaint."""
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))

    def run(*arguments: str) -> tuple[int, str, str]:
        status = status_of(list(arguments))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_a_key_is_printed_once(ask) -> None:
    status, key, note = ask("keys", "create", "ci", "--role", "viewer", "--expires", "30d")

    assert (status, key[:4]) == (0, "cbk_")
    assert "'ci' in tenant 'default'" in note
    key_id, listed = key.split("_")[1], ask("keys", "list")[1]
    assert key_id in listed
    assert key.split("_")[2].strip() not in listed
    assert redact(key.strip()) == REDACTED


def test_a_key_as_json(ask) -> None:
    new_key = orjson.loads(
        ask("keys", "create", "ci", "--tenant", "acme", "--verb", "see", "--agent", "assistant", "--json")[1]
    )

    (listed,) = orjson.loads(ask("keys", "list", "--json")[1])

    assert new_key.keys() - listed.keys() == {"key"}
    assert listed["id"] in new_key["key"]
    assert (listed["tenant"], listed["verbs"], listed["agents"]) == ("acme", ["see"], ["assistant"])
    assert orjson.loads(ask("keys", "list", "--tenant", "zeta", "--json")[1]) == []


def test_the_name_of_the_own_principal_is_free_in_other_tenants(ask) -> None:
    assert ask("keys", "create", "local", "--tenant", "acme")[0] == 0


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_revoked_key_is_listed_as_such(ask, by: str) -> None:
    new_key = orjson.loads(ask("keys", "create", "ci", "--json")[1])

    status, output, _ = ask("keys", "revoke", new_key[by])

    assert (status, output) == (0, f"Key {new_key['id']} of 'ci' is revoked.\n")
    assert "revoked 20" in ask("keys", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("create", "../ci"), "1 to 64 letters"),
        (("create", "ci", "--tenant", "a/b"), "1 to 64 letters"),
        (("create", "cbk_0123456789abcdef_0123456789abcdef"), "has an API key or a token"),
        (("create", "local"), "is this installation's own principal"),
        (("create", "ci", "--role", "emperor"), "'viewer', 'operator', 'approver', 'admin'"),
        (("create", "ci", "--verb", "conquer"), "'see', 'start'"),
        (("create", "ci", "--agent", "asistant"), "Did you mean 'assistant'?"),
        (("create", "ci", "--verb", "administer", "--agent", "assistant"), "leave out the verb or the agents"),
        (("create", "ci", "--expires", "never"), "is not a duration"),
        (("create", "ci", "--expires", "0d"), "is not a duration"),
        (("revoke", "none"), "there is no API key 'none'"),
    ],
)
def test_what_cannot_be_is_refused(ask, arguments: tuple[str, ...], complaint: str) -> None:
    ask("keys", "create", "first")

    status, _, error_output = ask("keys", *arguments)

    assert status == 2
    assert complaint in error_output


def test_a_principal_is_disabled_and_enabled(ask) -> None:
    ask("keys", "create", "ci")

    assert ask("principals", "disable", "ci")[:2] == (0, "'ci' in tenant 'default' is disabled.\n")
    assert ask("principals", "list")[1].split("\t")[::2] == ["disabled", "default/ci\n"]
    assert ask("principals", "enable", "ci")[0] == 0
    assert orjson.loads(ask("principals", "list", "--json")[1])[0]["disabled"] is False


@pytest.mark.parametrize("auth", ["none", "local"])
def test_the_installations_own_principal_is_not_disabled(ask, monkeypatch: pytest.MonkeyPatch, auth: str) -> None:
    ask("keys", "create", "ci")
    monkeypatch.setenv("CALLBOARD_AUTH", auth)

    status, _, error_output = ask("principals", "disable", "local")

    assert status == 2
    assert f"own principal, which CALLBOARD_AUTH={auth} serves" in error_output
    assert "local" not in ask("principals", "list")[1]
    assert ask("principals", "disable", "local", "--tenant", "acme")[0] == 0


def test_a_principal_of_its_name_is_disabled_where_credentials_are_required(
    ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("keys", "create", "ci")
    monkeypatch.setenv("CALLBOARD_AUTH", "required")

    assert ask("principals", "disable", "local")[0] == 0


def test_listing_creates_no_installation(ask) -> None:
    status, _, error_output = ask("keys", "list")

    assert status != 0
    assert "there is no installation" in error_output


__all__ = ["type_"]


def test_a_grant_is_printed_once_used_and_listed(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("grant", "tester", "--reason", "incident 4711", "--minutes", "5") == 0
    text = capsys.readouterr().out.strip()
    assert type_("tools", "call", "add", '{"a": 1, "b": 2}', "--grant", text) == 0
    output = capsys.readouterr()

    assert output.out == "3\n"
    assert "privileged, granted by local: incident 4711" in output.err
    assert type_("tools", "call", "add", '{"a": 1, "b": 2}', "--grant", text) == 2
    refused = capsys.readouterr().err
    assert "grant_refused" in refused
    assert text not in refused
    assert type_("grants", "list", "--json") == 0
    (listed,) = orjson.loads(capsys.readouterr().out)
    assert (listed["principal"], listed["reason"], "run_id" in listed) == ("local", "incident 4711", True)


def test_a_revoked_grant_is_refused(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("grant", "tester", "--reason", "why", "--json") == 0
    issued = orjson.loads(capsys.readouterr().out)
    assert type_("grants", "revoke", issued["grant_id"]) == 0
    assert type_("run", "tester", "Hello", "--grant", issued["grant"]) == 2
    assert "revoked" in capsys.readouterr().err
    assert type_("grants", "list") == 0
    assert "\trevoked\t" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("grant", "tester"), "--reason"),
        (("grant", "tester", "--reason", ""), "reason"),
        (("grant", "tester", "--reason", "x", "--minutes", "0"), "from 1 to 1440"),
        (("grant", "tester", "--reason", "x", "--for", "../x"), "has to be a name"),
        (("grant", "none", "--reason", "x"), "agent_unknown"),
        (("grants", "revoke", "grt_1"), "grant_unknown"),
    ],
)
def test_what_cannot_be_granted_is_refused(
    type_: Type, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert type_(*words) == 2
    output = capsys.readouterr()
    assert (output.out, message in output.err) == ("", True)
