"""A verified client certificate is a credential; nothing a client can send stands for one."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response

from bus.identity import principals
from config.database.engine import Database
from config.settings import Settings
from config.settings import settings as read_once
from tests.certificates import CLIENT, Authority, Pair
from tests.web.conftest import eventually, opened, process_of
from web.app import create_app
from web.auth.authentication import current_caller
from web.server.in_process import InProcessServer

pytestmark = pytest.mark.parity

RULES = "- {certificate: CN=billing, principal: billing, tenant: acme, roles: [operator]}\n"
LISTED = "https://app.example"


def who() -> Response:
    caller = current_caller()
    identity: dict[str, Any] = {
        "id": caller.principal.id,
        "tenant": caller.principal.tenant,
        "kind": caller.credential.kind,
    }
    identity |= {"name": caller.credential.id, "roles": sorted(caller.principal.roles)}
    return Response(json.dumps(identity | {"expires_ms": caller.credential.expires_ms}))


@dataclass
class Server:
    port: int
    authority: Authority
    rules: Path
    database: Database

    def connect(self, pair: Pair | None) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return http.client.HTTPSConnection("localhost", self.port, context=context, timeout=10)

    def ask(self, pair: Pair | None, **headers: str) -> tuple[int, Any]:
        with closing(self.connect(pair)) as connection:
            connection.request("GET", "/who", headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture
def server(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    authority = Authority(tmp_path)
    pair, rules = authority.issue("server"), tmp_path / "principals.yaml"
    rules.write_text(RULES)
    chosen = {
        "tls_certificate": pair.certificate,
        "tls_key": pair.key,
        "tls_client_ca": authority.certificate,
        "tls_client_certificates": "optional",
        "tls_principals": rules,
        "auth": "required",
        "cors_origins": LISTED,
    }
    for name, value in chosen.items():
        monkeypatch.setenv(f"CALLBOARD_{name.upper()}", str(value))
    read_once.cache_clear()
    with (
        opened(settings.model_copy(update=chosen)) as runner,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        app: Flask = create_app(runner.settings, runner)
        app.add_url_rule("/who", view_func=who)
        serving = InProcessServer(listener, app)
        serving.start()
        yield Server(listener.getsockname()[1], authority, rules, runner.journal.database)
        serving.stop()
        process_of(app).close()
    read_once.cache_clear()


def test_a_certificate_stands_for_the_principal_of_its_rule(server: Server) -> None:
    status, identity = server.ask(server.authority.issue("billing", purpose=CLIENT, days=30))

    assert status == 200
    assert identity.pop("expires_ms") > 0
    assert identity == {
        "id": "billing",
        "tenant": "acme",
        "kind": "certificate",
        "name": "CN=billing",
        "roles": ["operator"],
    }


def test_without_a_certificate_or_a_rule_the_answer_is_the_same(server: Server) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    expected = server.ask(None, traceparent=trace)

    assert expected[0] == 401
    assert server.ask(server.authority.issue("reports", purpose=CLIENT), traceparent=trace) == expected


@pytest.mark.parametrize(
    "header",
    "SSL_CLIENT_CERT SSL_CLIENT_S_DN X_SSL_Client_S_DN X_Client_Cert X_Forwarded_Client_Cert REMOTE_USER Client_Cert "
    "gunicorn.socket callboard.certificate".split(),
)
def test_no_header_stands_for_a_certificate(server: Server, header: str) -> None:
    assert server.ask(None, **{header: "CN=billing"})[0] == 401


def test_a_header_with_a_credential_comes_before_the_certificate(server: Server) -> None:
    pair = server.authority.issue("billing", purpose=CLIENT)

    assert server.ask(pair, Authorization="Bearer nonsense")[0] == 401


def test_a_foreign_page_does_not_act_with_its_readers_certificate(server: Server) -> None:
    pair = server.authority.issue("billing", purpose=CLIENT)

    assert server.ask(pair, Origin=LISTED)[0] == 401
    assert server.ask(pair, Origin="https://evil.example")[0] == 403
    assert server.ask(pair, Origin=f"https://localhost:{server.port}")[0] == 200


def test_a_rule_that_is_removed_ends_its_certificate(server: Server) -> None:
    pair = server.authority.issue("billing", purpose=CLIENT)
    assert server.ask(pair)[0] == 200

    server.rules.write_text("[]")

    assert server.ask(pair)[0] == 401


def test_a_principal_that_is_disabled_is_refused_within_a_second(server: Server) -> None:
    pair = server.authority.issue("billing", purpose=CLIENT)
    assert server.ask(pair)[0] == 200

    with server.database.write() as connection:
        principals.disable(connection, "acme", "billing", by="root")

    eventually(lambda: server.ask(pair)[0] == 401, timeout_s=1.0)


@pytest.mark.parametrize("rules", ["[]", RULES.replace("[operator]", "[]"), RULES.replace("acme", "other")])
def test_a_rule_that_changes_ends_the_streams_that_it_opened(server: Server, rules: str) -> None:
    pair = server.authority.issue("billing", purpose=CLIENT)
    with closing(server.connect(pair)) as connection:
        connection.request("GET", "/v1/events")
        stream = connection.getresponse()
        while not stream.readline().startswith(b"id: "):
            pass

        server.rules.write_text(rules)

        stream.read()  # returns when the server has closed the stream


def test_a_stream_of_a_certificate_that_stays_valid_stays_open(server: Server) -> None:
    pair = server.authority.issue("billing", purpose=CLIENT)
    with closing(server.connect(pair)) as connection:
        connection.request("GET", "/v1/selftest/stream?idle_s=2")

        assert b"event: end\n" in connection.getresponse().read()
