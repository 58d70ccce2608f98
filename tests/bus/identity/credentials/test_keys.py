"""API keys in SQL: valid until they are revoked, have expired, or their principal is disabled."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import select, update

from bus.identity import principals
from bus.identity.credentials import keys
from bus.identity.credentials.credential import Caller, CredentialKind, from_json, to_json
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.identity.credentials.keys import ApiKey
from bus.identity.errors import KEY_UNKNOWN
from config.database.engine import Database
from config.database.shared_secret import shared_secret
from config.database.tables import api_keys
from config.identity.principal import Principal, Role, Verb
from tests.raising import raises

CI = Principal(tenant="acme", id="ci", roles=frozenset({Role.VIEWER}), verbs=frozenset({Verb.SEE}))


@pytest.fixture
def form(database: Database) -> KeyForm:
    form = KeyForm(partial(shared_secret, database, SECRET_NAME))
    form.open()
    return form


def made(database: Database, form: KeyForm, principal: Principal = CI, lifetime_s: int | None = None) -> ApiKey:
    with database.write() as connection:
        return keys.create(connection, form, principal, by="root", lifetime_s=lifetime_s)[0]


def callers(database: Database, *ids: str) -> list[Caller]:
    with database.read() as connection:
        return [key.caller for key in keys.live(connection, ids).values()]


def test_a_key_acts_as_the_principal_of_its_name(database: Database, form: KeyForm) -> None:
    key = made(database, form)

    (caller,) = callers(database, key.id)

    assert caller.principal == CI
    assert (caller.credential.kind, caller.credential.id) == (CredentialKind.KEY, key.id)
    assert from_json(to_json(caller)) == caller


def test_the_database_does_not_have_the_key(database: Database, form: KeyForm) -> None:
    with database.write() as connection:
        key, text = keys.create(connection, form, CI, by="root")
        row = connection.execute(select(api_keys)).one()

    assert text.rpartition("_")[2] not in str(row)
    assert row.digest == form.digest(text)
    assert key.shown()["created_by"] == "root"
    assert "digest" not in key.shown()


def test_a_revoked_key_is_not_valid_and_stays_in_the_list(database: Database, form: KeyForm) -> None:
    key, other = made(database, form), made(database, form)

    with database.write() as connection:
        first, second = (
            keys.revoke(connection, key.id, "acme", by="root"),
            keys.revoke(connection, key.id, None, by="root"),
        )
        listed = keys.of_tenant(connection, "acme")

    assert [caller.credential.id for caller in callers(database, key.id, other.id)] == [other.id]
    assert first.revoked_ms == second.revoked_ms is not None
    assert {key.id for key in listed} == {key.id, other.id}


def test_a_key_of_another_tenant_is_unknown(database: Database, form: KeyForm) -> None:
    key = made(database, form)

    with database.write() as connection:
        assert keys.of_tenant(connection, "zeta") == []
        with raises(KEY_UNKNOWN):
            keys.revoke(connection, key.id, "zeta", by="root")

    assert callers(database, key.id)


def test_a_key_expires_by_the_clock_of_the_database(database: Database, form: KeyForm) -> None:
    key = made(database, form, lifetime_s=3600)
    assert callers(database, key.id)

    with database.write() as connection:
        connection.execute(update(api_keys).values(expires_ms=key.created_ms))

    assert callers(database, key.id) == []


def test_no_key_of_a_disabled_principal_is_valid(database: Database, form: KeyForm) -> None:
    key, other = made(database, form), made(database, form, Principal(tenant="zeta", id="ci"))
    both = {("acme", "ci"), ("zeta", "ci")}

    with database.write() as connection:
        principals.disable(connection, "acme", "ci", by="root")
        assert principals.disabled_among(connection, both) == {("acme", "ci")}
    assert [caller.credential.id for caller in callers(database, key.id, other.id)] == [other.id]

    with database.write() as connection:
        principals.disable(connection, "acme", "ci", disabled=False, by="root")
    assert callers(database, key.id)


def test_a_principal_can_be_disabled_before_it_has_a_key(database: Database, form: KeyForm) -> None:
    with database.write() as connection:
        principals.disable(connection, "acme", "ci", by="root")

    key = made(database, form)

    assert callers(database, key.id) == []
    with database.read() as connection:
        assert [facts["disabled"] for facts in principals.known(connection, "acme")] == [True]


def test_use_is_recorded_once_a_minute(database: Database, form: KeyForm) -> None:
    key = made(database, form)

    with database.write() as connection:
        keys.note_use(connection, key.id)
        first = keys.of_tenant(connection, None)[0].used_ms
        keys.note_use(connection, key.id)
        second = keys.of_tenant(connection, None)[0].used_ms
        connection.execute(update(api_keys).values(used_ms=1))
        keys.note_use(connection, key.id)
        third = keys.of_tenant(connection, None)[0].used_ms

    assert first == second
    assert first is not None
    assert (third or 0) >= first


def test_what_this_code_does_not_know_grants_nothing(database: Database, form: KeyForm) -> None:
    key = made(database, form)
    with database.write() as connection:
        connection.execute(update(api_keys).values(roles_json='["emperor"]', verbs_json='["conquer","see"]'))

    (caller,) = callers(database, key.id)

    assert caller.principal == Principal(tenant="acme", id="ci", verbs=frozenset({Verb.SEE}))
    assert key.roles == {Role.VIEWER}
