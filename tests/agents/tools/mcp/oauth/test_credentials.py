"""Servers that the worker signs in to by itself, with a client's secret or key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agents.errors import McpServerDown
from agents.tools.mcp.oauth.tokens import OwnTokens
from agents.tools.mcp.pool import McpPool
from config.redaction import redact
from tests.agents.tools.mcp.conftest import Run, said
from tests.agents.tools.mcp.oauth.conftest import Define
from tests.agents.tools.mcp.oauth.login_server import LoginServer

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


@pytest.fixture
def robot(guarded: LoginServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("SECRET_OF_ROBOT", "s3cret-of-robot")
    common = {"grant": "client_credentials", "client_id": "robot", "issuer": guarded.origin, "scope": "read"}
    return {**common, "client_secret": "env:SECRET_OF_ROBOT"}


def test_a_clients_secret_needs_no_login_and_no_database(
    run: Run, define: Define, guarded: LoginServer, robot: dict[str, Any]
) -> None:
    server = define(oauth=robot)

    async def use(pool: McpPool) -> list[str]:
        calls = (pool.call("t", server, "whoami", {}) for _ in range(10))
        return [said(result) for result in await asyncio.gather(*calls)]

    assert run(use) == ["client robot"] * 10
    (form,) = guarded.asked_for("client_credentials")
    assert (form["scope"], form["resource"]) == ("read", guarded.url)
    assert "client_secret" not in form


def test_a_clients_key_signs_for_the_issuer(
    run: Run, define: Define, guarded: LoginServer, robot: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    guarded.public_key = public.decode()
    monkeypatch.setenv("KEY_OF_ROBOT", private.decode())
    del robot["client_secret"]
    server = define(oauth={**robot, "private_key": "env:KEY_OF_ROBOT", "signing_algorithm": "ES256"})

    async def use(pool: McpPool) -> str:
        return said(await pool.call("t", server, "whoami", {}))

    assert run(use) == "client robot"


def test_a_token_that_ended_or_is_refused_is_replaced(
    run: Run, define: Define, guarded: LoginServer, robot: dict[str, Any]
) -> None:
    server = define(oauth=robot)

    async def use(pool: McpPool) -> list[str]:
        first = said(await pool.call("t", server, "whoami", {}))
        guarded.tokens.clear()
        return [first, said(await pool.call("t", server, "whoami", {}))]

    assert run(use) == ["client robot"] * 2
    assert len(guarded.asked_for("client_credentials")) == 2


def test_of_a_clients_tokens_the_newest_of_each_tenant_are_redacted(
    define: Define, guarded: LoginServer, robot: dict[str, Any]
) -> None:
    guarded.lifetime_s = 0
    server = define(oauth=robot)

    async def use() -> list[str]:
        own_tokens, other = OwnTokens("one", server), OwnTokens("other", server)
        return [await other.current(), *[await own_tokens.current() for _ in range(6)]]

    of_other, *of_one = asyncio.run(use())

    assert [token for token in guarded.tokens if redact(token) != token] == [of_other, *of_one[-2:]]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"client_id": "stranger"}, "invalid_grant"),
        ({"issuer": "https://auth.example"}, "https://auth.example"),
        ({"private_key": "env:SECRET_OF_ROBOT", "client_secret": None}, "private key cannot sign"),
    ],
    ids=["client", "issuer", "key"],
)
def test_credentials_that_are_none_are_down(
    run: Run, define: Define, robot: dict[str, Any], change: dict[str, Any], text: str
) -> None:
    fields = {name: value for name, value in {**robot, **change}.items() if value is not None}

    with pytest.raises(McpServerDown, match=text) as caught:
        run(lambda pool: pool.call("t", define(oauth=fields), "whoami", {}))

    assert "s3cret" not in str(caught.value)
