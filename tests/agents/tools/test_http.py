"""The tools that send HTTP requests."""

import asyncio

import orjson
import pytest

from agents.tools.execution.executor import call_tool
from agents.tools.http import MAX_TEXT, http_get, http_request, to_result
from agents.tools.schema import build_tool
from config.effects import Effect
from config.egress.errors import HostNotAllowed, RequestRefused, UrlRefused
from config.egress.exchange import HttpAnswer
from config.errors import ToolCutOff
from tests.config.egress.peer import Peer, says


def answer(body: bytes = b"", kind: str = "text/plain", *notes: str, **headers: str) -> HttpAnswer:
    named = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpAnswer(status=200, url="https://a.example/", headers=named, body=body, notes=notes)


def test_reading_is_pure_and_the_other_tool_is_not():
    assert build_tool(http_get).effect is Effect.PURE
    assert build_tool(http_get).parameters["properties"]["method"]["enum"] == ["GET", "HEAD"]
    assert build_tool(http_request).effect is Effect.UNSAFE


@pytest.mark.parametrize("tool", [http_get, http_request])
@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:8000/v1/runs", HostNotAllowed),
        ("http://169.254.169.254/", HostNotAllowed),
        ("file:///etc/passwd", UrlRefused),
    ],
)
def test_what_is_private_is_refused(call, tool, url, error):
    with pytest.raises(error) as caught:
        call(tool, url=url)

    assert error is UrlRefused or "CALLBOARD_HTTP_ALLOWED_HOSTS" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"headers": {"Host": "b.example"}},
        {"headers": {"idempotency-key": "mine"}},
        {"headers": {"X": "a\r\nY: b"}},
        {"body": "a", "json": {}},
        {"method": "GET", "body": "a"},
        {"body": "é" * (512 * 1024 + 1)},
        {"json": 2**70},
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(call, arguments):
    with pytest.raises(RequestRefused):
        call(http_request, url="https://a.example/", **arguments)


@pytest.mark.parametrize("kind", ["application/json", "application/problem+json; charset=utf-8"])
def test_json_becomes_data(kind):
    assert to_result(answer(b'{"a": [1]}', kind))["json"] == {"a": [1]}


@pytest.mark.parametrize("body", [b'{"a": NaN}', b"{", b"", b"[" * 100_000])
def test_json_that_is_none_is_told_and_shown(body):
    result = to_result(answer(body, "application/json"))

    assert result["text"] == body.decode()
    assert "not the JSON" in result["note"]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", "für".encode("latin-1"), "für"),
        ("text/html", "für".encode(), "für"),
        ("", b"plain", "plain"),
        ("text/plain; charset=zip", b"plain", "plain"),
        ("text/plain; charset=idna", b"xn--" + b"a" * 100, "xn--" + "a" * 100),
        ("text/plain; charset=", b"\xff", "\ufffd"),
    ],
)
def test_text_is_decoded(kind, body, text):
    assert to_result(answer(body, kind))["text"] == text


def test_what_is_not_text_is_not_shown():
    result = to_result(answer(b"\x89PNG\0\0", "image/png"))

    assert "text" not in result
    assert "6 bytes" in result["note"]


def test_a_long_text_is_truncated_with_a_note():
    result = to_result(answer(b"a" * (MAX_TEXT + 1)))

    assert len(result["text"]) == MAX_TEXT
    assert "200,001 characters" in result["note"]


def test_truncated_json_is_shown_as_text():
    assert to_result(answer(b'{"a": [1', "application/json", "the body has more"))["text"] == '{"a": [1'


def test_the_result_has_no_cookies():
    result = to_result(answer(b"", etag='"1"', set_cookie="a=b", server="x", x_internal="y"))

    assert result["headers"] == {"content-type": "text/plain", "etag": '"1"'}


@pytest.fixture
def ask(context, settings, monkeypatch):
    """Call a tool while a server of this machine, which is allowed, answers by a script."""
    allowed = settings.model_copy(update={"http_allowed_hosts": "127.0.0.1"})
    monkeypatch.setattr("agents.tools.http.settings", lambda: allowed)

    def ask(script, tool, path="/", **arguments):
        async def run():
            async with Peer(script) as peer:
                call = call_tool(build_tool(tool), {"url": peer.url("127.0.0.1", path), **arguments}, context, 10)
                try:
                    return await call, peer.asked
                except ToolCutOff as error:
                    return error, peer.asked

        return asyncio.run(run())

    return ask


@pytest.mark.parity
def test_a_page_is_read(ask):
    result, requests = ask(says(b"<p>hello", Content_Type="text/html"), http_get, "/a?b=c", headers={"Accept": "x"})

    assert (result["status"], result["text"]) == (200, "<p>hello")
    assert (requests[0].method, requests[0].path, requests[0].headers["accept"]) == ("GET", "/a?b=c", "x")
    assert "idempotency-key" not in requests[0].headers


@pytest.mark.parity
def test_head_reads_no_body(ask):
    result, requests = ask(says(b"", Content_Length="5"), http_get, method="HEAD")

    assert (result["status"], result["headers"], "note" in result) == (200, {"content-length": "5"}, False)
    assert requests[0].method == "HEAD"


@pytest.mark.parity
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_change_is_sent_with_the_key_of_the_call(ask, method):
    reply = says(b'{"id": 7}', status=201, Content_Type="application/json")

    result, requests = ask(reply, http_request, method=method, json={"a": "ü"}, headers={"Authorization": "Bearer t"})

    assert (result["status"], result["json"]) == (201, {"id": 7})
    assert (requests[0].method, orjson.loads(requests[0].body)) == (method, {"a": "ü"})
    assert requests[0].headers["content-type"] == "application/json"
    assert requests[0].headers["idempotency-key"] == "key_1"
    assert requests[0].headers["authorization"] == "Bearer t"


@pytest.mark.parity
@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_a_status_that_says_no_is_a_result(ask, status):
    result, _ = ask(says(b"no", status), http_request)

    assert (result["status"], result["text"]) == (status, "no")


@pytest.mark.parity
@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_without_an_answer_leaves_a_change_open(ask, status):
    result, _ = ask(says(b"no", status), http_request)
    read, _ = ask(says(b"no", status), http_get)

    assert isinstance(result, ToolCutOff)
    assert read["status"] == status


@pytest.mark.parity
def test_a_connection_that_breaks_leaves_a_change_open(ask):
    async def close(*_: object) -> None:
        """Say nothing."""

    result, _ = ask(close, http_request)

    assert isinstance(result, ToolCutOff)
