"""The definitions of MCP servers' tools, on each database: the first one stays until a person accepts another."""

from __future__ import annotations

from bus.journal.storage.mcp_manifests import McpManifests
from config.database.engine import Database


def test_the_first_definition_stays(database: Database) -> None:
    manifests = McpManifests(database)

    assert manifests.pin("files", {"read": ("d1", "one"), "list": ("d2", "two")}) == {"read": "one", "list": "two"}
    assert manifests.pin("files", {"read": ("d9", "other"), "write": ("d3", "three")}) == {
        "read": "one",
        "list": "two",
        "write": "three",
    }
    assert manifests.pinned("tickets") == {}


def test_an_accepted_definition_takes_its_place(database: Database) -> None:
    manifests = McpManifests(database)
    manifests.pin("files", {"read": ("d1", "one")})

    manifests.accept("files", "read", "d2", "two")
    manifests.accept("files", "fresh", "d3", "three")

    assert manifests.pinned("files") == {"read": "two", "fresh": "three"}


def test_only_what_a_person_accepted_in_place_of_another_is_a_change(database: Database) -> None:
    manifests = McpManifests(database)
    manifests.pin("files", {"read": ("d1", "one"), "list": ("d2", "two")})
    manifests.pin("tickets", {"find": ("d3", "three")})

    manifests.accept("files", "read", "d4", "four")
    manifests.accept("tickets", "find", "d5", "five")
    assert manifests.digests("files") == {"read": "d4", "list": "d2"}

    assert manifests.accepted({"files"}) == (("files", "read", "d4"),)
    assert manifests.accepted({"files", "tickets"}) == (("files", "read", "d4"), ("tickets", "find", "d5"))
    assert manifests.accepted(set()) == ()


def test_two_processes_that_see_a_tool_first_agree(database: Database) -> None:
    manifests = [McpManifests(database), McpManifests(database)]
    pins = manifests[1].pinned("files")
    manifests[0].pin("files", {"read": ("d1", "one")})

    assert pins == {}
    assert manifests[1].pin("files", {"read": ("d2", "two")}) == {"read": "one"}
