"""Sign-in at a real OpenID Connect provider, in a process of its own."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from sqlalchemy import select

from bus.identity.audit.chain import entries
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.identity.principals import disable
from config.database.shared_secret import shared_secret
from config.database.tables import audit
from config.egress.exchange import trusted
from config.fresh import FreshByKey
from config.identity.principal import Principal, Verb
from config.settings import Settings
from tests.identity_provider.provider import OTHER_CLIENT_ID, IdentityProvider
from tests.web.conftest import opened, process_of
from tests.web.contract import require_no_difference, watch
from tests.web.signing_in import Reader, settings_for
from web.app import create_app
from web.audit import EXTENSION as REFUSALS

pytestmark = pytest.mark.parity

RUN = {"agent": "assistant", "input": "Hello"}


@pytest.fixture
def deploy(settings: Settings, identity_provider: IdentityProvider) -> Iterator[Callable[..., Flask]]:
    """Makes web processes of one deployment."""
    with ExitStack() as stack:

        def made(**changes: Any) -> Flask:
            runner = stack.enter_context(opened(settings_for(settings, identity_provider, **changes)))
            app = create_app(runner.settings, runner)
            watch(app)
            stack.callback(require_no_difference, app)
            stack.callback(process_of(app).close)
            return app

        yield made


@pytest.fixture
def deployed(deploy: Callable[..., Flask]) -> Flask:
    return deploy()


@pytest.fixture
def reader(deployed: Flask) -> Reader:
    return Reader(deployed)


# --- who signs in -------------------------------------------------------------------------------


def test_a_person_signs_in_and_has_the_roles_of_mapped_groups_only(reader: Reader) -> None:
    reader.signs_in("olga")

    me = reader.me()
    assert (me["tenant"], me["principal"], me["roles"]) == ("default", "olga", ["operator"])
    assert (me["credential"], me["display_name"]) == ("session", "Olga")
    assert me["expires_at"].endswith("Z")
    assert reader.client.get("/v1/runs").status_code == 200
    assert Reader(reader.client.application).signs_in("nora").me()["roles"] == []


def test_the_cookie_is_the_deployments_own_and_no_script_reads_it(reader: Reader) -> None:
    finished = reader.finishes(reader.returns("olga"))

    session = next(line for line in finished.headers.getlist("Set-Cookie") if "callboard_session_" in line)
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(session.split("; "))
    assert "Domain" not in session
    assert "Secure" not in session  # over plain HTTP a browser would not send it back


def test_over_https_the_cookies_are_bound_to_the_host(deploy: Callable[..., Flask]) -> None:
    client = deploy(public_url="https://localhost").test_client()

    begun = client.post("/auth/sign-in")

    (cookie,) = begun.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Host-callboard_sign_in_")
    assert "; Secure" in cookie
    query = parse_qs(urlsplit(begun.json["authorization_url"]).query)  # type: ignore[index]
    assert query["redirect_uri"] == ["https://localhost/auth/callback"]


def test_pkce_state_and_nonce_are_sent_and_the_verifier_is_not(reader: Reader) -> None:
    query = parse_qs(urlsplit(reader.begins()).query)

    assert query["code_challenge_method"] == ["S256"]
    assert query["state"] == [reader.state]
    assert len(query["nonce"][0]) == len(query["code_challenge"][0]) == 43
    assert "code_verifier" not in query


@pytest.mark.parametrize(
    ("changes", "principal", "tenant"),
    [
        ({"oidc_principal_claim": "preferred_username"}, "adam", "default"),
        ({"oidc_tenant_claim": "family_name"}, "adam", "Adam"),
        ({"oidc_groups": "admins,owners"}, "adam", "default"),
    ],
)
def test_claims_name_the_principal_and_the_tenant(
    deploy: Callable[..., Flask], changes: dict[str, str], principal: str, tenant: str
) -> None:
    me = Reader(deploy(**changes)).signs_in("adam").me()

    assert (me["principal"], me["tenant"], me["roles"]) == (principal, tenant, ["admin"])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"oidc_groups": "admins,owners"}, "group"),
        ({"oidc_principal_claim": "email"}, "verif"),
        ({"oidc_principal_claim": "nickname"}, "nickname"),
        ({"oidc_tenant_claim": "nickname"}, "nickname"),
        ({"principal": "olga"}, "CALLBOARD_PRINCIPAL"),
    ],
)
def test_who_cannot_be_named_or_may_not_sign_in_is_refused(
    deploy: Callable[..., Flask], changes: dict[str, str], word: str
) -> None:
    reader = Reader(deploy(**changes))

    refused = reader.finishes(reader.returns("olga"))

    assert (refused.status_code, refused.json["code"]) == (403, "sign_in_refused")  # type: ignore[index]
    assert word in refused.json["detail"]  # type: ignore[index]
    assert reader.me()["code"] == "unauthenticated"


# --- sign-ins that are not what they seem -------------------------------------------------------


def _other_state(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    return returned | {"state": returned["state"][::-1]}


def _state_of_another_sign_in(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    other = Reader(reader.client.application)
    other.begins()
    return returned | {"state": other.state}


def _code_of_another_sign_in(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    return returned | {"code": Reader(reader.client.application).returns("adam")["code"]}


def _another_issuer(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    return returned | {"iss": "https://login.example.org"}


def _made_up_code(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    return returned | {"code": "a" * 48}


def _denied(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    return {"state": returned["state"], "error": "access_denied"}


def _no_code(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    return {"state": returned["state"]}


def _without_cookie(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    name, _ = reader.cookie("callboard_sign_in")
    reader.client.delete_cookie(name)
    return returned


def _cookie_of_another_browser(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    """A page on another port planted the cookie of a sign-in that it began; the state is the reader's."""
    other = Reader(reader.client.application)
    other.begins()
    reader.client.set_cookie(*other.cookie("callboard_sign_in"))
    return returned


def _changed_cookie(reader: Reader, returned: dict[str, str]) -> dict[str, str]:
    name, value = reader.cookie("callboard_sign_in")
    random, end, mac = value.split(".")
    reader.client.set_cookie(name, f"{random}.{int(end) + 1000}.{mac}")
    return returned


TAMPERINGS = [
    *(_other_state, _state_of_another_sign_in, _code_of_another_sign_in, _another_issuer, _made_up_code, _denied),
    *(_no_code, _without_cookie, _cookie_of_another_browser, _changed_cookie),
]


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_a_sign_in_that_was_tampered_with_signs_no_one_in(reader: Reader, tamper: Callable[..., Any]) -> None:
    refused = reader.finishes(tamper(reader, reader.returns("olga")))

    assert (refused.status_code, refused.json["code"]) == (403, "sign_in_refused")  # type: ignore[index]
    assert not any("callboard_session" in line for line in refused.headers.getlist("Set-Cookie"))
    assert reader.me()["code"] == "unauthenticated"


def test_a_code_and_its_sign_in_are_taken_once(reader: Reader) -> None:
    returned = reader.returns("olga")
    attempt = reader.cookie("callboard_sign_in")
    assert reader.finishes(returned).status_code == 200
    again = Reader(reader.client.application)
    again.client.set_cookie(*attempt)

    assert again.finishes(returned).status_code == 403
    assert again.me()["code"] == "unauthenticated"


def test_a_token_for_another_client_of_the_provider_is_refused(
    deploy: Callable[..., Flask], identity_provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(deploy(oidc_client_id=OTHER_CLIENT_ID))
    returned = reader.returns("olga")
    provider = process_of(reader.client.application).provider
    whole = provider._settings
    monkeypatch.setattr("web.oidc.provider.claims_of", _with_client_id(whole, "callboard"))

    assert reader.finishes(returned).status_code == 403


def _with_client_id(settings: Settings, client_id: str) -> Callable[..., Any]:
    """Return the validation of a deployment with another client id: the token is not for it."""
    from web.oidc.provider import claims_of

    ours = settings.model_copy(update={"oidc_client_id": client_id})
    return lambda token, keys, metadata, _, nonce: claims_of(token, keys, metadata, ours, nonce)


def test_trusted_certificates_are_read_once_for_all_sign_ins(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[ssl.SSLContext] = []
    load = ssl.SSLContext.load_verify_locations

    def loaded(context: ssl.SSLContext, *where: Any) -> None:
        read.append(context)
        load(context, *where)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", loaded)

    trusted.cache_clear()
    reader.signs_in("olga")
    reader.signs_in("olga")

    assert len(read) == 1


def test_an_address_to_return_to_cannot_be_given(reader: Reader) -> None:
    assert reader.client.post("/auth/sign-in?return_to=//evil.example").status_code == 400
    returned = reader.returns("olga") | {"return_to": "//evil.example"}

    assert reader.finishes(returned).status_code == 400
    callback = reader.client.get("/auth/callback?code=x&state=y&return_to=//evil.example")
    assert callback.status_code == 200
    assert "Location" not in callback.headers


def test_a_provider_that_does_not_answer_is_a_problem_with_a_sentence(deploy: Callable[..., Flask]) -> None:
    reader = Reader(deploy(oidc_issuer="http://127.0.0.1:9"))

    refused = reader.client.post("/auth/sign-in")

    assert (refused.status_code, refused.json["code"]) == (503, "provider_unreachable")  # type: ignore[index]
    assert refused.headers["Retry-After"]


@pytest.mark.parametrize("issuer", ["https://169.254.169.254", "https://[fd00:ec2::254]", "https://gpu.example"])
def test_a_metadata_service_is_no_provider(
    deploy: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, issuer: str
) -> None:
    lookup = socket.getaddrinfo

    def answers(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host == "gpu.example":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]
        return lookup(host, port, *more, **named)

    def connect(*_: Any, **__: Any) -> None:
        raise AssertionError("it was about to connect")

    reader = Reader(deploy(oidc_issuer=issuer))
    monkeypatch.setattr(socket, "getaddrinfo", answers)
    monkeypatch.setattr(socket, "create_connection", connect)

    refused = reader.client.post("/auth/sign-in")

    assert (refused.status_code, refused.json["code"]) == (503, "provider_unreachable")  # type: ignore[index]
    assert "metadata service" in caplog.text
    assert "169.254" not in refused.text


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("head", "piece", "pause_s"),
    [(b"\r\n", b" " * 65536, 0), (b"\r\n", b" ", 0.05), (b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"{}"), 0)],
    ids=["endless", "slow", "compressed"],
)
def test_an_answer_of_the_provider_is_limited_in_size_and_time(
    deploy: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch, head: bytes, piece: bytes, pause_s: float
) -> None:
    monkeypatch.setattr("web.oidc.provider.TOTAL_S", 0.3)
    over = threading.Event()

    def send(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(ANSWER + head)
        while not over.wait(pause_s):
            client.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as provider:
        thread = threading.Thread(target=serve_one, args=(provider, send))
        thread.start()
        began_s = time.monotonic()
        refused = Reader(deploy(oidc_issuer=f"http://127.0.0.1:{provider.getsockname()[1]}")).client.post(
            "/auth/sign-in"
        )
        took_s = time.monotonic() - began_s
        over.set()
        thread.join()

    assert (refused.status_code, refused.json["code"]) == (503, "provider_unreachable")  # type: ignore[index]
    assert took_s < 5


def serve_one(server: socket.socket, send: Callable[[socket.socket], None]) -> None:
    client, _ = server.accept()
    with client, suppress(OSError):
        send(client)


def test_a_provider_with_another_name_is_refused(
    deploy: Callable[..., Flask], identity_provider: IdentityProvider
) -> None:
    refused = Reader(deploy(oidc_issuer=identity_provider.issuer.rstrip("/"))).client.post("/auth/sign-in")

    assert refused.status_code == 503
    assert "equal to the character" in refused.json["detail"]  # type: ignore[index]


def test_without_a_provider_there_is_no_sign_in(client: Any) -> None:
    assert client.get("/auth/sign-in").json == {"auth": "none"}
    assert (client.post("/auth/sign-in").status_code, client.get("/v1/me").status_code) == (404, 200)


# --- sessions -----------------------------------------------------------------------------------


def test_a_sign_in_replaces_the_session_that_the_browser_had(reader: Reader) -> None:
    reader.signs_in("olga")
    first = reader.cookie("callboard_session")
    reader.signs_in("adam")

    assert reader.me()["principal"] == "adam"
    assert reader.cookie("callboard_session")[1] != first[1]
    old = Reader(reader.client.application)
    old.client.set_cookie(*first)
    assert old.me()["code"] == "unauthenticated"


def test_a_planted_session_neither_signs_in_nor_stays(reader: Reader) -> None:
    """What a server on another port can do: choose the cookie before the sign-in (fixation)."""
    name, value = Reader(reader.client.application).signs_in("nora").cookie("callboard_session")
    made_up = value[:-4] + "0000"
    reader.client.set_cookie(name, made_up)
    assert reader.me()["code"] == "unauthenticated"

    reader.signs_in("olga")

    assert reader.cookie("callboard_session")[1] not in (made_up, value)
    assert reader.me()["principal"] == "olga"


def test_with_another_persons_planted_session_the_page_can_change_nothing(reader: Reader) -> None:
    """Login CSRF: the page has no token of a sign-in that it did not make."""
    cookie = Reader(reader.client.application).signs_in("nora").cookie("callboard_session")
    reader.client.set_cookie(*cookie)

    refused = reader.post("/v1/runs", RUN)

    assert (refused.status_code, refused.json["code"]) == (403, "csrf_refused")  # type: ignore[index]


def test_a_planted_cookie_beside_the_session_locks_no_one_out(reader: Reader) -> None:
    name, value = reader.signs_in("olga").cookie("callboard_session")
    made_up = value[:-4] + "0000"
    headers = {"Cookie": f"{name}={made_up}; {name}={value}; other=1"}

    assert reader.client.application.test_client(use_cookies=False).get("/v1/me", headers=headers).status_code == 200


def test_two_sessions_in_one_request_are_refused(reader: Reader) -> None:
    name, value = reader.signs_in("olga").cookie("callboard_session")
    _, other = Reader(reader.client.application).signs_in("nora").cookie("callboard_session")
    headers = {"Cookie": f"{name}={other}; {name}={value}"}

    assert reader.client.application.test_client(use_cookies=False).get("/v1/me", headers=headers).status_code == 401


def test_a_session_of_another_deployment_is_refused(
    reader: Reader, identity_provider: IdentityProvider, settings: Settings, empty_database: Any, tmp_path: Any
) -> None:
    import shutil

    name, value = reader.signs_in("olga").cookie("callboard_session")
    shutil.copy(empty_database, tmp_path / "other.db")
    other = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'other.db'}"})
    with opened(settings_for(other, identity_provider)) as runner:
        app = create_app(runner.settings, runner)
        stranger = Reader(app).signs_in("olga")
        own_name, _ = stranger.cookie("callboard_session")
        stranger.client.set_cookie(own_name, value)

        assert own_name != name
        assert stranger.me()["code"] == "unauthenticated"
        process_of(app).close()


def test_sign_out_ends_the_session_in_every_web_process(deploy: Callable[..., Flask]) -> None:
    reader, other = Reader(deploy()).signs_in("olga"), Reader(deploy())
    cookie = reader.cookie("callboard_session")

    signed_out = reader.post("/auth/sign-out")

    assert signed_out.status_code == 200
    assert "post_logout_redirect_uri=http%3A%2F%2Flocalhost%2F" in signed_out.json["provider_url"]  # type: ignore[index]
    for again in (reader, other):
        again.client.set_cookie(*cookie)
        assert again.me()["code"] == "unauthenticated"


def test_sign_out_everywhere_ends_all_sessions_of_the_principal_and_no_others(deployed: Flask) -> None:
    here, there, nora = Reader(deployed).signs_in("olga"), Reader(deployed).signs_in("olga"), Reader(deployed)
    nora.signs_in("nora")

    assert here.post("/auth/sign-out", {"everywhere": True}).status_code == 200

    ended = process_of(deployed)
    ended.journal
    _forget_known(deployed)
    assert there.me()["code"] == "unauthenticated"
    assert nora.me()["principal"] == "nora"


@pytest.mark.parametrize(("verb", "status", "code"), [(Verb.SEE, 403, "forbidden"), (Verb.CONTROL, 200, None)])
def test_a_key_ends_sessions_only_if_its_scope_has_control(
    deployed: Flask, verb: Verb, status: int, code: str | None
) -> None:
    olga = Reader(deployed).signs_in("olga")
    principal = Principal(id=olga.me()["principal"], verbs=frozenset({verb}))
    journal = process_of(deployed).journal
    form = KeyForm(partial(shared_secret, journal.database, SECRET_NAME))
    form.open()
    with journal.database.write() as connection:
        _, key = keys.create(connection, form, principal, by="root")

    headers = {"Authorization": f"Bearer {key}"}
    answer = deployed.test_client().post("/auth/sign-out", json={"everywhere": True}, headers=headers)

    assert (answer.status_code, answer.json.get("code")) == (status, code)  # type: ignore[union-attr]
    _forget_known(deployed)
    assert ("code" in olga.me()) is (status == 200)


def test_another_sign_in_with_fewer_groups_takes_the_role_of_all_sessions(deploy: Callable[..., Flask]) -> None:
    before, after = deploy(), deploy(oidc_roles="owners=admin")
    adam = Reader(before).signs_in("adam")
    assert adam.me()["roles"] == ["admin"]

    Reader(after).signs_in("adam")

    _forget_known(before)
    assert adam.me()["roles"] == []


def test_a_disabled_principal_loses_its_sessions_and_cannot_sign_in(reader: Reader) -> None:
    reader.signs_in("olga")
    app = reader.client.application
    with process_of(app).journal.database.write() as connection:
        disable(connection, "default", "olga", by="admin")
    _forget_known(app)

    assert reader.me()["code"] == "unauthenticated"
    assert reader.finishes(reader.returns("olga")).status_code == 403


def test_the_audit_log_has_sign_ins_and_sign_outs_and_no_secret(reader: Reader) -> None:
    texts = [reader.signs_in("olga").cookie("callboard_session")[1], reader.csrf_token]
    reader.signs_in("adam").post("/auth/sign-out")

    with process_of(reader.client.application).journal.database.read() as connection:
        rows = connection.execute(select(audit).order_by(audit.c.number)).all()
    listed = [(row.action, row.principal, row.credential) for row in rows]
    assert listed == [
        ("sign_in", "olga", "none"),
        ("sign_out", "olga", "none"),
        ("sign_in", "adam", "none"),
        ("sign_out", "adam", "session"),
    ]
    assert not any(text in str(rows) for text in texts)


def test_the_cookie_of_an_ended_session_is_a_recorded_refusal(reader: Reader) -> None:
    cookie = reader.signs_in("olga").cookie("callboard_session")
    reader.post("/auth/sign-out")
    reader.me()
    reader.client.set_cookie(*cookie)
    reader.me()

    process = process_of(reader.client.application)
    reader.client.application.extensions[REFUSALS].close()

    refused = [
        refusal for entry in entries(process.journal.database, "default") for refusal in entry.facts.get("refused", [])
    ]
    assert [(refusal["code"], refusal["count"]) for refusal in refused] == [("unauthenticated", 1)]


# --- requests that change something -------------------------------------------------------------

CSRF = [
    ("GET", "/v1/runs", None, "none", 200),
    ("GET", "/v1/runs", "http://evil.example", "right", 403),
    ("POST", "/v1/runs", "http://localhost", "right", 202),
    ("POST", "/v1/runs", None, "right", 202),
    ("POST", "/v1/runs", "http://localhost", "none", 403),
    ("POST", "/v1/runs", "http://localhost", "empty", 403),
    ("POST", "/v1/runs", "http://localhost", "another", 403),
    ("POST", "/v1/runs", "http://localhost", "odd", 403),
    ("POST", "/v1/runs", None, "none", 403),
    ("POST", "/v1/runs", "http://localhost:9999", "right", 403),
    ("POST", "/v1/runs", "http://evil.example", "right", 403),
    ("POST", "/v1/runs", "null", "right", 403),
    ("DELETE", "/v1/runs/run_none", "http://localhost", "right", 404),
    ("DELETE", "/v1/runs/run_none", "http://localhost", "none", 403),
    ("POST", "/auth/sign-out", "http://localhost", "none", 403),
]


@pytest.fixture(scope="module")
def signed_in(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Any, identity_provider: IdentityProvider
) -> Iterator[tuple[Reader, Reader]]:
    """Two readers whose sessions the tests leave as they are."""
    from tests.web.conftest import furnish

    folder = tmp_path_factory.mktemp("signed-in")
    bare = Settings(state_dir=folder, database_url=f"sqlite:///{folder / 'callboard.db'}")
    with opened(settings_for(furnish(bare, folder, empty_database), identity_provider)) as runner:
        app = create_app(runner.settings, runner)
        yield Reader(app).signs_in("olga"), Reader(app).signs_in("nora")
        process_of(app).close()


@pytest.mark.parametrize(("method", "path", "origin", "token", "status"), CSRF)
def test_what_changes_something_needs_the_sessions_token_and_our_origin(
    signed_in: tuple[Reader, Reader], method: str, path: str, origin: str | None, token: str, status: int
) -> None:
    reader, other = signed_in
    tokens = {"right": reader.csrf_token, "another": other.csrf_token, "empty": "", "odd": "é" * 43}
    headers = {"X-CSRF-Token": tokens[token]} if token != "none" else {}
    headers |= {"Origin": origin} if origin is not None else {}

    answered = reader.client.open(path, method=method, json=RUN if method == "POST" else None, headers=headers)

    assert answered.status_code == status


def _forget_known(app: Flask) -> None:
    """Half a second has passed: what is known of sessions is looked up again."""
    from web.auth.authentication import EXTENSION

    app.extensions[EXTENSION].sessions._known = FreshByKey()
