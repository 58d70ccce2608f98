"""Servers and authorization servers that try to have Callboard send tokens or requests where they do not belong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import httpx2
import pytest

from agents.errors import McpServerDown
from agents.tools.mcp.oauth.login import log_in
from agents.tools.mcp.oauth.requests import OAuthAsker
from config.definitions.mcp.oauth import McpOAuthFields
from config.definitions.mcp.server import McpServerDefinition
from tests.agents.tools.mcp.oauth.login_server import LoginServer, browse, guarding

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
AS = "/.well-known/oauth-authorization-server"
Change = Callable[[LoginServer], None]


@pytest.fixture(scope="module")
def login_server() -> Any:
    with guarding() as guarded:
        yield guarded


@pytest.fixture
def guarded(login_server: LoginServer) -> LoginServer:
    login_server.__init__(int(login_server.origin.rpartition(":")[2]))  # type: ignore[misc]  # as it was
    return login_server


def refusal(guarded: LoginServer, timeout_s: float = 10, oauth: Mapping[str, Any] = MappingProxyType({})) -> str:
    urls: list[str] = []

    def show(url: str) -> None:
        urls.append(url)
        if url.startswith(guarded.origin):
            browse(url)

    server = McpServerDefinition(name="guarded", url=guarded.url, oauth=McpOAuthFields(**oauth), file="guarded.yaml")
    with pytest.raises(McpServerDown) as caught:
        asyncio.run(log_in(server, show, timeout_s=timeout_s))
    assert not guarded.tokens, "a token was given"
    return f"{caught.value} shown={urls}"


def metadata(**fields: Any) -> Change:
    return lambda guarded: guarded.metadata.update(fields)


def resource(**fields: Any) -> Change:
    return lambda guarded: guarded.resource.update(fields)


def come_back(**fields: str) -> Change:
    return lambda guarded: guarded.come_back.update(fields)


def override(path: str, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Change:
    return lambda guarded: guarded.overrides.update({path: (status, headers or {}, body)})


ATTACKS: dict[str, tuple[Change, str]] = {
    "sign-in by script": (metadata(authorization_endpoint="javascript:alert(1)"), "no metadata"),
    "sign-in at a file": (metadata(authorization_endpoint="file:///etc/passwd"), "no metadata"),
    "sign-in at data": (metadata(authorization_endpoint="data:text/html,x"), "no metadata"),
    "sign-in with shell text": (metadata(authorization_endpoint="https://x.example/$(touch%20/tmp/x)"), "characters"),
    "sign-in with a command": (metadata(authorization_endpoint="https://x.example/a';id;'"), "characters"),
    "sign-in with backticks": (metadata(authorization_endpoint="https://x.example/`id`"), "x.example/%60id%60?"),
    "sign-in with a password": (metadata(authorization_endpoint="https://a@x.example/"), "user name"),
    "sign-in unencrypted": (metadata(authorization_endpoint="http://x.example/a"), "without encryption"),
    "issuer of another": (metadata(issuer="https://other.example"), "issuer mismatch"),
    "answer of another issuer": (come_back(iss="https://other.example"), "iss mismatch"),
    "answer to another login": (come_back(state="forged"), "was not finished"),
    "answer that refuses": (come_back(error="access_denied", error_description="no\x1b[31m"), "access_denied"),
    "answer without a code": (come_back(code=""), "No authorization code"),
    "resource of another": (resource(resource="https://other.example/mcp"), "does not match"),
    "metadata of a cloud": (resource(authorization_servers=["http://169.254.169.254/"]), "without encryption"),
    "metadata of a cloud, encrypted": (resource(authorization_servers=["https://169.254.169.254/"]), "not a public"),
    "metadata at a private address": (resource(authorization_servers=["https://10.0.0.1/"]), "not a public host"),
    "metadata at this machine": (resource(authorization_servers=["https://127.0.0.1:6379/"]), "not"),
    "metadata at localhost": (resource(authorization_servers=["https://localhost/"]), "not a public host"),
    "tokens of a private address": (metadata(token_endpoint="https://192.168.0.1/token"), "not a public host"),
    "tokens of an IPv6 address": (metadata(token_endpoint="https://[::ffff:10.0.0.1]/token"), "not a public host"),
    "tokens unencrypted": (metadata(token_endpoint="http://x.example/token"), "without encryption"),
    "registration at a private address": (metadata(registration_endpoint="https://10.0.0.1/r"), "not a public host"),
    "metadata that are huge": (override(AS, 200, None, b'{"issuer": "' + b"x" * 500_000), "more than a flow has"),
    "metadata that are no JSON": (override(AS, 200, None, b"<html>"), "failed"),
    "metadata nested deeply": (override(AS, 200, None, b"[" * 100_000), "failed"),
    "metadata elsewhere": (override(AS, 302, {"Location": "http://169.254.169.254/"}), "no metadata"),
    "tokens elsewhere": (override("/token", 307, {"Location": "https://x.example/token"}), "(307)"),
    "tokens that are refused": (override("/token", 400, None, b'{"error":"invalid_grant"}'), "invalid_grant"),
    "tokens that are none": (override("/token", 200, None, b"{}"), "failed"),
    "a token that is a header": (
        override("/token", 200, None, b'{"access_token":"a\\r\\nX-Evil: 1","token_type":"Bearer"}'),
        "cannot be sent",
    ),
    "a client that is none": (override("/register", 201, None, b"[]"), "failed"),
    "no registration": (override("/register", 403, None, b"no"), "403"),
}


ENDLESS = ("answer to another login", "sign-in with backticks")
"""No answer comes that is taken."""


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_login_that_leads_elsewhere_fails(guarded: LoginServer, name: str) -> None:
    change, message = ATTACKS[name]
    change(guarded)

    text = refusal(guarded, 0.5 if name in ENDLESS else 10)

    assert message in text
    assert "`" not in text.partition(" shown=")[2]
    assert "\x1b" not in text


def test_a_clients_secret_goes_to_its_issuer_alone(guarded: LoginServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_CLIENT", "s3cret-of-client")
    oauth = {"client_id": "robot", "client_secret": "env:SECRET_OF_CLIENT", "issuer": "https://auth.example"}

    assert "its file names https://auth.example" in refusal(guarded, oauth=oauth)
    override(AS, 404)(guarded)
    assert "no metadata" in refusal(guarded, oauth=oauth)
    override("/.well-known/oauth-protected-resource/mcp", 404)(guarded)
    override("/.well-known/oauth-protected-resource", 404)(guarded)
    assert "leads to no authorization server, and its file names https://auth.example" in refusal(guarded, oauth=oauth)

    assert not [form for path, form, _ in guarded.asked if path in ("/token", "/register", "/authorize")]


@pytest.mark.parametrize(
    "texts", [["127.0.0.1"], ["93.184.215.14", "10.0.0.1"], ["169.254.169.254"]], ids=["local", "mixed", "metadata"]
)
def test_a_name_with_a_private_address_is_not_asked(guarded: LoginServer, texts: list[str]) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return texts

    server = McpServerDefinition(name="guarded", url=guarded.url, oauth=McpOAuthFields(), file="guarded.yaml")
    request = httpx2.Request("GET", "https://auth.example/.well-known/openid-configuration")

    with pytest.raises(McpServerDown, match="not a public host"):
        asyncio.run(OAuthAsker(server, resolver).ask(request))
