"""Service tokens: JWTs of an issuer whose keys come over real HTTP and are rotated."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

from bus.identity.principals import disable
from config.errors import SettingInvalid
from config.settings import Settings, read_settings
from tests.raising import raises
from tests.web.conftest import eventually, opened, process_of
from web.app import create_app
from web.auth import keys, service_tokens
from web.auth.authentication import EXTENSION
from web.auth.service_tokens import KeySet
from web.errors import ISSUER_UNREACHABLE

pytestmark = pytest.mark.parity

ISSUER, AUDIENCE = "https://issuer.example", "callboard"


class Issuer:
    """Signs tokens, and serves its public keys over HTTP."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Any]] = {}
        self.more: list[dict[str, Any]] = []
        self.fetches = 0
        self.status = 200
        self.body: bytes | None = None
        self.answers = threading.Event()
        """Not set: it hangs."""
        self.asked = threading.Event()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                issuer.asked.set()
                issuer.answers.wait(60)
                body = issuer.body or json.dumps({"keys": issuer.published()}).encode()
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(body)))
                if issuer.status == 302:
                    self.send_header("Location", issuer.url)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def published(self) -> list[dict[str, Any]]:
        public_keys = []
        for key_id, (algorithm, key) in self.keys.items():
            public = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
            public_keys.append({**public, "kid": key_id, "use": "sig", "alg": algorithm})
        return public_keys + self.more

    def rotate(self, key_id: str, algorithm: str = "ES256") -> None:
        self.keys = {key_id: (algorithm, KEYS[algorithm]())}

    def token(self, key_id: str = "one", *, header: dict[str, Any] | None = None, **changed: Any) -> str:
        algorithm, key = self.keys[key_id]
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "billing", "iat": now, "exp": now + 300} | changed
        payload = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(payload, key, algorithm, headers={"kid": key_id} | (header or {}))


KEYS = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.server.shutdown()
    issuer.server.server_close()


@pytest.fixture
def issuer(server: Issuer) -> Iterator[Issuer]:
    server.more, server.status, server.body = [], 200, None
    server.rotate("one")
    server.fetches = 0
    server.answers.set()
    server.asked.clear()
    yield server
    server.answers.set()


@pytest.fixture
def door(settings: Settings, issuer: Issuer) -> Iterator[Any]:
    """A client of a process that requires authentication and accepts the issuer's tokens."""
    yield from door_with(settings, service_jwks=issuer.url)


def door_with(settings: Settings, **changed: Any) -> Iterator[Any]:
    service = {"service_issuer": ISSUER, "service_roles": "ops=operator, eyes=viewer", **changed}
    with opened(settings.model_copy(update={"auth": "required", **service})) as runner:
        app = create_app(runner.settings, runner)
        yield app.test_client()
        process_of(app).close()


def status(door: Any, token: str) -> int:
    answer = door.get("/v1/runs", headers={"Authorization": f"Bearer {token}"})
    assert "Traceback" not in answer.text
    return int(answer.status_code)


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_service_acts_as_its_subject(door: Any, issuer: Issuer, algorithm: str) -> None:
    issuer.rotate("one", algorithm)
    bearer = {"Authorization": f"Bearer {issuer.token()}"}

    run_id = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=bearer).json["run_id"]

    assert door.get(f"/v1/runs/{run_id}", headers=bearer).json["principal"] == "billing"
    assert status(door, issuer.token(sub="shipping")) == 200
    other = {"Authorization": f"Bearer {issuer.token(sub='shipping')}"}
    assert door.get(f"/v1/runs/{run_id}", headers=other).status_code == 404


def test_a_service_does_not_act_as_the_terminal(settings: Settings, issuer: Issuer) -> None:
    for door in door_with(settings, service_jwks=issuer.url, service_tenant_claim="org", tenant="acme"):
        tokens = [issuer.token(org=tenant, sub=sub) for tenant, sub in (("acme", "local"), ("default", "local"))]

        assert [status(door, token) for token in tokens] == [401, 200]


def test_roles_come_from_the_claim_by_the_mapping_alone(door: Any, issuer: Issuer) -> None:
    owner = {"Authorization": f"Bearer {issuer.token()}"}
    run_id = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=owner).json["run_id"]

    def seen(roles: Any) -> int:
        bearer = {"Authorization": f"Bearer {issuer.token(sub='other', roles=roles)}"}
        return int(door.get(f"/v1/runs/{run_id}", headers=bearer).status_code)

    assert [seen(roles) for roles in (["eyes"], "x eyes", ["ops", 7])] == [200] * 3
    unmapped = (["admin"], ["viewer"], ["emperor", "*", "EYES", ""], "admin", {"eyes": 1}, None, 7)
    assert [seen(roles) for roles in unmapped] == [404] * 7


def test_a_key_does_not_outlive_the_token_that_creates_it(settings: Settings, issuer: Issuer) -> None:
    for door in door_with(settings, service_jwks=issuer.url, service_roles="root=admin"):
        bearer = {"Authorization": f"Bearer {issuer.token(roles=['root'])}"}

        answers = [door.post("/v1/keys", json={"name": "ci", **lifetime}, headers=bearer) for lifetime in LIFETIMES]

        assert [answer.status_code for answer in answers] == [403, 403, 201]
        assert answers[0].json["code"] == "scope_exceeded"


LIFETIMES: tuple[dict[str, int], ...] = ({}, {"expires_in_s": 3600}, {"expires_in_s": 60})


def test_the_tenant_comes_from_its_claim(settings: Settings, issuer: Issuer) -> None:
    for door in door_with(settings, service_jwks=issuer.url, service_tenant_claim="org"):
        assert status(door, issuer.token(org="acme")) == 200
        for tenant in (None, "", "a/b", 7, ["acme"]):
            assert status(door, issuer.token(org=tenant)) == 401


NOW = int(time.time())
REFUSED: dict[str, dict[str, Any]] = {
    "wrong audience": {"aud": "another"},
    "no audience": {"aud": None},
    "wrong issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "expired": {"iat": NOW - 600, "exp": NOW - 300},
    "no end": {"exp": None},
    "no beginning": {"iat": None},
    "from the future": {"iat": NOW + 3600, "exp": NOW + 3900},
    "not yet": {"nbf": NOW + 3600},
    "too long": {"exp": NOW + 7200},
    "issued long ago": {"iat": NOW - 7200},
    "endless": {"exp": float("inf")},
    "end is text": {"exp": "tomorrow"},
    "end is true": {"exp": True},
    "beginning is half": {"iat": NOW - 0.5},
    "no subject": {"sub": None},
    "subject is a path": {"sub": "../root"},
    "subject is long": {"sub": "x" * 65},
    "no key id": {"header": {"kid": None}},
    "unknown key id": {"header": {"kid": "other"}},
    "type of a logout": {"header": {"typ": "logout+jwt"}},
    "type is a list": {"header": {"typ": ["JWT"]}},
    "critical": {"header": {"crit": ["exp"]}},
}


@pytest.mark.parametrize("case", REFUSED)
def test_every_other_token_is_refused(door: Any, issuer: Issuer, case: str) -> None:
    try:
        token = issuer.token(**REFUSED[case])
    except (TypeError, jwt.PyJWTError):  # the library does not make such a token
        token = raw_token(issuer, **REFUSED[case])

    assert status(door, token) == 401
    assert status(door, issuer.token()) == 200


def raw_token(issuer: Issuer, header: dict[str, Any] | None = None, **changed: Any) -> str:
    """Sign any header and any claims."""
    algorithm, key = issuer.keys["one"]
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "billing", "iat": NOW, "exp": NOW + 300} | changed
    parts = [{"alg": algorithm, "typ": "JWT", "kid": "one"} | (header or {}), claims]
    signed = ".".join(b64(json.dumps(part).encode()) for part in parts)
    signer = get_default_algorithms()[algorithm]
    return f"{signed}.{b64(signer.sign(signed.encode(), signer.prepare_key(key)))}"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_no_signature_and_the_public_key_as_a_secret_are_refused(door: Any, issuer: Issuer) -> None:
    issuer.rotate("one", "RS256")
    public = issuer.keys["one"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = b64(json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "iat": NOW, "exp": NOW + 300}).encode())

    def forged(algorithm: str) -> str:
        head = b64(json.dumps({"alg": algorithm, "typ": "JWT", "kid": "one"}).encode())
        signer = get_default_algorithms()["HS256"]
        signature = signer.sign(f"{head}.{claims}".encode(), public)
        return f"{head}.{claims}.{'' if algorithm.lower() == 'none' else b64(signature)}"

    assert status(door, issuer.token()) == 200
    for algorithm in ("none", "None", "NONE", "HS256", "RS256", "ES256", ""):
        assert status(door, forged(algorithm)) == 401
    assert status(door, issuer.token().rpartition(".")[0] + ".") == 401
    assert status(door, issuer.token()[:-3] + "abc") == 401


SHORT = {"kty": "RSA", "kid": "short", "n": b64(b"\xff" * 128), "e": "AQAB", "alg": "RS256"}


def test_a_secret_key_in_the_set_is_no_key(door: Any, issuer: Issuer) -> None:
    issuer.more = [
        {"kty": "oct", "kid": "shared", "k": b64(b"x" * 32), "alg": "HS256"},
        {"kty": "RSA"},
        {"kty": "?"},
        SHORT,
    ]
    token = jwt.encode({"iss": ISSUER}, b"x" * 32, "HS256", headers={"kid": "shared"})

    assert status(door, token) == 401
    assert status(door, issuer.token()) == 200


def test_keys_are_rotated(door: Any, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    old = issuer.token()
    assert status(door, old) == 200
    monkeypatch.setattr(service_tokens, "RETRY_S", 0.0)

    issuer.rotate("two")
    assert status(door, issuer.token("two")) == 200

    assert status(door, old) == 401
    assert issuer.fetches >= 2


def test_unknown_keys_are_asked_for_rarely(door: Any, issuer: Issuer) -> None:
    assert status(door, issuer.token()) == 200

    for number in range(20):
        assert status(door, issuer.token(header={"kid": f"k{number}"})) == 401

    assert issuer.fetches == 1


def test_tokens_of_a_known_key_are_valid_while_the_issuer_is_away(
    door: Any, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(door, issuer.token()) == 200
    monkeypatch.setattr(service_tokens, "RETRY_S", 0.0)
    monkeypatch.setattr(service_tokens, "FRESH_S", 0.0)

    for broken in ({"status": 500}, {"status": 302}, {"body": b"no json"}, {"body": b"x" * 300_000}, {"body": b"[]"}):
        issuer.status, issuer.body = 200, None
        vars(issuer).update(broken)
        assert status(door, issuer.token()) == 200

    monkeypatch.setattr(service_tokens, "STALE_S", 0.0)
    refused = door.get("/v1/runs", headers={"Authorization": f"Bearer {issuer.token()}"})
    assert (refused.status_code, refused.json["code"]) == (503, "issuer_unreachable")


def test_an_issuer_that_hangs_holds_few_requests(door: Any, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_tokens, "PATIENCE_S", 60.0)
    monkeypatch.setattr(service_tokens, "TIMEOUT_S", 60.0)
    token = issuer.token()
    assert status(door, token) == 200
    monkeypatch.setattr(service_tokens, "RETRY_S", 0.0)
    issuer.asked.clear()
    issuer.answers.clear()
    issuer.rotate("two")
    unknown, statuses = issuer.token("two"), []
    waiting = [
        threading.Thread(target=lambda: statuses.append(status(door, unknown)))
        for _ in range(service_tokens.MAX_WAITING)
    ]
    for thread in waiting:
        thread.start()
    key_set = door.application.extensions[EXTENSION]._services._keys
    eventually(lambda: key_set._waiting._value == 0)
    assert issuer.asked.wait(60)

    at_once = [door.get("/v1/runs", headers={"Authorization": f"Bearer {unknown}"}) for _ in range(20)]
    assert {(answer.status_code, answer.json["code"]) for answer in at_once} == {(503, "issuer_unreachable")}
    assert "Retry-After" in at_once[0].headers
    assert status(door, token) == 200
    assert (issuer.fetches, statuses) == (2, [])

    issuer.answers.set()
    for thread in waiting:
        thread.join(60)
    assert statuses == [200] * service_tokens.MAX_WAITING


def test_an_unknown_key_is_no_refusal_where_the_last_fetch_failed(
    door: Any, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(door, issuer.token()) == 200
    assert status(door, issuer.token(header={"kid": "other"})) == 401
    monkeypatch.setattr(service_tokens, "RETRY_S", 0.0)
    issuer.status = 500

    assert status(door, issuer.token(header={"kid": "other"})) == 503
    monkeypatch.setattr(service_tokens, "RETRY_S", 60.0)
    fetches = issuer.fetches
    assert [status(door, issuer.token(header={"kid": f"k{number}"})) for number in range(20)] == [503] * 20
    assert issuer.fetches == fetches
    assert status(door, issuer.token()) == 200


def test_keys_come_from_a_file_too(settings: Settings, issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": issuer.published()}))

    for door in door_with(settings, service_jwks=str(tmp_path / "jwks.json")):
        assert status(door, issuer.token()) == 200

    assert issuer.fetches == 0


def test_a_disabled_service_is_refused(door: Any, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "FRESH_S", 0.0)
    assert status(door, issuer.token()) == 200

    with process_of(door.application).journal.database.write() as connection:
        disable(connection, "default", "billing", by="root")

    assert status(door, issuer.token()) == 401
    assert status(door, issuer.token(sub="shipping")) == 200


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("ALGORITHMS", "none", "has to be some of"),
        ("ALGORITHMS", "RS256,HS256", "has to be some of"),
        ("ALGORITHMS", "", "has to be some of"),
        ("JWKS", "http://issuer.example/jwks", "https://"),
        ("JWKS", "", "needs"),
        ("AUDIENCE", "", "needs"),
        ("ROLES", "ops=emperor", "viewer, operator, approver, admin"),
        ("ROLES", "ops", "viewer, operator, approver, admin"),
    ],
)
def test_settings_that_would_weaken_it_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    service = {"ISSUER": ISSUER, "JWKS": "https://issuer.example/jwks", name: value}
    for each, text in service.items():
        monkeypatch.setenv(f"CALLBOARD_SERVICE_{each}", text)

    with pytest.raises(SettingInvalid, match=complaint):
        read_settings()


@pytest.mark.parametrize(
    "source", ["http://169.254.169.254/jwks", "http://[::ffff:169.254.169.254]/jwks", "http://2852039166/jwks"]
)
def test_keys_come_from_no_metadata_service(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = KeySet(source, ["ES256"])
    monkeypatch.setattr("httpx2.HTTPTransport.handle_request", lambda *_: pytest.fail("it was about to connect"))

    with raises(ISSUER_UNREACHABLE):
        keys.key("one")
