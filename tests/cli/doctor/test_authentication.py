"""What the doctor says about authentication."""

from __future__ import annotations

import pytest

from cli.doctor.authentication import check_authentication
from config.database.engine import Database
from config.database.migrate import migrate
from config.identity import keys
from config.identity.key_form import KeyForm
from config.identity.principal import Principal
from config.settings import Settings
from tests.cli.doctor.conftest import only

OTHERS = {"host": "192.0.2.1"}


@pytest.fixture
def required(settings: Settings) -> Settings:
    migrate(settings)
    return settings.model_copy(update={"auth": "required"})


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        ({}, "ok", "acts as 'local'"),
        ({"auth": "local"}, "ok", "the installation's token"),
        ({"no_auth": True}, "warn", "the proxy in front"),
        ({"no_auth": True, **OTHERS}, "warn", "every client that reaches it"),
        (OTHERS, "fail", "Set CALLBOARD_AUTH=required"),
        ({"auth": "local", **OTHERS}, "fail", "Set CALLBOARD_AUTH=required"),
    ],
)
def test_it_says_what_is_asked_for(settings: Settings, changed: dict[str, object], verdict: str, said: str) -> None:
    found = only(check_authentication(settings.model_copy(update=changed)))

    assert found[0] == verdict
    assert said in found[1]


def test_it_warns_where_no_credential_can_be_sent(required: Settings, database: Database) -> None:
    assert only(check_authentication(required))[0] == "warn"
    with database.write() as connection:
        key, _ = keys.create(connection, KeyForm(lambda: "5e" * 32), Principal(id="ci"), by="root")
    assert only(check_authentication(required)) == ("ok", "CALLBOARD_AUTH=required: 1 valid API key")

    with database.write() as connection:
        keys.revoke(connection, key.id, None, by="root")

    assert only(check_authentication(required))[0] == "warn"
    by_tokens = required.model_copy(update={"service_issuer": "https://issuer.example"})
    assert only(check_authentication(by_tokens))[0] == "ok"
