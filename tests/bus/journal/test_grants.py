"""Privilege grants: each is used by one accepted run, by its principal, for its agent, while it holds."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select, update

from bus.identity.credentials import grants as table
from bus.identity.credentials.grants import Grant, GrantForm, PresentedGrant
from bus.identity.errors import GRANT_REFUSED, GRANT_UNKNOWN
from bus.journal.acceptance.accept import accept
from config.database.engine import Database
from config.database.shared_secret import shared_secret
from config.database.tables import audit, grants, runs
from config.errors import BadRequest, Permanent
from config.identity.principal import Principal, Role
from tests.bus.journal_harness import JournalHarness, claim, new_run
from tests.raising import raises

ROOT = Principal(id="root", roles=frozenset({Role.ADMIN}))
ANN = Principal(id="ann")


@pytest.fixture
def form(harness: JournalHarness) -> GrantForm:
    grant_form = GrantForm(partial(shared_secret, harness.database, table.SECRET_NAME))
    grant_form.open()
    return grant_form


def issued(
    database: Database, form: GrantForm, *, principal: str = "ann", agent: str = "assistant", lifetime_s: int = 60
) -> tuple[Grant, PresentedGrant]:
    fields = {"principal": principal, "agent_id": agent, "reason": "incident 4711"}
    with database.write() as connection:
        grant, text = table.issue(connection, form, ROOT, **fields, lifetime_s=lifetime_s)
    return grant, form.presented(text)


def accepted(database: Database, presented: PresentedGrant, principal: Principal = ANN, **fields: Any) -> str:
    return accept(database, new_run(principal=principal, grant=presented, **fields)).run_id


def count_of_runs(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(runs)).scalar_one())


def actions(database: Database) -> list[tuple[str, str, str]]:
    with database.read() as connection:
        rows = connection.execute(select(audit).where(audit.c.target == "grant").order_by(audit.c.number)).all()
    return [(row.action, row.principal, row.target_id) for row in rows]


def test_the_run_of_a_grant_is_privileged_until_it_expires(harness: JournalHarness, form: GrantForm) -> None:
    grant, presented = issued(harness.database, form)

    run_id = accepted(harness.database, presented)

    row = harness.run_row(run_id)
    lease = claim(harness.database, run_id, "me", 10)
    assert lease is not None
    assert lease.privileged_for_ms is not None
    assert row.grant_id == grant.id
    assert 0 < lease.privileged_for_ms <= 60_000
    assert actions(harness.database) == [("grant.issued", "root", grant.id), ("grant.used", "ann", grant.id)]


def test_a_run_without_a_grant_is_not_privileged(harness: JournalHarness) -> None:
    lease = claim(harness.database, harness.accept().run_id, "me", 10)

    assert lease is not None
    assert lease.privileged_for_ms is None


def test_its_message_has_the_id(harness: JournalHarness, form: GrantForm) -> None:
    grant, presented = issued(harness.database, form)

    message = accept(harness.database, new_run(principal=ANN, grant=presented)).message

    assert message is not None
    assert message.to_wire()["grant"] == grant.id
    assert presented.signature not in str(message.to_wire())


def test_the_log_says_by_whom_and_why(harness: JournalHarness, form: GrantForm) -> None:
    grant, presented = issued(harness.database, form)

    events = harness.record(accepted(harness.database, presented)).events

    assert events[0]["privilege"]["grant_id"] == grant.id
    assert (events[0]["privilege"]["by"], events[0]["privilege"]["reason"]) == ("root", "incident 4711")


@pytest.mark.parametrize(
    ("principal", "agent", "why"),
    [
        (Principal(id="ben"), "assistant", "another principal"),
        (Principal(id="ben", roles=frozenset(Role)), "assistant", "another principal"),
        (Principal(tenant="acme", id="ann"), "assistant", "another principal"),
        (ANN, "office", "for agent 'assistant'"),
    ],
)
def test_another_principal_or_agent_cannot_use_it(
    harness: JournalHarness, form: GrantForm, principal: Principal, agent: str, why: str
) -> None:
    _, presented = issued(harness.database, form)

    with raises(GRANT_REFUSED, match=why):
        accepted(harness.database, presented, principal, agent_id=agent)

    assert count_of_runs(harness.database) == 0
    assert accepted(harness.database, presented)  # the refusal has not used it


def test_it_is_used_once(harness: JournalHarness, form: GrantForm) -> None:
    _, presented = issued(harness.database, form)
    accepted(harness.database, presented)

    with raises(GRANT_REFUSED, match="used before"):
        accepted(harness.database, presented)

    assert count_of_runs(harness.database) == 1


def test_of_starts_at_the_same_moment_one_uses_it(harness: JournalHarness, form: GrantForm) -> None:
    _, presented = issued(harness.database, form)
    begin, outcomes = threading.Barrier(8), list[str]()

    def start() -> None:
        begin.wait()
        try:
            accepted(harness.database, presented)
            outcomes.append("accepted")
        except Permanent as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["accepted", *["grant_refused"] * 7]
    assert count_of_runs(harness.database) == 1


def test_an_expired_one_is_refused(harness: JournalHarness, form: GrantForm) -> None:
    grant, _ = issued(harness.database, form)
    past = replace(grant, expires_ms=1)
    with harness.database.write() as connection:
        connection.execute(update(grants).values(expires_ms=1))

    with raises(GRANT_REFUSED, match="expired"):
        accepted(harness.database, form.presented(form.text(past)))


def test_a_revoked_one_is_refused_and_its_run_loses_the_privilege(harness: JournalHarness, form: GrantForm) -> None:
    (unused, presented), (used, other) = issued(harness.database, form), issued(harness.database, form)
    run_id = accepted(harness.database, other)
    for _ in range(2):
        for grant in (unused, used):
            with harness.database.write() as connection:
                table.revoke(connection, grant.id, ROOT)

    with raises(GRANT_REFUSED, match="revoked"):
        accepted(harness.database, presented)
    lease = claim(harness.database, run_id, "me", 10)
    assert lease is not None
    assert lease.privileged_for_ms is None
    assert [action for action, _, _ in actions(harness.database)].count("grant.revoked") == 2


@pytest.mark.parametrize("column", ["principal", "agent_id", "tenant", "reason", "issued_by", "expires_ms"])
def test_a_row_that_was_changed_is_forged(harness: JournalHarness, form: GrantForm, column: str) -> None:
    _, presented = issued(harness.database, form)
    changed: dict[str, Any] = {"principal": "ben", "agent_id": "office", "tenant": "acme", "reason": "none"}
    changed |= {"issued_by": "ann", "expires_ms": 9_999_999_999_999}
    with harness.database.write() as connection:
        connection.execute(update(grants).values({column: changed[column]}))

    with raises(GRANT_REFUSED, match="not one of this deployment's"):
        accepted(harness.database, presented)


def test_a_signature_of_another_deployment_is_forged(harness: JournalHarness, form: GrantForm) -> None:
    grant, _ = issued(harness.database, form)
    other = GrantForm(lambda: "5e" * 32)

    with raises(GRANT_REFUSED, match="not one of this deployment's"):
        accepted(harness.database, form.presented(other.text(grant)))


@pytest.mark.parametrize(
    "text", ["", "true", "1", "cbg_", "grt_01m7wyc882adz9tga1jxhzbj7w", "cbg_" + "0" * 26 + "_" + "x" * 64, "x" * 9999]
)
def test_what_is_no_grant_is_refused(form: GrantForm, text: str) -> None:
    with raises(GRANT_REFUSED):
        form.presented(text)


@pytest.mark.parametrize(
    ("reason", "lifetime_s"),
    [("", 60), (" \n", 60), ("x" * 201, 60), ("key sk-" + "a1" * 20, 60), ("why", 0), ("why", 86_401)],
)
def test_a_grant_needs_a_reason_and_an_end(
    harness: JournalHarness, form: GrantForm, reason: str, lifetime_s: int
) -> None:
    fields = {"principal": "ann", "agent_id": "assistant", "reason": reason}
    with pytest.raises(BadRequest), harness.database.write() as connection:
        table.issue(connection, form, ROOT, **fields, lifetime_s=lifetime_s)


def test_an_unknown_one_cannot_be_revoked(harness: JournalHarness, form: GrantForm) -> None:
    grant, _ = issued(harness.database, form)
    for issuer, grant_id in ((ROOT, "grt_1"), (replace(ROOT, tenant="acme"), grant.id)):
        with raises(GRANT_UNKNOWN), harness.database.write() as connection:
            table.revoke(connection, grant_id, issuer)
