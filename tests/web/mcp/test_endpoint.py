"""`/mcp` before the protocol: who may call it, and with what."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from flask.testing import FlaskClient
from jwt.algorithms import get_default_algorithms

from agents.runner import Runner
from config.settings import Settings
from tests.web.conftest import opened, process_of
from web.app import create_app

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODERN = {**HEADERS, "MCP-Protocol-Version": "2026-07-28"}


def _message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}}


def _post(client: FlaskClient, message: Any, **headers: str) -> Any:
    body = message if isinstance(message, bytes) else orjson.dumps(message)
    method = message.get("method", "") if isinstance(message, dict) else ""
    return client.post("/mcp", data=body, headers={**MODERN, "Mcp-Method": method, **headers})


def test_a_request_without_a_handshake_is_answered(client: FlaskClient) -> None:
    answer = _post(client, _message("tools/list"))

    assert (answer.status_code, answer.content_type) == (200, "application/json")
    assert answer.json["result"]["tools"][0]["name"] == "assistant"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_handshake_is_answered_without_a_session(client: FlaskClient) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    answer = client.post("/mcp", data=orjson.dumps(message), headers=HEADERS)

    assert answer.status_code == 200
    assert "Mcp-Session-Id" not in answer.headers
    assert b'"name":"callboard"' in answer.data


def test_a_session_of_others_is_not_known(client: FlaskClient) -> None:
    answer = _post(client, _message("tools/list"), **{"Mcp-Session-Id": "0123456789abcdef"})

    assert (answer.status_code, answer.json["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_streams_of_their_own_and_no_sessions_to_end(client: FlaskClient, method: str) -> None:
    answer = client.open("/mcp", method=method, headers=HEADERS)

    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 415, "media_type_refused"),
        (b"{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "media_type_refused"),
        (b"{}", {"Content-Encoding": "gzip"}, 415, "media_type_refused"),
        (b"", {}, 400, "bad_request"),
        (b"not JSON", {}, 400, "bad_request"),
        (b"[]", {}, 400, "bad_request"),
        (b'{"a": 1, "a": 2}', {}, 400, "bad_request"),
        (b"[" * 5000, {}, 400, "bad_request"),
        (b'{"a": "\\u0000"}', {}, 400, "bad_request"),
        (b"{}", {"Host": "evil.example.org"}, 403, "host_refused"),
        (b"{}", {"Origin": "https://evil.example.org"}, 403, "origin_refused"),
    ],
)
def test_what_is_no_message_is_refused_before_the_protocol(
    door: FlaskClient, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    answer = _post(door, body, **headers)

    assert (answer.status_code, answer.json["code"]) == (status, code)


def test_a_body_that_is_too_large_is_refused(door: FlaskClient) -> None:
    answer = _post(door, b'{"a": "' + b"x" * 3_000_000 + b'"}')

    assert (answer.status_code, answer.json["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "message",
    [{}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": {}}],
)
def test_an_object_that_is_no_message_is_refused_by_the_protocol(client: FlaskClient, message: dict[str, Any]) -> None:
    answer: Any = client.post("/mcp", data=orjson.dumps(message), headers=MODERN)

    assert answer.status_code == 400
    assert answer.json["error"]["code"] in (-32600, -32602, -32020)


RESOURCE = "http://localhost/mcp"
ISSUER = "https://issuer.example.org"
KEY = ed25519.Ed25519PrivateKey.generate()


def _token(**changed: Any) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "billing", "iat": now, "exp": now + 300, **changed}
    return jwt.encode(claims, KEY, "EdDSA", headers={"kid": "one"})


@pytest.fixture
def closed(settings: Settings, tmp_path: Path) -> Any:
    """A client of a server that needs a credential, and has an issuer."""
    public = get_default_algorithms()["EdDSA"].to_jwk(KEY.public_key(), as_dict=True)
    jwks = tmp_path / "jwks.json"
    jwks.write_bytes(orjson.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "EdDSA"}]}))
    issuer = {"service_issuer": ISSUER, "service_jwks": str(jwks), "service_audience": RESOURCE}
    needed = settings.model_copy(update={"auth": "required", **issuer})
    with opened(needed) as runner:
        app = create_app(needed, runner)
        yield app.test_client()
        process_of(app).close()


def test_a_stranger_learns_where_tokens_are_issued(closed: FlaskClient) -> None:
    answer = _post(closed, _message("tools/list"))

    assert (answer.status_code, answer.json["code"]) == (401, "unauthenticated")
    address = "http://localhost/.well-known/oauth-protected-resource/mcp"
    assert answer.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{address}"'
    found: Any = closed.get(address).json
    assert found["resource"] == "http://localhost/mcp"
    assert found["authorization_servers"] == ["https://issuer.example.org"]
    assert closed.get("/.well-known/oauth-protected-resource").json == found


def test_a_token_is_accepted_that_was_issued_for_this_resource(closed: FlaskClient) -> None:
    answer = _post(closed, _message("tools/list"), Authorization=f"Bearer {_token()}")

    assert (answer.status_code, answer.json["result"]["tools"][0]["name"]) == (200, "assistant")


@pytest.mark.parametrize(
    "changed",
    [{"aud": "http://localhost/other"}, {"aud": ISSUER}, {"iss": "https://other.example.org"}, {"exp": 1}],
    ids=["another resource", "the issuer itself", "another issuer", "expired"],
)
def test_a_token_that_was_issued_for_another_use_is_refused(closed: FlaskClient, changed: dict[str, Any]) -> None:
    answer = _post(closed, _message("tools/list"), Authorization=f"Bearer {_token(**changed)}")

    assert (answer.status_code, answer.json["code"]) == (401, "unauthenticated")


def test_a_foreign_page_that_is_listed_may_send_what_clients_send(settings: Settings) -> None:
    listed = settings.model_copy(update={"cors_origins": "https://inspector.example.org"})
    headers = {"Origin": "https://inspector.example.org", "Access-Control-Request-Method": "POST"}
    with opened(listed) as runner:
        app = create_app(listed, runner)
        answer = app.test_client().options("/mcp", headers=headers)
        process_of(app).close()

    allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert {name.lower() for name in ("Authorization", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")} <= {*allowed}


def test_a_token_that_is_not_ours_is_refused(closed: FlaskClient) -> None:
    for token in ("cb_nothing", "a.b.c", "sk-ant-others"):
        answer = _post(closed, _message("tools/list"), Authorization=f"Bearer {token}")
        assert answer.status_code == 401


def test_without_an_issuer_there_is_no_metadata(client: FlaskClient, runner: Runner) -> None:
    assert runner.settings.service_issuer == ""
    assert client.get("/.well-known/oauth-protected-resource/mcp").status_code == 404
