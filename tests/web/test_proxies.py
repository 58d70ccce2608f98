"""What proxies forward counts if they are trusted; of any other peer it has no effect at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask import Flask, Response, request
from flask.testing import FlaskClient

from config.errors import SettingInvalid
from config.settings import Settings, read_settings
from tests.web.conftest import process_of
from tests.web.contract import contract_of, data_of
from web.app import create_app
from web.feeds import viewers
from web.feeds.page import BEAT
from web.proxies import FORWARDED
from web.server.in_process import InProcessServer

PROXY, OTHER = "10.0.0.7", "10.0.0.8"
SHOWN = ("REMOTE_ADDR", "wsgi.url_scheme", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING")
FORGED = {
    "Forwarded": "for=192.0.2.1;proto=https;host=localhost:9",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Host": "localhost:9",
    "X-Forwarded-Port": "9",
    "X-Forwarded-Prefix": "/elsewhere",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Protocol": "https",
    "X-Forwarded-Scheme": "https",
    "X-Forwarded-Server": "localhost",
    "X-Forwarded-Ssl": "on",
    "X-Forwarded-Uri": "/elsewhere",
    "X-Original-Url": "/elsewhere",
    "X-Real-Ip": "192.0.2.1",
    "X-Rewrite-Url": "/elsewhere",
    "X-Script-Name": "/elsewhere",
}


@contextmanager
def client_of(settings: Settings, runner, **changes: Any) -> Iterator[FlaskClient]:
    app = create_app(settings.model_copy(update=changes), runner)
    app.add_url_rule("/seen", view_func=seen)
    yield app.test_client()
    process_of(app).close()


def seen() -> Response:
    """Answer with all that a handler may see of who sent the request, and to where."""
    environ = request.environ
    variables = {name: value for name, value in environ.items() if name in SHOWN or name.startswith("HTTP_")}
    return Response(orjson.dumps(variables), content_type="application/json")


def ask(client: FlaskClient, peer: str, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get("/seen", headers={"Host": "localhost", **named}, environ_overrides={"REMOTE_ADDR": peer})


@pytest.mark.parametrize("peer", [OTHER, "127.0.0.1", "10.0.0.70", "::1", "::ffff:10.0.0.8", "", "unknown"])
def test_headers_of_other_peers_have_no_effect(settings: Settings, runner, peer: str) -> None:
    with client_of(settings, runner, trusted_proxies=PROXY) as client:
        without = ask(client, peer).data
        for name, value in FORGED.items():
            assert ask(client, peer, **{name: value}).data == without, name
        assert ask(client, peer, **FORGED).data == without


def test_by_default_no_peer_is_believed(settings: Settings, runner) -> None:
    with client_of(settings, runner) as client:
        assert ask(client, "127.0.0.1", **FORGED).data == ask(client, "127.0.0.1").data


@pytest.mark.parametrize("peer", [PROXY, "::ffff:10.0.0.7", "fd00::9"])
def test_a_trusted_proxy_says_who_asks_and_over_what(settings: Settings, runner, peer: str) -> None:
    with client_of(settings, runner, trusted_proxies=f"{PROXY}, fd00::/64") as client:
        json = ask(
            client, peer, X_Forwarded_For="192.0.2.1", X_Forwarded_Proto="https", X_Forwarded_Host="localhost:9"
        ).json

    assert (json["REMOTE_ADDR"], json["wsgi.url_scheme"], json["HTTP_HOST"]) == (
        "192.0.2.1",
        "https",
        "localhost:9",
    )


def test_of_a_trusted_proxy_too_only_three_headers_have_an_effect(settings: Settings, runner) -> None:
    read = {"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"}
    with client_of(settings, runner, trusted_proxies=PROXY) as client:
        without = ask(client, PROXY).data
        for name in FORGED.keys() - read:
            assert ask(client, PROXY, **{name: FORGED[name]}).data == without, name


def test_of_several_values_those_of_our_own_proxies_count(settings: Settings, runner) -> None:
    forwarded = {"X_Forwarded_For": "198.51.100.1, 192.0.2.1, 10.1.1.1", "X_Forwarded_Proto": "http, https, http"}
    with client_of(settings, runner, trusted_proxies=PROXY, trusted_proxy_count=2) as client:
        json = ask(client, PROXY, **forwarded).json
        fewer = ask(client, PROXY, X_Forwarded_For="192.0.2.1").json

    assert (json["REMOTE_ADDR"], json["wsgi.url_scheme"]) == ("192.0.2.1", "https")
    assert fewer["REMOTE_ADDR"] == PROXY, "a client has bypassed one of the proxies"


@pytest.mark.parametrize("address", ["unknown", "192.0.2.1:4711", "999.1.1.1", "<script>", "192.0.2.1 ", '"a,b"'])
def test_an_address_that_is_none_is_dropped(settings: Settings, runner, address: str) -> None:
    with client_of(settings, runner, trusted_proxies=PROXY) as client:
        remote_address = ask(client, PROXY, X_Forwarded_For=address).json["REMOTE_ADDR"]

    assert remote_address == ("192.0.2.1" if address.strip() == "192.0.2.1" else PROXY)


@pytest.mark.parametrize("scheme", ["HTTPS", "ws", "javascript", "https;", ""])
def test_a_scheme_that_is_none_of_ours_is_dropped(settings: Settings, runner, scheme: str) -> None:
    with client_of(settings, runner, trusted_proxies=PROXY) as client:
        assert ask(client, PROXY, X_Forwarded_Proto=scheme).json["wsgi.url_scheme"] == "http"


HOSTILE = [
    "evil.example",
    "localhost@evil.example",
    "localhost:80:80",
    "localhost/..",
    "localhost evil",
    "[::1",
    "a" * 300,
]


@pytest.mark.parametrize("host", HOSTILE)
def test_a_hostile_forwarded_host_is_refused(settings: Settings, runner, host: str) -> None:
    with client_of(settings, runner, trusted_proxies=PROXY) as client:
        answer = ask(client, PROXY, X_Forwarded_Host=host)

    assert (answer.status_code, answer.json["code"]) == (403, "host_refused")


def test_what_arrived_is_known_without_its_values(app: Flask) -> None:
    forwards = []
    app.before_request(lambda: forwards.append(request.environ[FORWARDED]))

    app.test_client().get("/seen", headers={"X-Forwarded-For": "192.0.2.1", "X-Real-Ip": "192.0.2.1"})

    assert forwards[0].headers == ("X-Forwarded-For", "X-Real-Ip")
    assert (forwards[0].peer, forwards[0].is_trusted) == ("127.0.0.1", False)


# --- the public URL ----------------------------------------------------------------------------------

PUBLIC = "https://calls.example"


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("calls.example", PUBLIC, 200),
        ("calls.example:443", PUBLIC, 200),
        ("CALLS.example", None, 200),
        ("127.0.0.1:8000", PUBLIC, 200),  # the proxy writes a Host header of its own
        ("127.0.0.1:8000", "http://127.0.0.1:8000", 200),
        ("calls.example", "http://calls.example", 403),
        ("calls.example", "https://calls.example:444", 403),
        ("calls.example", "https://calls.example.evil.example", 403),
        ("calls.example", "null", 403),
        ("127.0.0.1:8000", "https://127.0.0.1:8000", 403),
        ("calls.example.evil.example", None, 403),
        ("evil.example", "https://evil.example", 403),
    ],
)
def test_the_public_url_is_our_own_origin(
    settings: Settings, runner, host: str, origin: str | None, status: int
) -> None:
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    with client_of(settings, runner, public_url=PUBLIC, no_auth=True, allowed_hosts="other.example") as client:
        assert client.get("/v1/runs", headers=headers).status_code == status


def test_a_page_over_http_is_no_origin_of_a_server_over_https(settings: Settings, runner) -> None:
    with client_of(settings, runner) as client:
        codes = [
            client.get("/v1/runs", base_url="https://localhost", headers={"Origin": origin}).status_code
            for origin in ("https://localhost", "http://localhost")
        ]

    assert codes == [200, 403]


# --- over sockets ------------------------------------------------------------------------------------

RAW = (
    b"GET /seen HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSCRIPT_NAME: /seen\r\nPATH_INFO: /v1/runs\r\n"
    b"X_Forwarded_For: 192.0.2.1\r\nX_FORWARDED_PROTO: https\r\nREMOTE_ADDR: 192.0.2.1\r\n"
    + b"".join(f"{name}: {value}\r\n".encode() for name, value in FORGED.items())
    + b"\r\n"
)


def raw_answer(listener: socket.socket, app: Flask, address: Any) -> Any:
    server = InProcessServer(listener, app)
    server.start()
    with closing(socket.socket(listener.family)) as client:
        client.connect(address)
        client.sendall(RAW)
        data = b""
        while piece := client.recv(65536):
            data += piece
    server.stop()
    return orjson.loads(data.partition(b"\r\n\r\n")[2])


@pytest.mark.parity
def test_the_server_itself_believes_no_peer(app: Flask) -> None:
    app.add_url_rule("/seen", view_func=seen)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environ = raw_answer(listener, app, listener.getsockname())

    assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ["PATH_INFO"], environ["SCRIPT_NAME"]) == (
        "127.0.0.1",
        "http",
        "/seen",
        "",
    )
    assert not [name for name in environ if name.startswith(("HTTP_X", "HTTP_FORWARDED", "HTTP_REMOTE"))]


@pytest.mark.parity
@pytest.mark.parametrize("trusted", ["", "unix"])
def test_a_unix_socket_is_trusted_by_name(settings: Settings, runner, tmp_path: Path, trusted: str) -> None:
    with (
        client_of(settings, runner, trusted_proxies=trusted) as client,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(str(tmp_path / "web.sock"))
        listener.listen()
        environ = raw_answer(listener, client.application, str(tmp_path / "web.sock"))

    assert environ["REMOTE_ADDR"] == ("192.0.2.1" if trusted else "")
    assert environ["wsgi.url_scheme"] == ("https" if trusted else "http")
    assert (environ["PATH_INFO"], environ["SCRIPT_NAME"]) == ("/seen", "")


# --- the settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["*", "10.0.0.0/99", "proxy.example", "10.0.0.7;10.0.0.8", "10.0.0"])
def test_a_proxy_is_named_by_its_address(value: str) -> None:
    with pytest.raises(SettingInvalid, match="not an address or a network"):
        read_settings(trusted_proxies=value)


@pytest.mark.parametrize(
    "value", ["calls.example", "https://", "https://calls.example/x", "ftp://calls.example", "https://a:b@c.example"]
)
def test_a_public_url_is_an_origin(value: str) -> None:
    with pytest.raises(SettingInvalid, match="an origin without a path"):
        read_settings(public_url=value)


@pytest.mark.parametrize(
    ("value", "origin"),
    [
        ("HTTPS://Calls.Example", PUBLIC),
        ("https://calls.example:443", PUBLIC),
        ("http://[fd00::1]:80", "http://[fd00::1]"),
        ("https://calls.example:8443", "https://calls.example:8443"),
    ],
)
def test_a_public_url_is_written_as_browsers_do(value: str, origin: str) -> None:
    assert read_settings(public_url=value).public_url == origin


QUICK = "/v1/selftest/stream?events=3&interval_ms=50&idle_s=0"
SECRETS = {
    "Authorization": "Bearer a-secret-value",
    "Idempotency-Key": "an-order-value",
    "Last-Event-ID": "a-cursor-value",
    "Origin": "http://localhost",
    "X-Forwarded-For": "192.0.2.77",
    "X-Api-Key": "another-secret-value",
    "Cookie": "session=a-cookie-value",
}


def test_sends_hello_ticks_and_an_end_as_declared(app, client) -> None:
    answer = client.get(QUICK)

    validator = contract_of(app).validator("/v1/selftest/stream", "get", "200", "text/event-stream")
    events = data_of(answer.text)
    assert [line for line in answer.text.splitlines() if line.startswith("event: ")] == [
        *("event: hello", "event: tick", "event: tick", "event: tick", "event: end")
    ]
    assert [error.message for event in events for error in validator.iter_errors(event)] == []
    elapsed = [event["elapsed_ms"] for event in events]
    assert elapsed == sorted(elapsed)
    assert elapsed[3] >= 150
    assert answer.headers["X-Accel-Buffering"] == "no"


def test_names_the_headers_that_arrived_and_repeats_no_value(client) -> None:
    text = client.get(QUICK, headers={**SECRETS, "Host": "localhost"}).text
    hello: dict[str, Any] = data_of(text)[0]

    assert hello["headers"] == ["Authorization", "Idempotency-Key", "Last-Event-ID", "Origin"]
    assert (hello["forwarded"], hello["proxy_is_trusted"]) == (["X-Forwarded-For"], False)
    assert (hello["scheme"], hello["host"]) == ("http", "localhost")
    assert not [value for value in SECRETS.values() if value in text.replace("localhost", "") and value != ""]
    assert "-value" not in text
    assert "192.0.2.77" not in text


@pytest.mark.parametrize(
    "query", ["events=0", "events=21", "interval_ms=49", "interval_ms=5001", "idle_s=-1", "idle_s=121"]
)
def test_its_schedule_is_bounded(door, query: str) -> None:
    assert door.get(f"/v1/selftest/stream?{query}").status_code == 400


def test_no_comment_breaks_its_silence(client, runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "BEAT_S", 0.01)

    text = client.get("/v1/selftest/stream?events=1&interval_ms=50&idle_s=1").text

    assert BEAT.decode() not in text.splitlines(keepends=True)
    assert orjson.loads(text.rpartition("data: ")[2].splitlines()[0])["elapsed_ms"] >= 1050
