"""Errors of the client: facts that programs use, sentences for people, and the key in none of them."""

from __future__ import annotations

import pickle
import ssl
import traceback

import httpx
import pytest

from callboard_client import AsyncCallboard, Callboard, RequestRefused, Timeouts, UnexpectedAnswer, Unreachable
from callboard_client.answers import result_of, unanswered
from callboard_client.calls import get_run
from callboard_client.errors import CallboardError
from tests.clients.python.blocking import KINDS, client_of

KEY = "cbk_local_SECRET0123456789"
ADDRESS = "http://callboard.example"
IMPATIENT = Timeouts(retry_s=0.3, resume_s=0.3)
UNKNOWN = {
    "type": "urn:callboard:problem:agent_unknown",
    "title": "Agent unknown",
    "status": 404,
    "code": "agent_unknown",
    "detail": "no agent or workflow is called 'asistant'; GET /v1/agents and GET /v1/workflows list what there is.",
    "retryable": False,
    "agent_id": "asistant",
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
}


def refusal(status: int, **options: object) -> CallboardError:
    """Return the error of an answer."""
    request = httpx.Request("GET", f"{ADDRESS}/v1/runs/run_1", headers={"Authorization": f"Bearer {KEY}"})
    response = httpx.Response(status, request=request, **options)  # type: ignore[arg-type]  # passed on
    with pytest.raises(CallboardError) as raised:
        result_of(get_run("run_1"), response, ADDRESS)
    return raised.value


def test_a_problem_becomes_an_error_with_its_facts() -> None:
    error = refusal(404, json=UNKNOWN)

    assert isinstance(error, RequestRefused)
    assert (error.status, error.code, error.facts) == (404, "agent_unknown", {"agent_id": "asistant"})
    assert error.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert str(error) == f"{UNKNOWN['detail']} (agent_unknown, HTTP 404)"
    assert not error.retryable


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_proxy_whose_server_has_no_room_may_be_asked_again(status: int) -> None:
    error = refusal(status, headers={"Retry-After": "7"}, text="<h1>Bad gateway</h1>")

    assert isinstance(error, RequestRefused)
    assert (error.retryable, error.retry_after_s, error.code) == (True, 7.0, f"http_{status}")


@pytest.mark.parametrize(
    ("status", "retryable", "may_have_arrived"),
    [
        (408, True, False),
        (429, True, False),
        (507, True, False),
        (503, True, True),
        (502, False, True),
        (500, False, False),
    ],
)
def test_a_problem_says_itself_whether_it_may_be_asked_again(
    status: int, retryable: bool, may_have_arrived: bool
) -> None:
    error = refusal(status, json=UNKNOWN | {"status": status, "retryable": retryable})

    assert (error.retryable, error.may_have_arrived) == (retryable, may_have_arrived)


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", ""])
def test_a_retry_after_that_is_no_number_is_left_out(value: str) -> None:
    assert refusal(503, headers={"Retry-After": value}).retry_after_s is None


@pytest.mark.parametrize(
    "answer",
    [{"text": "<html>"}, {"json": []}, {"json": {}}, {"json": {"run_id": "run_1"}}, {"content": b"\xff"}],
    ids=["a page", "a list", "nothing", "half a run", "no text"],
)
def test_an_answer_that_is_not_callboards_says_so(answer: dict[str, object]) -> None:
    error = refusal(200, **answer)

    assert isinstance(error, UnexpectedAnswer)
    assert str(error) == (
        f"{ADDRESS} does not answer as Callboard does: the answer to GET /v1/runs/run_1 cannot be read. Check base_url."
    )


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "SSL_CERT_FILE"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "begins with http://"),
    ],
    ids=["certificate", "no TLS"],
)
def test_an_error_of_tls_is_not_tried_again_and_says_what_to_change(cause: ssl.SSLError, words: str) -> None:
    cause.reason, cause.verify_message = "WRONG_VERSION_NUMBER", "self-signed certificate"  # type: ignore[attr-defined]
    error = httpx.ConnectError(str(cause))
    error.__cause__ = OSError()
    error.__cause__.__context__ = cause

    failure = unanswered(error, ADDRESS)

    assert isinstance(failure, UnexpectedAnswer)
    assert not failure.retryable
    assert words in str(failure)


def test_a_refusal_of_another_server_is_named_as_that() -> None:
    assert "of a proxy or another server" in str(refusal(400, text="<h1>The plain HTTP request was sent to HTTPS</h1>"))


def test_a_redirect_is_not_followed_and_named_without_its_query() -> None:
    error = refusal(307, headers={"Location": "https://u:p@elsewhere.example/v1/runs?token=abc"})

    assert "redirects to https://elsewhere.example/v1/runs, which" in str(error)
    assert "abc" not in str(error)


@pytest.mark.parametrize(
    "error",
    [
        RequestRefused(404, UNKNOWN),
        RequestRefused(503, {}, 2.0),
        Unreachable(ADDRESS, "Connection refused", True),
        UnexpectedAnswer(ADDRESS, "a page"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickling(error: CallboardError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_an_address_where_nothing_listens_is_named_with_the_remedy(kind: str, closed_port: int) -> None:
    with (
        client_of(kind, f"http://127.0.0.1:{closed_port}", KEY, timeouts=IMPATIENT) as callboard,
        pytest.raises(Unreachable) as raised,
    ):
        callboard.run("assistant", "Hello")

    assert str(raised.value).startswith(f"Callboard at http://127.0.0.1:{closed_port} does not answer: ")
    assert str(raised.value).endswith("Start it there (./callboard up), or correct base_url.")
    assert not raised.value.may_have_arrived
    assert KEY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("kind", [Callboard, AsyncCallboard])
def test_the_key_is_in_no_repr(kind: type[Callboard]) -> None:
    callboard = kind(ADDRESS + "/", KEY)

    assert repr(callboard) == f"{kind.__name__}('{ADDRESS}')"
    assert KEY not in repr([callboard.runs, vars(callboard)])


@pytest.mark.parametrize("key", ["", "cbk_\n", "cbk_ü", "cbk_\r\nHost: elsewhere", " cbk_1", "cbk_1 "], ids=repr)
def test_a_key_that_is_no_header_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(ValueError, match="the API key has to be") as raised:
        Callboard(ADDRESS, key)

    assert not key or key.strip() not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["", "callboard.example", "ftp://callboard.example", "http://", "http://[::1", "file:///etc/passwd"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Callboard(url)


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/callboard"])
def test_an_address_with_a_path_is_refused_with_the_one_without(path: str) -> None:
    with pytest.raises(ValueError, match=r"write http://127\.0\.0\.1:1 without a path"):
        Callboard(f"http://127.0.0.1:1{path}")


@pytest.mark.parametrize("url", [f"http://ann:{KEY}@host", f"http://host?key={KEY}", f"http://host#{KEY}"])
def test_an_address_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="use api_key") as raised:
        Callboard(url)

    assert KEY not in str(raised.value)
