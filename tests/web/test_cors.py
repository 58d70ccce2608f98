"""CORS: listed pages may call with bearer tokens; every other page is refused as without a list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask, jsonify, request
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from agents.runner import Runner
from config.errors import SettingInvalid
from config.settings import Settings, read_settings
from tests.web.conftest import accept, process_of
from web.app import create_app
from web.security import METHODS

PAGE, OTHER = "http://localhost:5173", "https://app.example.org"
FOREIGN = [
    *("", "null", "NULL", "*", "file://", "https://app.example.org.evil.example", "https://evilapp.example.org"),
    *("https://app.example.org.", "https://app.example.org:443", "https://app.example.org:8443"),
    *("http://app.example.org", "HTTPS://app.example.org", "https://APP.example.org", "https://app.example.org/"),
    *("https://app.example.org@evil.example", "https://evil@app.example.org", "https://x.app.example.org"),
    *("https://app.example.org, http://localhost:5173", "http://localhost:51730", "localhost:5173"),
    *("http://127.0.0.1:5173", "https://app.example.org\t", "https://app-example.org"),
]
NO_ORIGINS = [
    *("*", "null", "http://*", "https://*.example.org", "https://app.example.org/", "https://app.example.org/page"),
    *("app.example.org", "ftp://app.example.org", "HTTPS://app.example.org", "https://App.example.org"),
    *("https://app.example.org.", "https://user@app.example.org", "https://app.example.org:443", "http://[zz]"),
    *(
        "http://app.example.org:80",
        "http://app.example.org:",
        "http://app.example.org:99999",
        "http://app.example.org:0",
    ),
    *("https://app.example.org?x", "https://app.example.org#x", "https://", "http://bücher.example", "a b"),
]


@pytest.fixture
def app(settings: Settings, runner: Runner) -> Iterator[Flask]:
    flask_app = create_app(settings.model_copy(update={"cors_origins": f"{PAGE}, {OTHER}"}), runner)
    flask_app.add_url_rule("/cookies", view_func=lambda: jsonify(request.cookies))
    yield flask_app
    process_of(flask_app).close()


def preflight(client: FlaskClient, origin: str, path: str = "/v1/runs") -> TestResponse:
    headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    return client.options(path, headers={"Origin": origin, **headers})


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/events", "/v1/runs/none/cancel", "/nowhere"])
@pytest.mark.parametrize("origin", [PAGE, OTHER])
def test_a_preflight_of_a_listed_page_is_answered(client, origin: str, path: str) -> None:
    answer = preflight(client, origin, path)

    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (204, origin)
    assert "POST" in answer.headers["Access-Control-Allow-Methods"].split(", ")
    assert {"Authorization", "Idempotency-Key", "Last-Event-ID", "Prefer", "Content-Type"} <= set(
        answer.headers["Access-Control-Allow-Headers"].split(", ")
    )
    assert "Origin" in answer.vary
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("origin", FOREIGN)
def test_every_other_page_is_refused(client, origin: str) -> None:
    for answer in (preflight(client, origin), client.get("/v1/runs", headers={"Origin": origin})):
        assert (answer.status_code, answer.get_json()["code"]) == (403, "origin_refused")
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Origin" in answer.vary  # or a cache could give this answer to a listed page


@pytest.mark.parametrize("origin", [PAGE, "https://app.example.org", "null"])
def test_without_a_list_no_page_is_allowed(door, origin: str) -> None:
    for answer in (preflight(door, origin), door.get("/v1/runs", headers={"Origin": origin})):
        assert (answer.status_code, answer.get_json()["code"]) == (403, "origin_refused")
        assert not [name for name in dict(answer.headers) if name.startswith("Access-Control")]
    assert "Vary" not in door.get("/v1/runs").headers


def test_a_listed_page_starts_a_run_and_reads_its_address(client) -> None:
    answer = client.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers={"Origin": PAGE})

    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (202, PAGE)
    assert "Location" in answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"


@pytest.mark.parametrize("path", ["/nowhere", "/v1/runs/none", "/v1/runs?limit=x"])
def test_a_listed_page_reads_errors(client, path: str) -> None:
    answer = client.get(path, headers={"Origin": PAGE})

    assert answer.status_code in (400, 404)
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE


def test_a_listed_page_follows_a_stream(client, runner) -> None:
    run_id = accept(runner)
    runner.handle(run_id).cancel()

    answer = client.get(f"/v1/runs/{run_id}/events", headers={"Origin": PAGE})

    assert (answer.content_type, answer.headers["Access-Control-Allow-Origin"]) == (
        "text/event-stream; charset=utf-8",
        PAGE,
    )


def test_cookies_of_a_listed_page_are_ignored(client) -> None:
    client.set_cookie("callboard_session", "secret")

    assert client.get("/cookies", headers={"Origin": PAGE}).json == {}
    assert client.get("/cookies", headers={"Origin": "http://localhost"}).json == {"callboard_session": "secret"}
    assert client.get("/cookies").json == {"callboard_session": "secret"}


def test_the_own_page_is_answered_as_before(client) -> None:
    answer = client.get("/v1/runs", headers={"Origin": "http://localhost"})

    assert answer.status_code == 200
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_preflight_names_every_method_that_a_call_takes(app: Flask) -> None:
    taken = set().union(*(rule.methods or () for rule in app.url_map.iter_rules()))

    assert taken - {"OPTIONS"} == set(METHODS)


@pytest.mark.parametrize("value", NO_ORIGINS)
def test_a_list_with_anything_but_origins_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CALLBOARD_CORS_ORIGINS", f"https://app.example.org,{value}")

    with pytest.raises(SettingInvalid, match=r"CALLBOARD_CORS_ORIGINS cannot be used.*is not an origin"):
        read_settings()


def test_a_list_of_origins_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "CALLBOARD_CORS_ORIGINS", " http://localhost:5173 ,https://xn--bcher-kva.example, http://[::1]:3000,"
    )

    assert read_settings().cors_origin_list == [
        "http://localhost:5173",
        "https://xn--bcher-kva.example",
        "http://[::1]:3000",
    ]


@pytest.mark.parametrize(
    ("environment", "value", "origins"),
    [
        ("development", None, [PAGE]),
        ("development", "", []),
        ("development", OTHER, [OTHER]),
        ("production", None, []),
        (None, None, []),
    ],
)
def test_the_development_server_of_a_page_may_call_in_development_alone(
    settings: Settings, runner: Runner, environment: str | None, value: str | None, origins: list[str]
) -> None:
    chosen = settings.model_copy(update={"environment": environment, "cors_origins": value})
    app = create_app(chosen, runner)

    answer = preflight(app.test_client(), PAGE)

    assert chosen.cors_origin_list == origins
    assert (answer.status_code == 204) is (PAGE in origins)
    process_of(app).close()
