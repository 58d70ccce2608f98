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
from web.mcp.application import HttpServer

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


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_the_trace_of_an_http_request_is_that_of_its_message(client: FlaskClient, version: str) -> None:
    sent = "0af7651916cd43dd8448eb211c80319c"
    headers = {"MCP-Protocol-Version": version, "traceparent": f"00-{sent}-00f067aa0ba902b7-01"}

    answers = [_post(client, _message("tools/list"), **headers), _post(client, _message("prompts/get"), **headers)]

    assert [answer.headers["X-Trace-Id"] for answer in answers] == [sent, sent]
    assert [sent.encode() in answer.data for answer in answers] == [True, True]


def test_a_session_of_others_is_not_known(client: FlaskClient) -> None:
    answer = _post(client, _message("tools/list"), **{"Mcp-Session-Id": "0123456789abcdef"})

    assert (answer.status_code, answer.json["code"]) == (404, "not_found")
    assert "without Mcp-Session-Id" in answer.json["detail"]


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
        (b"{}", {"Host": "localhost.evil.example.org:8000"}, 403, "host_refused"),
        (b"{}", {"Origin": "https://evil.example.org"}, 403, "origin_refused"),
        (b"{}", {"Origin": "http://localhost.evil.example.org"}, 403, "origin_refused"),
        (b"{}", {"Origin": "null"}, 403, "origin_refused"),
        (b"{}", {"Content-Type": "multipart/form-data; boundary=x"}, 415, "media_type_refused"),
        (b"{}", {"Content-Type": "application/vnd.example+json"}, 415, "media_type_refused"),
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


ID = b'"id":1'
CALL = _message("tools/call", name="assistant", arguments={"input": "Hi"})
BROKEN: list[tuple[str, Any, dict[str, str], int, int]] = [
    ("no message", {}, {}, 400, -32600),
    ("another JSON-RPC", {"jsonrpc": "1.0", "id": 1, "method": "ping"}, {}, 400, -32600),
    ("no method", {"jsonrpc": "2.0", "id": 1}, {}, 400, -32600),
    ("an answer", {"jsonrpc": "2.0", "id": 1, "result": {}}, {}, 400, -32600),
    ("an id that is an object", {"jsonrpc": "2.0", "id": {}, "method": "ping"}, {}, 400, -32600),
    ("an id that is true", {**_message("tools/list"), "id": True}, {}, 400, -32600),
    ("an id that is a fraction", {**_message("tools/list"), "id": 1.5}, {}, 400, -32600),
    ("an id that is null", {**_message("tools/list"), "id": None}, {}, 400, -32600),
    ("a method that is a number", {"jsonrpc": "2.0", "id": 1, "method": 7}, {}, 400, -32600),
    ("a method of 100,000 characters", _message("x" * 100_000), {"Mcp-Method": "x"}, 400, -32020),
    ("params that are a list", {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, {}, 400, -32600),
    ("no _meta", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}, {}, 400, -32602),
    ("another method in the header", _message("tools/list"), {"Mcp-Method": "tools/call"}, 400, -32020),
    ("another tool in the header", CALL, {"Mcp-Name": "other"}, 400, -32020),
    ("no tool in the header", CALL, {}, 400, -32020),
    ("an unknown version", _message("tools/list"), {"MCP-Protocol-Version": "1999-01-01"}, 400, -32020),
    ("a version of 5,000 characters", _message("tools/list"), {"MCP-Protocol-Version": "x" * 5000}, 400, -32020),
    ("an unknown method", _message("no/such"), {}, 404, -32601),
    ("a method of clients", _message("sampling/createMessage", messages=[]), {}, 404, -32601),
    ("a handshake after it", _message("initialize"), {}, 404, -32601),
    (
        "arguments that are a list",
        _message("tools/call", name="assistant", arguments=[]),
        {"Mcp-Name": "assistant"},
        400,
        -32602,
    ),
    ("a tool that is a number", _message("tools/call", name=7), {"Mcp-Name": "7"}, 400, -32020),
    ("an unknown tool", _message("tools/call", name="no"), {"Mcp-Name": "no"}, 400, -32602),
    ("no Accept", _message("tools/list"), {"Accept": ""}, 406, -32600),
    ("Accept without streams", _message("tools/list"), {"Accept": "application/json"}, 406, -32600),
    ("Accept for a page", _message("tools/list"), {"Accept": "text/html"}, 406, -32600),
]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        {"jsonrpc": "2.0", "id": [], "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
    ],
    ids=["nothing", "another JSON-RPC", "a method that is a number", "null", "an object", "a list", "true", "a half"],
)
def test_what_is_no_message_is_refused_with_a_sentence_in_the_handshake_era(door: FlaskClient, message: Any) -> None:
    answer: Any = door.post("/mcp", data=orjson.dumps(message), headers=HEADERS)

    assert (answer.status_code, answer.json["error"]["code"]) == (400, -32600)
    assert answer.json["error"]["message"].startswith("the body is no message of JSON-RPC 2.0; it needs")
    assert answer.json["error"]["data"]["trace_id"] == answer.headers["X-Trace-Id"]
    assert "pydantic" not in answer.text


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_what_is_no_request_is_refused_by_the_protocol_and_names_its_trace(
    door: FlaskClient, message: Any, headers: dict[str, str], status: int, code: int
) -> None:
    answer = _post(door, message, **headers)

    assert (answer.status_code, answer.content_type) == (status, "application/json")
    assert answer.json["error"]["code"] == code
    assert answer.json["error"]["data"]["trace_id"] == answer.headers["X-Trace-Id"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + orjson.dumps(CALL),
        orjson.dumps(CALL).decode().encode("utf-16"),
        orjson.dumps(CALL).replace(b'"Hi"', b"NaN"),
        orjson.dumps(CALL).replace(b'"Hi"', b"1e400"),
        orjson.dumps(CALL).replace(b'"Hi"', b'"\\ud800"'),
        orjson.dumps(CALL).replace(b'"Hi"', b"[" * 100 + b"]" * 100),
        orjson.dumps(CALL).replace(b'"Hi"', orjson.dumps(list(range(60_000)))),
        orjson.dumps(CALL).replace(ID, b'"id":1' + b"0" * 5000),
        orjson.dumps(CALL).replace(ID, ID + b',"method":"ping"'),
        orjson.dumps(CALL) + b"{}",
        orjson.dumps([CALL, CALL]),
        b"null",
    ],
    ids="BOM UTF-16 NaN 1e400 surrogate deep many digits twice two batch null".split(),
)
def test_json_that_two_readers_read_differently_is_refused(door: FlaskClient, body: bytes) -> None:
    answer = _post(door, body, **{"Mcp-Method": "tools/call", "Mcp-Name": "assistant"})

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")


def test_a_notification_is_acknowledged_without_a_body(door: FlaskClient) -> None:
    answer = _post(door, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})

    assert (answer.status_code, answer.data, answer.content_type) == (202, b"", None)


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
    for other in (closed.get("/mcp"), closed.delete("/mcp")):  # clients that look for the server's events, or end
        assert (other.status_code, other.headers["WWW-Authenticate"]) == (401, answer.headers["WWW-Authenticate"])
    assert closed.get("/v1/runs").headers["WWW-Authenticate"] == "Bearer"
    json: Any = closed.get(address).json
    assert json["resource"] == "http://localhost/mcp"
    assert json["authorization_servers"] == ["https://issuer.example.org"]
    assert closed.get("/.well-known/oauth-protected-resource").json == json


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


def test_a_token_stays_at_the_door(closed: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Any] = []
    exchange = HttpServer.exchange

    def watched(server: HttpServer, scope: Any, *others: Any) -> Any:
        passed.extend([scope, *others])
        return exchange(server, scope, *others)

    monkeypatch.setattr(HttpServer, "exchange", watched)
    token = _token()

    assert _post(closed, _message("tools/list"), Authorization=f"Bearer {token}", Cookie="a=b").status_code == 200
    assert b"mcp-protocol-version" in dict(passed[0]["headers"])
    assert token not in str(passed)
    assert {b"authorization", b"cookie"}.isdisjoint(dict(passed[0]["headers"]))


def test_a_token_that_is_not_ours_is_refused(closed: FlaskClient) -> None:
    for token in ("cb_nothing", "a.b.c", "sk-ant-others"):
        answer = _post(closed, _message("tools/list"), Authorization=f"Bearer {token}")
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token", resource_metadata="http')


def test_without_an_issuer_there_is_no_metadata(client: FlaskClient, runner: Runner) -> None:
    assert runner.settings.service_issuer == ""
    assert client.get("/.well-known/oauth-protected-resource/mcp").status_code == 404
