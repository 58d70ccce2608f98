"""`grant` and `grants`, as an administrator types them, and the run that uses one."""

from __future__ import annotations

import orjson
import pytest

from tests.cli.test_tools import Type, type_

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
    assert "(revoked)" in capsys.readouterr().out


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
