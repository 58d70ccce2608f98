"""The examples of docs/deployment/proxies.md before a real web process; and the doctor before proxies that do harm."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from config.database.migrate import migrate
from config.folders import ROOT
from config.identity.principal import Principal
from config.settings import Settings
from tests.certificates import Authority, Pair
from tests.credentials import key_of
from tests.fleet import bare_environment
from tests.journeys import proxy
from tests.journeys.web_server import Web
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

AGENT = "name: Assistant\nmodel: demo/assistant\nsystem_prompt: You answer.\n"
IDLE_S = 16
"""Longer than the 15 s between two comments of a stream."""


@dataclass
class Site:
    """A web process that its users reach at an address of a proxy."""

    port: int
    web_port: int
    folder: Path
    authority: Authority
    pair: Pair
    key: str

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.port}"

    def connect(self) -> http.client.HTTPSConnection:
        trusting = ssl.create_default_context(cafile=str(self.authority.certificate))
        return http.client.HTTPSConnection("localhost", self.port, context=trusting, timeout=30)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **named}
        with closing(self.connect()) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            data = answer.read()
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, json.loads(data) if is_json else data

    def doctor(self, *options: str, url: str | None = None) -> dict[str, tuple[str, str]]:
        """Return the doctor's findings at this address, by what they are about."""
        (self.folder / "key.txt").write_text(self.key)
        command = [sys.executable, "-P", "-m", "cli", "doctor", "--url", url or self.origin, "--json"]
        command += ["--key-file", str(self.folder / "key.txt"), *options]
        environment = bare_environment(SSL_CERT_FILE=str(self.authority.certificate))
        done = subprocess.run(
            command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode in (0, 1), done.stderr
        return {load["about"]: (load["verdict"], load["text"]) for load in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis_server) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("proxies")
    for name in ("agents", "state"):
        (folder / name).mkdir()
    (folder / "agents" / "assistant.yaml").write_text(AGENT)
    port, web_port = free_port(), free_port()
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=folder / "state",
        agents_dir=str(folder / "agents"),
        port=web_port,
        redis_url=redis_server.url,
        deployment="proxies",
        auth="required",
        public_url=f"https://localhost:{port}",
        trusted_proxies="127.0.0.1",
    )
    migrate(settings)
    authority = Authority(folder)
    with Web(settings):
        yield Site(port, web_port, folder, authority, authority.issue("server"), key_of(settings, Principal(id="ci")))


@pytest.fixture(params=[("nginx",), ("caddyfile",), ("yaml", "http:")], ids=["nginx", "caddy", "traefik"])
def proxied(request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> Iterator[Site]:
    """The web process behind the page's example."""
    config = proxy.adapted(proxy.example(*request.param), site.pair, site.port, site.web_port)
    with ExitStack() as stack:
        if request.param[0] == "nginx":
            stack.enter_context(proxy.nginx(config, tmp_path, site.port))
        elif request.param[0] == "caddyfile":
            stack.enter_context(proxy.caddy(config, tmp_path, site.port))
        else:
            program = shutil.which("traefik")
            if program is None:
                pytest.skip("traefik is not on the PATH, and no package of Debian's")
            stack.enter_context(proxy.traefik(config, tmp_path, site.port, program))
        yield site


def test_an_example_of_the_page_passes_everything_on(proxied: Site) -> None:
    assert proxied.ask("GET", "/")[0] == 200
    assert b"import" in proxied.ask("GET", "/static/app.js")[1]
    status, accepted = proxied.ask(
        "POST", "/v1/runs", {"agent": "assistant", "input": "Hello"}, Origin=proxied.origin, Idempotency_Key="one"
    )
    assert status == 202
    again = proxied.ask("POST", "/v1/runs", {"agent": "assistant", "input": "Hello"}, Idempotency_Key="one")[1]
    assert again["run_id"] == accepted["run_id"]

    with closing(proxied.connect()) as connection:
        connection.request("GET", accepted["events_url"], headers={"Authorization": f"Bearer {proxied.key}"})
        stream = connection.getresponse()
        assert event_of(stream) == "status"
        assert proxied.ask("POST", f"/v1/runs/{accepted['run_id']}/cancel", {})[1]["status"] == "cancelled"
        rest = stream.read()
    assert rest.count(b"event: end\n") == 1

    for origin in ("https://evil.example", f"http://localhost:{proxied.port}", "null"):
        assert proxied.ask("POST", "/v1/runs", {"agent": "assistant", "input": "x"}, Origin=origin)[0] == 403
    status, refused = proxied.ask("POST", "/v1/runs", {"agent": "assistant", "input": "x" * 1_900_000})
    assert (status, refused["code"]) == (413, "input_too_large"), "the proxy takes what Callboard judges"


def event_of(stream: http.client.HTTPResponse) -> str:
    """Return the type of the next event."""
    while not (line := stream.readline()).startswith(b"event: "):
        assert line, "the stream has ended"
    return line.split()[1].decode()


@pytest.mark.slow
def test_the_doctor_has_nothing_to_say_about_an_example(proxied: Site) -> None:
    findings = proxied.doctor("--idle-s", str(IDLE_S))

    assert {about: verdict for about, (verdict, _) in findings.items()} == dict.fromkeys(
        ("stream", "idle", "encoding", "headers", "client"), "ok"
    ), findings


def test_a_client_behind_an_example_forges_nothing(proxied: Site) -> None:
    forged = {
        "X_Forwarded_Proto": "http",
        "X_Forwarded_Host": "evil.example",
        "X_Forwarded_For": "192.0.2.1",
        "X_Forwarded_Prefix": "/evil",
        "Forwarded": "host=evil.example;proto=http",
    }

    status, text = proxied.ask("GET", "/v1/selftest/stream?events=1&interval_ms=50&idle_s=0", **forged)

    hello = json.loads(text.partition(b"data: ")[2].partition(b"\n")[0])
    assert (status, hello["scheme"], hello["host"]) == (200, "https", f"localhost:{proxied.port}")


# --- proxies that do harm --------------------------------------------------------------------------------

BUFFERS = "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"
HARM: dict[str, tuple[str, str, str, str]] = {
    "buffers": (BUFFERS, "stream", "fail", "a proxy buffers streams"),
    "cuts": ("proxy_read_timeout 3s;", "idle", "fail", "a proxy cut the stream after 3 s"),
    "compresses": (
        "gzip on; gzip_types text/event-stream; gzip_min_length 0; gzip_proxied any;",
        *("encoding", "warn", "a proxy compresses streams (gzip)"),
    ),
    "drops Last-Event-ID": (
        'proxy_set_header Last-Event-ID "";',
        *("headers", "fail", "drops Last-Event-ID: a resumed stream begins at its first event"),
    ),
    "drops Idempotency-Key": (
        'proxy_set_header Idempotency-Key "";',
        *("headers", "fail", "drops Idempotency-Key: a repeated start is a second run"),
    ),
    "drops Authorization": (
        'proxy_set_header Authorization "";',
        *("address", "fail", "drops the header Authorization"),
    ),
    "another host": ("proxy_set_header Host evil.example;", "address", "fail", "[host_refused]"),
    "redirects": ("return 302 https://login.example/;", "address", "fail", "a redirect to https://login.example/"),
    "answers itself": ('default_type text/html; return 200 "<p>";', "address", "fail", "200 with text/html"),
    "reaches nothing": ("proxy_connect_timeout 1s;", "address", "fail", "It does not reach the web process."),
    "tells no scheme": (
        "proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto http;",
        *("client", "warn", "Send X-Forwarded-Proto"),
    ),
}
SERVER = """\
server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    location / {{
        {line}
        proxy_pass http://127.0.0.1:{web_port};
        proxy_http_version 1.1;
        {more}
    }}
}}
"""
FORWARDED = "proxy_set_header X-Forwarded-Proto https;"


@pytest.mark.parametrize("harm", HARM)
def test_the_doctor_finds_what_a_proxy_does(site: Site, tmp_path: Path, harm: str) -> None:
    line, about, verdict, words = HARM[harm]
    more = "" if "X-Forwarded-Proto" in line else FORWARDED
    more += "" if " Host " in line else "proxy_set_header Host $http_host;"
    files = {"certificate": site.pair.certificate, "key": site.pair.key}
    web_port = free_port() if harm == "reaches nothing" else site.web_port
    server = SERVER.format(port=site.port, web_port=web_port, line=line, more=more, **files)
    with proxy.nginx(server, tmp_path, site.port):
        findings = site.doctor("--idle-s", "5" if harm == "cuts" else "1")

    finding = findings[about]
    assert (finding[0], words in finding[1]) == (verdict, True), findings
    others = {name for name, (judged, _) in findings.items() if judged == "fail"} - {about}
    assert not others, findings


def test_the_doctor_finds_a_cache(site: Site, tmp_path: Path) -> None:
    line = f"{BUFFERS} proxy_ignore_headers Cache-Control; proxy_cache one; proxy_cache_valid 200 1m;"
    line += " proxy_cache_key $uri;"
    files = {"certificate": site.pair.certificate, "key": site.pair.key}
    more = f"{FORWARDED} proxy_set_header Host $http_host;"
    server = SERVER.format(port=site.port, web_port=site.web_port, line=line, more=more, **files)
    zone = f"proxy_cache_path {tmp_path}/cache keys_zone=one:1m;\n"
    with proxy.nginx(zone + server, tmp_path, site.port):
        first, second = site.doctor("--idle-s", "1"), site.doctor("--idle-s", "1")

    assert "a proxy buffers streams" in first["stream"][1]
    assert "a cache answers with an earlier stream" in second["stream"][1]


def test_the_doctor_reports_a_certificate_that_clients_refuse(site: Site, tmp_path: Path) -> None:
    late = site.authority.issue("late", days=-1)
    config = proxy.adapted(proxy.example("nginx"), late, site.port, site.web_port)
    with proxy.nginx(config, tmp_path, site.port):
        findings = site.doctor()

    assert "clients do not accept its certificate: certificate has expired" in findings["address"][1]
