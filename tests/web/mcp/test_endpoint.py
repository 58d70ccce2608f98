"""`/mcp` before the protocol: who may call it, and with what."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

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


@pytest.fixture
def closed(settings: Settings) -> Any:
    """A client of a server that needs a credential, and has an issuer."""
    needed = settings.model_copy(
        update={"auth": "required", "service_issuer": "https://issuer.example.org", "service_jwks": "/nowhere.json"}
    )
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


def test_a_token_that_is_not_ours_is_refused(closed: FlaskClient) -> None:
    for token in ("cb_nothing", "a.b.c", "sk-ant-others"):
        answer = _post(closed, _message("tools/list"), Authorization=f"Bearer {token}")
        assert answer.status_code == 401


def test_without_an_issuer_there_is_no_metadata(client: FlaskClient, runner: Runner) -> None:
    assert runner.settings.service_issuer == ""
    assert client.get("/.well-known/oauth-protected-resource/mcp").status_code == 404
