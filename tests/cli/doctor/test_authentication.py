"""What the doctor says about authentication."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.identity.credentials import keys
from bus.identity.credentials.key_form import KeyForm
from cli.doctor.authentication import check_authentication, lets_no_one_in
from config.database.engine import Database
from config.database.migrate import migrate
from config.identity.principal import Principal
from config.settings import Settings
from tests.cli.doctor.conftest import only

OTHERS = {"host": "192.0.2.1"}


@pytest.fixture
def required(settings: Settings) -> Settings:
    migrate(settings)
    return settings.model_copy(update={"auth": "required"})


@pytest.mark.parametrize(
    ("changed", "verdict", "message"),
    [
        ({}, "ok", "acts as 'local'"),
        ({"auth": "local"}, "ok", "the installation's token"),
        ({"no_auth": True}, "warn", "the proxy in front"),
        ({"no_auth": True, **OTHERS}, "warn", "every client that reaches it"),
        (OTHERS, "fail", "Set CALLBOARD_AUTH=required"),
        ({"auth": "local", **OTHERS}, "fail", "Set CALLBOARD_AUTH=required"),
    ],
)
def test_it_says_what_is_asked_for(settings: Settings, changed: dict[str, object], verdict: str, message: str) -> None:
    finding = only(check_authentication(settings.model_copy(update=changed)))

    assert finding[0] == verdict
    assert message in finding[1]


def test_it_warns_where_no_credential_can_be_sent(required: Settings, database: Database) -> None:
    assert only(check_authentication(required))[0] == "warn"
    assert lets_no_one_in(required)
    assert not lets_no_one_in(required.model_copy(update={"auth": "local"}))
    with database.write() as connection:
        key, _ = keys.create(connection, KeyForm(lambda: "5e" * 32), Principal(id="ci"), by="root")
    assert only(check_authentication(required)) == ("ok", "CALLBOARD_AUTH=required: 1 valid API key")
    assert not lets_no_one_in(required)

    with database.write() as connection:
        keys.revoke(connection, key.id, None, by="root")

    assert only(check_authentication(required))[0] == "warn"
    by_tokens = required.model_copy(update={"service_issuer": "https://issuer.example"})
    assert only(check_authentication(by_tokens))[0] == "ok"


def test_a_database_without_a_schema_is_said_in_words(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    required = settings.model_copy(update={"auth": "required", "database_url": f"sqlite:///{file}"})
    assert "there is no valid API key" in only(check_authentication(required))[1]
    assert not file.exists()
    file.touch()

    verdict, text = only(check_authentication(required))

    assert verdict == "warn"
    assert "because the database above cannot be used" in text


@pytest.mark.parametrize("auth", ["none", "required"])
def test_it_warns_of_keys_that_act_as_the_local_principal(settings: Settings, database: Database, auth: str) -> None:
    migrate(settings)
    key_ids: dict[tuple[str, str], str] = {}
    with database.write() as connection:
        for tenant, name in (("default", "ops"), ("acme", "ops"), ("default", "ci")):
            principal = Principal(tenant=tenant, id=name)
            key, _ = keys.create(connection, KeyForm(lambda: "5e" * 32), principal, by="root")
            key_ids[tenant, name] = key.id

    warning, _ = check_authentication(settings.model_copy(update={"auth": auth, "principal": "ops"}))

    assert warning[0] == "warn"
    assert key_ids["default", "ops"] in warning[1]
    assert [key_id in warning[1] for key_id in key_ids.values()].count(True) == 1
