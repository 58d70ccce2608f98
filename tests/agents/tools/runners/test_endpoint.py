"""What an HTTP endpoint may be, and what becomes of its answers."""

import asyncio
import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agents.tools.call_context import enter_call
from agents.tools.isolation.errors import CapabilityFailed
from agents.tools.runners.endpoint import EndpointRunner
from config.definitions.errors import SECRET_MISSING
from config.egress.errors import HostNotAllowed, HostUnreachable, RequestRefused
from config.egress.exchange import HttpAnswer
from config.egress.fetch import Fetcher
from config.egress.target import parse_target
from config.errors import ToolCutOff
from config.tracing import trace_id_of, traced
from tests.agents.tools.runners.conftest import CONTEXTS
from tests.raising import raises


@pytest.fixture
def call(context):
    """Call an endpoint."""

    def call(url, call_hosts=None, arguments=None, **fields):
        async def called():
            enter_call(dataclasses.replace(context, hosts=call_hosts, timeout_s=5))
            return await EndpointRunner(url=url, **fields).call(**(arguments or {}))

        return asyncio.run(called())

    return call


@pytest.fixture
def serve():
    """Answer every request with this status, these headers and this body."""
    servers = []

    def serve(status, body=b"", **headers):
        requests = []

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                requests.append(dict(self.headers))
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                return

        server = HTTPServer(("127.0.0.1", 0), Answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/", requests

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "hosts", "call_hosts"),
    [
        ("http://169.254.169.254/latest/meta-data", (), None),
        ("http://[fe80::1]/", (), None),
        ("http://127.0.0.1:1/", ("example.org",), None),
        ("http://127.0.0.1:1/", ("*",), None),
        ("http://127.0.0.1:1/", (), ()),
        ("http://127.0.0.1:1/", (), ("example.org",)),
    ],
)
def test_an_address_that_the_file_or_the_agent_does_not_allow_is_not_asked(call, url, hosts, call_hosts):
    with pytest.raises(HostNotAllowed):
        call(url, call_hosts, hosts=hosts)


@pytest.mark.parametrize(
    "other", ["http://10.0.0.7/", "http://10.0.0.7:8081/", "http://10.0.0.8:8080/", "https://example.org/"]
)
def test_a_file_without_hosts_allows_that_of_its_url_alone(call, monkeypatch, other):
    policies = []

    async def fetch(self, request):
        policies.append(self.policy)
        return HttpAnswer(status=204, url=other, headers={})

    monkeypatch.setattr(Fetcher, "fetch", fetch)
    call("http://10.0.0.7:8080/count")

    policies[0].require_target(parse_target("http://10.0.0.7:8080/other"))
    with pytest.raises(HostNotAllowed):
        policies[0].require_target(parse_target(other))


def test_a_secret_that_is_not_there_sends_nothing(call):
    with raises(SECRET_MISSING):
        call("http://127.0.0.1:1/", headers={"A": "${T}"}, secrets={"T": "env:NOT_SET_ANYWHERE"})


def test_too_large_an_input_is_not_sent(call):
    with pytest.raises(RequestRefused, match="limit"):
        call("http://127.0.0.1:1/", arguments={"text": "x" * 1_100_000})


def test_a_secret_cannot_add_a_header(call, monkeypatch):
    monkeypatch.setenv("EVIL_TOKEN", "abcdefgh\r\nX-Admin: 1")

    with pytest.raises(RequestRefused) as caught:
        call("http://127.0.0.1:1/", headers={"A": "${T}"}, secrets={"T": "env:EVIL_TOKEN"})

    assert "abcdefgh" not in str(caught.value)


@pytest.mark.parity
def test_a_server_gets_the_contexts_only_where_the_file_says_so(call, serve):
    url, requests = serve(204)

    call(url)
    call(url, sends_context=True)

    assert [request.get("Callboard-Context") for request in requests] == [None, requests[1]["Callboard-Context"]]
    assert json.loads(requests[1]["Callboard-Context"]) == CONTEXTS


@pytest.mark.parity
def test_no_content_is_no_result_and_no_error(call, serve):
    assert call(serve(204)[0]) is None


@pytest.mark.parity
@pytest.mark.parametrize(("status", "error"), [(500, CapabilityFailed), (404, CapabilityFailed), (502, ToolCutOff)])
def test_a_status_that_says_no_is_an_error(call, serve, status, error):
    with pytest.raises(error, match=str(status)):
        call(serve(status, b"the reason")[0])


@pytest.mark.parity
def test_a_redirect_takes_nothing_to_another_server(call, serve, monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "tok-en-1234567")
    elsewhere, asked_elsewhere = serve(200, b"{}")
    url, requests = serve(307, Location=elsewhere)

    with pytest.raises(CapabilityFailed, match="307"):
        call(url, headers={"Authorization": "Bearer ${T}"}, secrets={"T": "env:SHOP_TOKEN"})

    assert requests[0]["Authorization"] == "Bearer tok-en-1234567"
    assert requests[0]["Idempotency-Key"]
    assert asked_elsewhere == []


@pytest.mark.parity
def test_a_server_that_is_not_there_was_not_asked(call):
    with pytest.raises(HostUnreachable):
        call("http://127.0.0.1:1/")


@pytest.mark.parity
def test_the_server_gets_the_trace(call, serve):
    url, requests = serve(200, b"{}")
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    with traced(trace_id, "order 4711"):
        call(url)
    with traced(trace_id):
        call(url, headers={"Traceparent": "own"})

    first, second = ({name.lower(): value for name, value in headers.items()} for headers in requests)
    assert (trace_id_of(first["traceparent"]), first["x-correlation-id"]) == (trace_id, "order 4711")
    assert second["traceparent"] == "own"
