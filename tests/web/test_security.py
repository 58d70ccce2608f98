"""Who is answered: this machine's names, this page's origin, JSON bodies; no secret that a request has is stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config import redaction
from config.redaction.provider_keys import without_keys
from config.redaction.redactor import DIGESTS_HELD, REDACTED
from config.settings import Settings
from tests.raising import raises
from tests.web.conftest import accept
from web.errors import HOST_REFUSED
from web.security import require_host

OWN_HOSTS = ["127.0.0.1", "127.0.0.1:8000", "localhost:9", "LOCALHOST", "[::1]", "[::1]:8000"]
FOREIGN_HOSTS = [
    *"evil.example 127.0.0.1.evil.example localhost.evil.example:80 127.0.0.1:x 127.0.0.1: x/? x#".split(),
    *"user@localhost localhost:99999999 127.1 0 [::1 192.168.1.7".split(),
    *("", "localhost ", "localhost\u2028"),
    *"127.0.0.1:99999 127.0.0.1:0 localhost:0080 [1.2.3.4] [::1]:65536".split(),
]
FOREIGN_ORIGINS = [
    *("", "null", "file://", "chrome-extension://localhost", "http://127.0.0.1", "http://localhost@evil"),
    *("http://evil.example", "http://localhost:3000", "https://localhost.evil.example"),
]


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_answers_to_this_machines_names(door, host: str) -> None:
    answer = door.get("/v1/runs", headers={"Host": host})

    assert answer.status_code == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_refuses_every_other_name(settings: Settings, host: str) -> None:
    with raises(HOST_REFUSED):
        require_host(host, settings)


def test_refused_host_is_a_problem(door) -> None:
    answer = door.get("/v1/runs", headers={"Host": "evil.example"})

    assert (answer.status_code, answer.json["code"]) == (403, "host_refused")


def test_without_auth_the_offered_names_are_answered(settings: Settings) -> None:
    offered = settings.model_copy(update={"no_auth": True, "allowed_hosts": "calls.example, [fd00::1]"})

    require_host("calls.example:443", offered)
    require_host("[fd00::1]", offered)
    require_host("localhost", offered)
    for host in ("evil.example", "10.0.0.1", "calls.example.evil"):
        with raises(HOST_REFUSED):
            require_host(host, offered)


def test_without_a_list_only_addresses_are_answered(settings: Settings) -> None:
    offered = settings.model_copy(update={"no_auth": True})

    require_host("10.0.0.1:8000", offered)
    require_host("[fd00::1]:8000", offered)
    for host in ("evil.example", "2130706433", "0x7f.1", ""):
        with raises(HOST_REFUSED):
            require_host(host, offered)


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/runs"), ("GET", "/v1/events"), ("POST", "/v1/runs/x/cancel")]
)
def test_refuses_other_pages(door, method: str, path: str, origin: str) -> None:
    answer = door.open(path, method=method, json={}, headers={"Origin": origin, "Host": "localhost"})

    assert (answer.status_code, answer.json["code"]) == (403, "origin_refused")


def test_answers_its_own_page(client) -> None:
    headers = {"Origin": "http://LOCALHOST:8000", "Host": "localhost:8000"}

    answer = client.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=headers)

    assert answer.status_code == 202


@pytest.mark.parametrize("path", ["/", "/v1/runs", "/nowhere", "/health", "/v1/runs/none"])
def test_every_answer_says_what_a_browser_may_do(door, path: str) -> None:
    headers = door.get(path).headers

    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == ("no-cache" if path == "/" else "no-store")


def test_streams_carry_the_headers_too(client, runner) -> None:
    run_id = accept(runner)
    runner.handle(run_id).cancel()

    answer = client.get(f"/v1/runs/{run_id}/events")

    assert answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert "no-cache" in answer.headers["Cache-Control"]


SECRET = "Zq8vT1mKx4Lw9RbN"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The digests that `up` gives its web process."""
    monkeypatch.setenv(DIGESTS_HELD, without_keys({"MISTRAL_API_KEY": SECRET})[DIGESTS_HELD])
    redaction.forget()
    yield
    monkeypatch.undo()
    redaction.forget()


@pytest.mark.usefixtures("held")
def test_a_secret_of_the_workers_is_neither_stored_nor_shown(client, journal) -> None:
    body = {"agent": "assistant", "input": f"My key is {SECRET}, use it.", "thread_id": "mine"}
    started = client.post("/v1/runs", json=body)

    messages = client.get("/v1/threads/mine/messages")
    named = client.post("/v1/threads", json={"thread_id": SECRET})

    assert started.status_code == 202
    assert f"My key is {REDACTED}, use it." in messages.get_data(as_text=True)
    with journal.database.engine.connect() as connection:
        stored = "\n".join(connection.connection.driver_connection.iterdump())
    assert SECRET not in stored
    assert REDACTED in stored
    assert named.status_code == 400
