"""The audit log of a web process: what a request did with which credential, and sums of the refused ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from bus.identity.audit.chain import entries, verify
from bus.identity.audit.entry import Action, AuditEntry
from bus.identity.audit.recording import PROCESS, acting_with, record
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.journal import Journal
from config.database.engine import Database, open_database
from config.database.errors import DatabaseUnreachable
from config.database.shared_secret import shared_secret
from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.template import upgrade_by_copy
from tests.web.conftest import door_of, eventually, opened, process_of
from web.audit import EXTENSION, MAX_KINDS, Refusal, Refusals


@pytest.fixture
def door(settings: Settings) -> Iterator[Any]:
    """A client of a process that requires authentication."""
    with opened(settings.model_copy(update={"auth": "required"})) as runner, door_of(runner) as web_client:
        yield web_client


def journal_of(door: Any) -> Journal:
    return process_of(door.application).journal


def key(door: Any, name: str, *roles: Role, tenant: str = "default") -> tuple[str, dict[str, str]]:
    """Return the id of a new key, and the header with it."""
    database = journal_of(door).database
    form = KeyForm(partial(shared_secret, database, SECRET_NAME))
    form.open()
    with database.write() as connection:
        api_key, text = keys.create(
            connection, form, Principal(tenant=tenant, id=name, roles=frozenset(roles)), by="root"
        )
    return api_key.id, {"Authorization": f"Bearer {text}"}


def log(door: Any, action: str) -> list[AuditEntry]:
    database = journal_of(door).database
    assert verify(database, "default").broken is None
    return [entry for entry in entries(database, "default") if entry.action == action]


@pytest.mark.parity
def test_an_entry_names_the_key_that_acted(door: Any) -> None:
    key_id, ann = key(door, "ann", Role.ADMIN)
    run_id = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=ann).json["run_id"]

    assert door.post(f"/v1/runs/{run_id}/cancel", headers=ann).status_code == 200
    json = door.post("/v1/keys", json={"name": "ci"}, headers=ann).json
    for _ in range(2):
        assert door.delete(f"/v1/keys/{json['id']}", headers=ann).status_code == 204

    stopped, created, revoked = [log(door, action)[-1] for action in ("run.controlled", "key.created", "key.revoked")]
    for entry in (stopped, created, revoked):
        assert (entry.principal, entry.credential, entry.credential_id) == ("ann", "key", key_id)
    assert stopped.target_id == run_id
    assert (created.target_id, created.facts["name"]) == (json["id"], "ci")
    assert json["key"] not in created.line()
    assert acting_with.get() == PROCESS, "this thread, which was the server's, acts for no request any more"
    assert len(log(door, "key.revoked")) == 1


def test_refusals_are_recorded_as_sums_with_the_first_at_once(door: Any) -> None:
    key_id, vic = key(door, "vic", Role.VIEWER)

    assert door.get("/v1/keys", headers=vic).status_code == 403
    eventually(lambda: log(door, "access"))
    for _ in range(50):
        assert door.get("/v1/runs", headers={"Authorization": "Bearer cbk_wrong"}).status_code == 401
    assert door.get("/v1/runs/run_unknown", headers=vic).status_code == 404
    assert len(log(door, "access")) == 1
    door.application.extensions[EXTENSION].close()

    first, second = log(door, "access")
    facts = {"credential": "key", "credential_id": key_id, "address": "127.0.0.1"}
    assert (first.outcome, first.principal) == ("refused", "vic")
    assert first.facts["refused"] == [{"principal": "vic", "code": "forbidden", "count": 1, **facts}]
    assert second.facts["refused"] == [
        {"credential": "none", "code": "unauthenticated", "address": "127.0.0.1", "count": 50}
    ]
    assert second.principal == ""


def test_a_request_without_any_credential_is_not_a_refusal(door: Any) -> None:
    assert door.get("/v1/me").status_code == 401
    door.set_cookie("another_application", "signed-in")
    assert door.get("/v1/me").status_code == 401
    assert door.get("/v1/runs/run_1/events").status_code == 401
    assert door.get("/v1/runs/run_1/events?ticket=cbt_wrong").status_code == 401
    assert door.post("/v1/runs", headers={"Origin": "https://elsewhere.example"}).status_code == 403
    door.application.extensions[EXTENSION].close()

    refused = [item for entry in log(door, "access") for item in entry.facts["refused"]]
    assert sorted((item["code"], item["count"]) for item in refused) == [("origin_refused", 1), ("unauthenticated", 1)]


def test_administrators_page_through_the_log_of_their_tenant(door: Any) -> None:
    _, ann = key(door, "ann", Role.ADMIN)
    _, vic = key(door, "vic", Role.VIEWER)
    with journal_of(door).database.write() as connection:
        record(connection, Principal(tenant="acme"), Action.RUN_REMOVED, "run", "run_1")

    first = door.get("/v1/audit?limit=1", headers=ann).json
    second = door.get(f"/v1/audit?limit=1&before={first['next']}", headers=ann).json

    assert [entry["number"] for entry in first["entries"] + second["entries"]] == [2, 1]
    assert "next" not in second
    assert {entry["tenant"] for entry in door.get("/v1/audit", headers=ann).json["entries"]} == {"default"}
    assert door.get("/v1/audit", headers=vic).status_code == 403
    assert door.delete("/v1/audit", headers=ann).status_code == 405


def test_the_log_is_filtered_and_computed_again(door: Any) -> None:
    _, ann = key(door, "ann", Role.ADMIN)
    _, vic = key(door, "vic", Role.VIEWER)
    key_id = door.post("/v1/keys", json={"name": "ci"}, headers=ann).json["id"]

    mine = door.get("/v1/audit?action=key.created&principal=ann", headers=ann).json
    assert [entry["target_id"] for entry in mine["entries"]] == [key_id]
    assert "next" not in mine
    assert len(door.get(f"/v1/audit?target_id={key_id}&outcome=done", headers=ann).json["entries"]) == 1
    assert door.get("/v1/audit?outcome=lost", headers=ann).status_code == 400
    whole = door.get("/v1/audit/verification", headers=ann).json
    assert (whole["is_whole"], whole["entries"]) == (True, 3)
    with journal_of(door).database.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER audit_refuses_update")
        connection.exec_driver_sql("UPDATE audit SET principal = 'eve' WHERE number = 2")
    broken = door.get("/v1/audit/verification", headers=ann).json
    assert (broken["is_whole"], broken["broken"], broken["entries"]) == (False, 2, 1)
    assert "a field was changed" in broken["problem"]
    assert door.get("/v1/audit/verification", headers=vic).status_code == 403


# --- the sums -------------------------------------------------------------------------------------


def refusal(**fields: str) -> Refusal:
    defaults = {
        "tenant": "default",
        "principal": "",
        "credential": "none",
        "credential_id": "",
        "code": "unauthenticated",
    }
    return Refusal(**(defaults | {"address": "127.0.0.1"} | fields))


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with closing(open_database(settings.database)) as opened_database:
        upgrade_by_copy(opened_database)
        yield opened_database


def test_a_flood_from_many_addresses_is_a_few_entries_of_bounded_size(database: Database) -> None:
    refusals = Refusals(lambda: database, every_s=60)

    for i in range(5000):
        refusals.add(refusal(address=f"10.0.{i // 250}.{i % 250}"))
    refusals.close()

    log_entries = list(entries(database, "default"))
    assert 1 <= len(log_entries) <= 2
    listed = [item["count"] for entry in log_entries for item in entry.facts["refused"]]
    assert sum(listed) + sum(entry.facts.get("others", 0) for entry in log_entries) == 5000
    assert max(len(entry.facts["refused"]) for entry in log_entries) <= MAX_KINDS
    assert max(len(entry.line()) for entry in log_entries) < 5000


def test_sums_wait_while_the_database_takes_none(database: Database) -> None:
    refused, tried = threading.Event(), threading.Event()

    def open_it() -> Database:
        if not refused.is_set():
            tried.set()
            raise DatabaseUnreachable("away")
        return database

    refusals = Refusals(open_it, every_s=0.01)
    refusals.add(refusal())
    assert tried.wait(10)
    refusals.add(refusal())
    refused.set()
    eventually(lambda: list(entries(database, "default")))
    refusals.close()

    log_entries = list(entries(database, "default"))
    assert sum(item["count"] for entry in log_entries for item in entry.facts["refused"]) == 2


def test_a_refusal_is_in_the_log_of_its_callers_tenant(door: Any) -> None:
    _, ann = key(door, "ann", tenant="acme")

    assert door.get("/v1/keys", headers=ann).status_code == 403
    door.application.extensions[EXTENSION].close()

    refused = [entry.principal for entry in entries(journal_of(door).database, "acme") if entry.action == "access"]
    assert refused == ["ann"]
    assert log(door, "access") == []


def test_each_tenant_has_its_own_refusals_alone(database: Database) -> None:
    refusals = Refusals(lambda: database, every_s=60)

    refusals.add(refusal(tenant="acme", principal="ann"))
    refusals.add(refusal(tenant="zeta", principal="zoe"))
    refusals.close()

    assert [entry.principal for entry in entries(database, "acme")] == ["ann"]
    assert [entry.principal for entry in entries(database, "zeta")] == ["zoe"]


def test_nothing_is_written_without_a_refusal(database: Database) -> None:
    Refusals(lambda: database).close()

    assert list(entries(database, "default")) == []
