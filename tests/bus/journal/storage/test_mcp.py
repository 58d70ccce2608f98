"""The logins at MCP servers, on each database: one for each tenant and server, renewed by one process at a time."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select

from bus.journal.storage.mcp import McpLogins, McpManifests, SealedLogin
from config.database.engine import Database
from config.database.tables import audit

FIRST = SealedLogin(id="mlg_1", bound_to="b", version=1, key_name="k", sealed="one", expires_ms=1000)
SECOND = replace(FIRST, version=2, sealed="two", expires_ms=None)


def test_a_login_takes_the_place_of_the_one_before(database: Database) -> None:
    logins = McpLogins(database)
    logins.put("acme", "tickets", FIRST, by="ann", host="tickets.example")
    other = replace(FIRST, id="mlg_2", sealed="other")

    logins.put("acme", "tickets", other, by="ann", host="tickets.example")
    logins.put("globex", "tickets", FIRST, by="ann", host="tickets.example")

    assert logins.find("acme", "tickets") == other
    assert logins.find("globex", "tickets") == FIRST
    assert logins.find("acme", "files") is None


def test_one_process_renews_and_the_others_see_the_new_tokens(database: Database) -> None:
    logins = McpLogins(database)
    logins.put("acme", "tickets", FIRST, by="ann", host="tickets.example")

    assert logins.claim("acme", "tickets", FIRST, 60_000)
    assert not logins.claim("acme", "tickets", FIRST, 60_000)
    assert logins.renew("acme", "tickets", FIRST, SECOND)
    assert logins.find("acme", "tickets") == SECOND
    assert not logins.claim("acme", "tickets", FIRST, 60_000)
    assert logins.claim("acme", "tickets", SECOND, 60_000)


def test_a_claim_ends_by_itself_or_is_given_back(database: Database) -> None:
    logins = McpLogins(database)
    logins.put("acme", "tickets", FIRST, by="ann", host="tickets.example")

    assert logins.claim("acme", "tickets", FIRST, -1)
    assert logins.claim("acme", "tickets", FIRST, 60_000)
    logins.release("acme", "tickets", FIRST)
    assert logins.claim("acme", "tickets", FIRST, 60_000)


def test_what_another_login_replaced_is_not_renewed_or_removed(database: Database) -> None:
    logins = McpLogins(database)
    logins.put("acme", "tickets", FIRST, by="ann", host="tickets.example")
    other = replace(FIRST, id="mlg_2")
    logins.claim("acme", "tickets", FIRST, 60_000)
    logins.put("acme", "tickets", other, by="ann", host="tickets.example")

    assert not logins.renew("acme", "tickets", FIRST, SECOND)
    assert not logins.remove("acme", "tickets", FIRST)
    assert logins.find("acme", "tickets") == other
    assert logins.claim("acme", "tickets", other, 60_000)
    assert logins.end("acme", "tickets", by="ann")
    assert not logins.end("acme", "tickets", by="ann")


def test_the_audit_log_has_who_logged_in_and_out(database: Database) -> None:
    logins = McpLogins(database)
    logins.put("acme", "tickets", FIRST, by="ann", host="tickets.example")
    logins.put("acme", "tickets", replace(FIRST, id="mlg_2"), by="bob", host="tickets.example")
    logins.end("acme", "tickets", by="cid")

    with database.read() as connection:
        rows = connection.execute(select(audit).where(audit.c.tenant == "acme").order_by(audit.c.number)).all()

    assert [(row.action, row.principal, row.target_id) for row in rows] == [
        ("mcp_login.created", "ann", "tickets"),
        ("mcp_login.created", "bob", "tickets"),
        ("mcp_login.removed", "cid", "tickets"),
    ]
    assert "mlg_2" in rows[1].facts_json
    assert "one" not in rows[1].facts_json


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
