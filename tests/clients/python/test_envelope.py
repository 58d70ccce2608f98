"""Signed envelopes of the client: the server's own verifier accepts them, and each attempt has one of its own."""

from __future__ import annotations

import time

import pytest

from bus.identity.envelope import CallEnvelope, verify
from bus.identity.errors import EnvelopeRefused
from callboard_client import Callboard, EnvelopeKey, Timeouts
from tests.clients.python.blocking import KINDS, client_of
from tests.clients.python.scripted_server import LOST, Answer, ScriptedServer

SECRET = "5d2f0c8a" * 8
KEY = EnvelopeKey(id="main", secret=SECRET, audience="shop/acme")
DONE = Answer(body={"status": "succeeded", "output": "391", "execution_time_ms": 3.0, "run_id": "run_1"})


def verified(text: str, body: bytes, method: str = "POST /execute") -> CallEnvelope:
    call = {"audience": "shop/acme", "method": method, "body": body}
    return verify(text, keys={"main": SECRET.encode()}, now_s=time.time(), **call)  # type: ignore[arg-type]  # of two types


def test_what_the_client_signs_the_server_accepts() -> None:
    body = '{"zone": "Zürich"}'.encode()
    [(name, text)] = KEY.headers("POST /execute", body).items()

    assert name == "Callboard-Envelope"
    assert verified(text, body).key_id == "main"
    with pytest.raises(EnvelopeRefused):
        verified(text, body + b" ")
    assert KEY.headers("POST /execute", body)[name] != text


@pytest.mark.parametrize(
    "wrong",
    [{"id": ""}, {"id": "a b"}, {"secret": "short"}, {"secret": "ü" * 40}, {"audience": ""}, {"audience": "a\nb"}],
)
def test_a_key_that_no_server_has_is_refused_without_its_secret(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has ") as refused:
        EnvelopeKey(**({"id": "main", "secret": SECRET} | wrong))

    assert wrong.get("secret", "none") not in str(refused.value)
    assert SECRET not in repr(KEY)


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_each_attempt_of_a_call_is_signed_anew_and_stays_the_same_call(kind: str) -> None:
    with (
        ScriptedServer(LOST, Answer(status=502), DONE) as server,
        client_of(kind, server.address, timeouts=Timeouts(retry_s=5), envelope_key=KEY) as callboard,
    ):
        done = callboard.execute("calculator", {"expression": "17 * 23"}, agent="sums", correlation_id="c")

    texts = [request.headers["callboard-envelope"] for request in server.requests]
    assert (done.status, done.output, done.run_id) == ("succeeded", "391", "run_1")
    assert len({verified(text, server.data[at]).nonce for at, text in enumerate(texts)}) == 3
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert server.requests[0].body == {
        "tool_name": "calculator",
        "arguments": {"expression": "17 * 23"},
        "timeout": 20,
        "correlation_id": "c",
        "config": {"agent_id": "sums"},
    }


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_other_calls_and_clients_without_a_key_send_none(kind: str) -> None:
    accepted = Answer(status=202, body={"run_id": "run_1", "thread_id": "sums", "status": "queued"})
    with ScriptedServer(accepted) as server, client_of(kind, server.address, envelope_key=KEY) as callboard:
        callboard.run("assistant", "Hello")
    with ScriptedServer(DONE) as other, client_of(kind, other.address) as without:
        without.execute("clock")

    requests = [*server.requests, *other.requests]
    assert [request.path for request in requests] == ["/v1/runs", "/execute"]
    assert not any("callboard-envelope" in request.headers for request in requests)


def test_the_key_is_in_no_text_of_a_client() -> None:
    with Callboard("http://127.0.0.1:9", envelope_key=KEY) as callboard:
        assert SECRET not in f"{callboard!r} {vars(callboard)!r}"
