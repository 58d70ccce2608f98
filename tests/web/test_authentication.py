"""Who is served: only callers with a valid credential where one is required, and every refusal looks the same."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from bus.identity.credentials.local_token import FILE, local_token
from config.errors import SettingInvalid
from config.redaction import REDACTED
from config.settings import Settings, read_settings
from tests.web.conftest import opened, process_of, serve_queues
from web.app import create_app

OPEN = ["/", "/favicon.ico", "/static/app.js", "/health", "/ready"]
CLOSED = ["/v1/runs", "/v1/events", "/v1/agents", "/v1/runs/none/events", "/nowhere", "/v1/threads"]


@pytest.fixture(params=["local", "required"])
def stranger(request: pytest.FixtureRequest, settings: Settings) -> Iterator[FlaskClient]:
    """A client without a credential where one is needed."""
    yield from client_with(settings, request.param)


@pytest.fixture
def local(settings: Settings) -> Iterator[FlaskClient]:
    yield from client_with(settings, "local")


@pytest.fixture
def required(settings: Settings) -> Iterator[FlaskClient]:
    yield from client_with(settings, "required")


def client_with(settings: Settings, auth: str) -> Iterator[FlaskClient]:
    with opened(settings.model_copy(update={"auth": auth})) as runner:
        app = create_app(runner.settings, runner)
        serve_queues(runner.journal, "runs")
        yield app.test_client()
        process_of(app).close()


@pytest.mark.parametrize("path", OPEN)
def test_strangers_get_the_page_and_the_health(stranger: Any, path: str) -> None:
    assert stranger.get(path).status_code == 200


@pytest.mark.parametrize("path", CLOSED)
def test_strangers_get_nothing_else(stranger: Any, path: str) -> None:
    refused = stranger.get(path)

    assert (refused.status_code, refused.json["code"]) == (401, "unauthenticated")
    assert refused.headers["WWW-Authenticate"] == "Bearer"


def test_strangers_see_the_status_alone(stranger: Any, local: Any, settings: Settings) -> None:
    whole = local.get("/health", headers=bearer(local_token(settings))).json

    assert stranger.get("/health").json == {"status": whole["status"]}
    assert whole["workers"] == 1


def test_the_token_of_the_installation_is_served(local: Any, settings: Settings) -> None:
    token = local_token(settings)

    assert local.get("/v1/runs", headers=bearer(token)).status_code == 200
    assert stat.S_IMODE((settings.state / FILE).stat().st_mode) == 0o600
    assert local_token(settings) == token


TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
"""Answers that are compared have the same trace id."""
GARBAGE = [
    *("", "Bearer", "Bearer ", "Bearer  ", "Basic Y2FsbDpib2FyZA==", "TOKEN", "Token {}", "{}", "bearer{}"),
    *("Bearer {}x", "Bearer x{}", "Bearer {},Bearer {}", "Bearer {} {}", 'Bearer "{}"', "Bearer {}\x00", "Bearer é"),
    *("Bearer " + "x" * 7_900, "Bearer " + "x" * 100_000, "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer\t{}"),
]


@pytest.mark.parametrize("header", GARBAGE, ids=range(len(GARBAGE)))
def test_every_other_header_is_answered_the_same(local: Any, settings: Settings, header: str) -> None:
    expected = local.get("/v1/runs", headers=TRACE)

    sent = {"Authorization": header.replace("{}", local_token(settings))}
    refused = local.get("/v1/runs", headers=TRACE | sent)

    if "\0" in header:
        assert refused.status_code == 400
    else:
        assert (refused.status_code, refused.json) == (401, expected.json)


def test_the_case_of_the_scheme_does_not_matter_but_the_case_of_the_token_does(local: Any, settings: Settings) -> None:
    token = local_token(settings)

    assert local.get("/v1/runs", headers={"Authorization": f"bEARER  {token}"}).status_code == 200
    assert local.get("/v1/runs", headers=bearer(token.swapcase())).status_code == 401


def test_the_token_of_the_installation_is_no_credential_elsewhere(settings: Settings, required: Any) -> None:
    assert required.get("/v1/runs", headers=bearer(local_token(settings))).status_code == 401


def test_without_authentication_the_header_of_a_proxy_is_ignored(door: Any) -> None:
    assert door.get("/v1/runs", headers={"Authorization": "Basic Y2FsbDpib2FyZA=="}).status_code == 200


ADDRESSES = [
    *("/v1/runs?api_key=x", "/v1/runs?limit=1&access_token=x", "/v1/runs?token=x", "/v1/runs?API_KEY=x"),
    *("/v1/runs?%61pi_key=x", "/v1/runs?agent=cbk_0123456789abcdef_x", "/v1/runs?agent=cbk%5F0123456789abcdef_x"),
    *("/v1/runs?jwt=x", "/v1/runs?bearer=x", "/v1/runs?authorization=Bearer%20x", "/v1/runs?Authorization=Bearer+x"),
    *("/v1/runs?agent=%2563bk_0123456789abcdef_x", "/v1/runs/%2563bk_0123456789abcdef_x", "/v1/runs?%256Awt=x"),
    *("/v1/runs?agent=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "/v1/runs/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0."),
    *("/v1/runs?agent=%252563bk_0123456789abcdef_x", "/v1/runs?cbk_0123456789abcdef_x", "/cbk_0123456789abcdef_x"),
    *("/v1/runs/cbl_0123456789abcdef", "/health?token=x", "/?token=x", "/nowhere?token=x"),
]


def test_the_code_of_a_sign_in_may_be_a_jwt(door: Any) -> None:
    assert door.get("/auth/callback?state=x&code=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln").status_code == 200


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_secret_in_the_address_is_refused_and_not_repeated(door: Any, address: str) -> None:
    refused = door.get(address)

    assert (refused.status_code, refused.json["code"]) == (400, "secret_in_address")
    assert "cbk_" not in refused.text


@pytest.mark.parametrize("auth", [{}, {"Authorization": "Bearer x"}])
@pytest.mark.parametrize(
    "target",
    [
        *("/#token=cbl_0123456789abcdef", "/v1/runs#cbk_0123456789abcdef_x", "/?a=1#x=1&api_key=x", "/%23#token=x"),
        *("http://u:cbk_0123456789abcdef_x@127.0.0.1/v1/runs", "http://127.0.0.1/v1/runs#%74oken=x"),
    ],
)
def test_a_secret_beside_path_and_query_is_refused_too(door: Any, target: str, auth: dict[str, str]) -> None:
    """gunicorn passes on the request's target as it arrived; no browser sends a fragment."""
    refused = door.get("/v1/runs", headers=auth, environ_overrides={"RAW_URI": target})

    assert (refused.status_code, refused.json["code"]) == (400, "secret_in_address")


def test_no_problem_repeats_a_key(door: Any) -> None:
    key = "cbk_0123456789abcdef_0123456789abcdef"
    response = door.post("/v1/runs", json={"agent": key, "input": "Hi"})
    followed = door.get("/v1/runs/run_x/events", headers={"Last-Event-ID": key})

    assert [response.json["code"], followed.json["code"]] == ["agent_unknown", "cursor_invalid"]
    assert response.json["agent_id"] == followed.json["cursor"] == REDACTED
    assert key not in response.text + followed.text


def test_the_switch_contradicts_no_auth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_NO_AUTH", "1")
    monkeypatch.setenv("CALLBOARD_AUTH", "required")

    with pytest.raises(SettingInvalid, match=r"CALLBOARD_NO_AUTH .* contradicts CALLBOARD_AUTH=required"):
        read_settings()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
