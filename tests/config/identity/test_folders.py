"""Names of tenants, principals and agents become paths only if they are names."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.identity.folders import NAME_UNSAFE, sandbox_folder
from tests.raising import raises

STATE = Path("/state")
UNSAFE = [
    *("", ".", "..", "../x", "a/b", "/etc", "a\\b", "~root", "a\0b", "a\nb", "a b", "%2e%2e", "..%2f", "@x", "-x"),
    *("x" * 65, "ä", "ｘ", "a\u202eb", "x~1", "x:y", "x\n"),
]


def test_the_local_principal_keeps_its_files() -> None:
    assert sandbox_folder(STATE, "default", "local", "assistant") == STATE / "sandbox/default/assistant"


def test_other_principals_have_folders_of_their_own() -> None:
    assert sandbox_folder(STATE, "acme", "ci", "assistant") == STATE / "sandbox/acme/@ci/assistant"
    assert sandbox_folder(STATE, "acme", "a@b.example", "x") == STATE / "sandbox/acme/@a@b.example/x"


@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_no_name_is_no_path(name: str) -> None:
    for tenant, principal in ((name, "ci"), ("acme", name)):
        with raises(NAME_UNSAFE):
            sandbox_folder(STATE, tenant, principal, "assistant")


@pytest.mark.parametrize("agent_id", ["", ".", "..", ".hidden", "a/b", "@ci", "a\0", "x" * 65])
def test_an_agents_name_stays_within_its_principal(agent_id: str) -> None:
    with raises(NAME_UNSAFE):
        sandbox_folder(STATE, "default", "local", agent_id)


def test_names_that_differ_by_case_alone_have_folders_that_differ_by_more() -> None:
    folders = [str(sandbox_folder(STATE, "acme", name, "x")).lower() for name in ("ci", "CI", "Ci", "cI")]

    assert len(set(folders)) == len(folders)
