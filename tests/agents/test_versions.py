"""Which version of an agent serves: what its file says, an alias, or the last version where the file broke."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.errors import AgentUnknown
from agents.registry import AgentRegistry
from agents.runner import Runner
from config.database.migrate import migrate
from config.definitions.behaviour import behaviour_of, changes, dropped_tools
from config.definitions.errors import DefinitionInvalid
from config.errors import CallboardError
from config.identity.principal import LOCAL, Principal, Role
from config.settings import Settings
from tests.web.conftest import opened

ANA = Principal(tenant="acme", id="ana", roles=frozenset({Role.OPERATOR}))


class Clerk:
    """An agent whose file the test writes, with the runner that accepts its runs."""

    def __init__(self, runner: Runner, file: Path) -> None:
        self.runner = runner
        self.file = file
        self.versions = runner.journal.stores.agent_versions

    def write(self, prompt: str, more: str = "") -> None:
        self.file.write_text(f"name: Clerk\nmodel: demo/instant\nsystem_prompt: {prompt}\n{more}\n")

    def registered(self, *prompts: str) -> None:
        for prompt in prompts:
            self.write(prompt)
            self.runner.registry.register()

    def accepted(self, thread_id: str | None = None) -> str:
        """Return the system prompt that a new run is accepted with."""
        handle = self.runner.run("Hello", "clerk", thread_id=thread_id, detached=True)
        digest = self.runner.journal.readers.runs.row(LOCAL, handle.run_id).definition_digest
        content_json = self.runner.journal.readers.recorded_definition(digest)
        assert content_json is not None
        return content_json.partition('"system_prompt":"')[2].partition('"')[0]


@pytest.fixture
def clerk(settings: Settings, tmp_path: Path) -> Iterator[Clerk]:
    folder = tmp_path / "agents"
    folder.mkdir()
    chosen = settings.model_copy(update={"agents_dir": str(folder)})
    migrate(chosen)
    with opened(chosen) as runner:
        yield Clerk(runner, folder / "clerk.yaml")


def test_without_an_alias_the_file_serves_and_each_content_is_a_version(clerk: Clerk) -> None:
    clerk.write("one")
    assert clerk.accepted() == "one"
    clerk.write("two")
    assert clerk.accepted() == "two"

    assert [(row["version"], row["is_in_file"]) for row in clerk.runner.registry.versions("clerk")] == [
        (2, True),
        (1, False),
    ]


def test_the_stable_version_serves_whatever_the_file_says(clerk: Clerk) -> None:
    clerk.registered("one", "two")
    clerk.versions.promote(LOCAL, "clerk", 1)

    assert clerk.accepted() == "one"
    clerk.write("three")
    assert clerk.accepted() == "one"
    assert clerk.runner.registry.get("clerk").version == 1
    clerk.versions.promote(LOCAL, "clerk", None)
    assert clerk.accepted() == "three"


@pytest.mark.parity
def test_a_canary_gets_its_share_and_a_thread_stays_on_its_side(clerk: Clerk) -> None:
    clerk.registered("one", "two")
    clerk.versions.promote(LOCAL, "clerk", 1)
    clerk.versions.promote(LOCAL, "clerk", 2, "canary", 50)

    served = {f"thread-{number}": clerk.accepted(f"thread-{number}") for number in range(16)}

    assert set(served.values()) == {"one", "two"}
    assert {thread: clerk.accepted(thread) for thread in served} == served
    assert {clerk.accepted() for _ in range(24)} == {"one", "two"}  # threads that no client named


def test_a_thread_that_a_client_did_not_name_stays_on_its_side(clerk: Clerk) -> None:
    clerk.registered("one", "two")
    clerk.versions.promote(LOCAL, "clerk", 1)
    clerk.versions.promote(LOCAL, "clerk", 2, "canary", 50)

    for _ in range(8):
        handle = clerk.runner.run("Hello", "clerk", detached=True)
        digest = clerk.runner.journal.readers.runs.row(LOCAL, handle.run_id).definition_digest
        content_json = clerk.runner.journal.readers.recorded_definition(digest)
        assert content_json is not None
        assert f'"{clerk.accepted(handle.thread_id)}"' in content_json


def test_of_a_file_that_breaks_the_last_version_serves_and_says_so_once(
    clerk: Clerk, caplog: pytest.LogCaptureFixture
) -> None:
    clerk.registered("one", "two")
    clerk.file.write_text("name: [")

    with caplog.at_level(logging.WARNING):
        assert (clerk.accepted(), clerk.accepted()) == ("two", "two")

    (agent,) = clerk.runner.registry.usable()
    assert (agent.version, "is not YAML" in agent.problem) == (2, True)
    assert len([record for record in caplog.records if "its last version serves" in record.message]) == 1
    with pytest.raises(DefinitionInvalid):
        clerk.runner.registry.in_file("clerk")


def test_a_file_that_was_never_good_serves_nothing(clerk: Clerk) -> None:
    clerk.file.write_text("name: [")

    with pytest.raises(DefinitionInvalid):
        clerk.accepted()


def test_a_removed_file_is_gone_whatever_its_aliases(clerk: Clerk) -> None:
    clerk.registered("one")
    clerk.versions.promote(LOCAL, "clerk", 1)
    clerk.file.unlink()

    with pytest.raises(AgentUnknown):
        clerk.accepted()
    assert clerk.runner.registry.usable() == []


def test_who_may_start_a_version_is_as_the_file_says_now(clerk: Clerk) -> None:
    clerk.registered("one")
    clerk.versions.promote(LOCAL, "clerk", 1)
    clerk.write("two", "access: {tenants: [zeta]}")

    with pytest.raises(AgentUnknown):
        clerk.runner.registry.startable(ANA, "clerk")
    clerk.write("two", "access: {tenants: [acme]}")
    assert clerk.runner.registry.startable(ANA, "clerk").system_prompt == "one"


@pytest.mark.parametrize("stable", [None, 1])
def test_who_may_start_an_agent_whose_file_breaks_is_as_the_file_said_before(clerk: Clerk, stable: int | None) -> None:
    clerk.write("one")
    clerk.accepted()
    if stable is not None:
        clerk.versions.promote(LOCAL, "clerk", stable)
    assert clerk.runner.registry.startable(ANA, "clerk").system_prompt == "one"
    clerk.write("one", "access: {tenants: [zeta]}")
    with pytest.raises(AgentUnknown):
        clerk.runner.registry.startable(ANA, "clerk")

    clerk.file.write_text("name: [")

    for registry in (clerk.runner.registry, AgentRegistry([clerk.file.parent], versions=clerk.versions)):
        with pytest.raises(AgentUnknown):
            registry.startable(ANA, "clerk")
        assert registry.startable(Principal(tenant="zeta", id="zoe"), "clerk").problem


def test_operators_of_the_one_tenant_that_has_an_agent_promote_it_and_others_do_not(clerk: Clerk) -> None:
    clerk.write("one", "access: {tenants: [acme]}")
    clerk.runner.registry.require_may_promote(ANA, "clerk")
    clerk.write("one")
    for principal in (ANA, Principal(id="bob", roles=frozenset({Role.VIEWER}))):
        with pytest.raises(CallboardError, match="may not say which version"):
            clerk.runner.registry.require_may_promote(principal, "clerk")
    clerk.runner.registry.require_may_promote(LOCAL, "clerk")


def test_a_version_that_is_not_kept_serves_no_other_in_its_place(clerk: Clerk) -> None:
    clerk.registered("one", "two")
    clerk.versions.promote(LOCAL, "clerk", 1)
    with clerk.runner.journal.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM definitions")

    with pytest.raises(DefinitionInvalid, match=r"version 1 of agent 'clerk'.*is not kept any more; promote another"):
        clerk.accepted()


def test_behaviour_is_all_but_names_and_places() -> None:
    content = {"name": "A", "model": "m", "system_prompt": "x", "tools": ["clock"], "later_field": 1}

    same = content | {"name": "B", "description": "d", "starters": ["Hi"], "queue": "q", "access": {"runs": "private"}}
    assert behaviour_of(same) == behaviour_of(content)
    for field in ("model", "system_prompt", "tools", "later_field"):
        assert behaviour_of(content | {field: "other"}) != behaviour_of(content)
    assert [(change["field"], change["is_behaviour"]) for change in changes(content, same | {"model": "n"})] == [
        ("model", True),
        *((name, False) for name in ("access", "description", "name", "queue", "starters")),
    ]


def test_a_tool_is_dropped_that_no_line_can_bring_any_more() -> None:
    before = {"tools": ["clock", "shop.orders:refund", "mcp:bank"]}

    assert dropped_tools(before, {"tools": ["clock", "mcp:bank"]}) == {"refund"}
    assert dropped_tools(before, {"tools": ["other.module:refund", "clock"]}) == frozenset()
    assert dropped_tools(before, {"tools": ["mcp:shop"]}) == frozenset()
