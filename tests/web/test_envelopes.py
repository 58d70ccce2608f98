"""Signed envelopes over HTTP: a call of a tool is made once for each, and by none that was changed on the way."""

from __future__ import annotations

import io
import json
import re
import secrets
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Response
from flask.testing import FlaskClient
from pydantic import SecretStr

from agents.testing import AgentKit
from agents.tools.calculator import calculator
from agents.tools.tool import tool
from bus.identity.envelope import HEADER, SqlNonces, sign
from config.database.errors import DatabaseUnreachable
from config.folders import ROOT
from config.identity.principal import Principal
from tests.credentials import key_of
from tests.web.conftest import process_of
from tests.web.contract import require_no_difference, watch
from web.app import create_app
from web.auth.envelopes import current_envelope

SECRET, OTHER = "5d2f0c8a" * 8, "0f1e2d3c" * 8
calls_made: list[int] = []


@tool(effect="unsafe")
def charge(cents: int) -> str:
    """Charge an amount.

    Args:
        cents: how much.
    """
    calls_made.append(cents)
    return f"charged {cents}"


@contextmanager
def served(**settings: Any) -> Iterator[tuple[AgentKit, FlaskClient]]:
    """Yield a web process, which executes what it accepts, and a client of it."""
    calls_made.clear()
    chosen = {"default_agent": "tester", "envelope_keys": SecretStr(f"main:{SECRET}"), "require_envelope": True}
    with AgentKit(tools=[charge, calculator], settings=chosen | settings) as kit:
        app = create_app(kit.settings, kit.runner)
        watch(app)
        yield kit, app.test_client()
        process_of(app).close()
        require_no_difference(app)


@pytest.fixture
def client() -> Iterator[FlaskClient]:
    """A client of a process that requires envelopes."""
    with served() as (_, web_client):
        yield web_client


def body_of(cents: int = 5, **more: Any) -> bytes:
    return json.dumps({"tool_name": "charge", "arguments": {"cents": cents}, **more}).encode()


def envelope(body: bytes, *, away_s: int = 0, **other: Any) -> str:
    call: dict[str, Any] = {"key_id": "main", "key": SECRET.encode(), "time_s": int(time.time()) + away_s}
    call |= {"audience": "default/default", "method": "POST /execute", "nonce": secrets.token_urlsafe(16)}
    return sign(body, **(call | other))


def post(client: FlaskClient, body: bytes, text: str | None, **headers: str) -> Any:
    sent = {"Content-Type": "application/json", **headers, **({} if text is None else {HEADER: text})}
    return client.post("/execute", data=body, headers=sent)


def is_refused(answer: Any) -> bool:
    return (answer.status_code, answer.json["code"]) == (401, "envelope_refused")


def test_a_signed_call_is_made(client: FlaskClient) -> None:
    answer = post(client, body_of(), envelope(body_of()))

    assert (answer.status_code, answer.json["output"], calls_made) == (200, "charged 5", [5])


def test_its_run_keeps_the_id_of_the_key_and_the_answer_does_not(client: FlaskClient) -> None:
    answer: Any = post(client, body_of(correlation_id="4711"), envelope(body_of(correlation_id="4711")))

    run: Any = client.get(answer.headers["Location"]).json
    assert run["metadata"] == {"correlation_id": "4711", "envelope_key": "main"}
    assert "envelope_key" not in answer.json


@pytest.mark.parametrize("text", [None, "", " ", "none", "v1", "alg:none"])
def test_a_call_without_a_valid_one_is_not_made_where_one_is_required(client: FlaskClient, text: str | None) -> None:
    answer = post(client, body_of(), text)

    assert is_refused(answer)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert calls_made == []


def test_a_call_is_made_once(client: FlaskClient) -> None:
    text = envelope(body_of())
    post(client, body_of(), text)

    again = [post(client, body_of(), text), post(client, body_of(), text, **{"Idempotency-Key": "one"})]

    assert all(is_refused(answer) for answer in again)
    assert "used before" in again[0].json["detail"]
    assert calls_made == [5]


@pytest.mark.parametrize(
    "other",
    [
        {"audience": "default/acme"},
        {"audience": "other/default"},
        {"method": "GET /execute"},
        {"method": "POST /v1/runs"},
        {"key": OTHER.encode()},
        {"key_id": "other"},
        {"away_s": -310},
        {"away_s": 400},
    ],
    ids=str,
)
def test_one_for_another_call_is_refused(client: FlaskClient, other: dict[str, Any]) -> None:
    assert is_refused(post(client, body_of(), envelope(body_of(), **other)))
    assert calls_made == []


@pytest.mark.parametrize(
    "sent",
    [body_of(6), body_of() + b" ", body_of().replace(b": 5", b": 5.0"), body_of().replace(b" ", b""), b"", b"{}"],
)
def test_the_body_is_the_one_that_was_signed_byte_by_byte(client: FlaskClient, sent: bytes) -> None:
    assert is_refused(post(client, sent, envelope(body_of())))
    assert calls_made == []


@pytest.mark.parametrize("how", ["two headers", "one header of two", "the same twice"])
def test_two_envelopes_are_refused_though_each_is_valid(client: FlaskClient, how: str) -> None:
    first, second = envelope(body_of()), envelope(body_of())
    texts = {
        "two headers": [first, second],
        "one header of two": [f"{first}, {second}"],
        "the same twice": [first, first],
    }
    headers = [("Content-Type", "application/json"), *((HEADER, text) for text in texts[how])]

    answer = client.post("/execute", data=body_of(), headers=headers)

    assert is_refused(answer)
    assert calls_made == []


def test_a_tag_of_other_letters_is_refused_and_no_defect(client: FlaskClient) -> None:
    text = envelope(body_of())

    answer = client.post(
        "/execute",
        data=body_of(),
        content_type="application/json",
        environ_overrides={"HTTP_CALLBOARD_ENVELOPE": text[:-10] + "\xe9\xff" + text[-8:]},
    )

    assert is_refused(answer)


def test_a_body_is_not_parsed_before_its_signature(client: FlaskClient) -> None:
    assert is_refused(post(client, b"{{{", envelope(body_of())))
    signed_nonsense = post(client, b"{{{", envelope(b"{{{"))
    assert (signed_nonsense.status_code, signed_nonsense.json["code"]) == (400, "bad_request")


def test_a_large_body_is_verified_and_read_once(client: FlaskClient) -> None:
    body = body_of(7, correlation_id="c") + b" " * 100_000

    answer = post(client, body, envelope(body))

    assert (answer.status_code, answer.json["correlation_id"], calls_made) == (200, "c", [7])


def test_without_the_setting_one_may_be_left_out_and_one_that_is_sent_counts() -> None:
    with served(require_envelope=False) as (_, client):
        plain = post(client, body_of(1), None)
        signed = post(client, body_of(2), envelope(body_of(2)))
        wrong = post(client, body_of(3), envelope(body_of(2)))
        empty = post(client, body_of(4), "")

    assert (plain.status_code, signed.status_code) == (200, 200)
    assert is_refused(wrong)
    assert is_refused(empty)
    assert calls_made == [1, 2]


def test_without_keys_no_envelope_is_valid() -> None:
    with served(require_envelope=False, envelope_keys=None) as (_, client):
        assert post(client, body_of(), None).status_code == 200
        assert is_refused(post(client, body_of(), envelope(body_of())))
        assert is_refused(post(client, body_of(), envelope(body_of(), key=b"", key_id="default")))


def test_a_key_is_replaced_without_a_pause() -> None:
    both = SecretStr(f"next:{OTHER},main:{SECRET}")
    with served(envelope_keys=both) as (_, client):
        former = post(client, body_of(1), envelope(body_of(1)))
        new = post(client, body_of(2), envelope(body_of(2), key_id="next", key=OTHER.encode()))
    assert (former.status_code, new.status_code) == (200, 200)

    with served(envelope_keys=SecretStr(f"next:{OTHER}")) as (_, client):
        assert is_refused(post(client, body_of(), envelope(body_of())))
        assert is_refused(post(client, body_of(), envelope(body_of(), key_id="next")))
        assert calls_made == []


def test_the_tenant_of_the_caller_is_part_of_the_audience() -> None:
    with served(auth="required", envelope_audience="https://callboard.example.org") as (kit, client):
        acme, zeta = (
            {"Authorization": f"Bearer {key_of(kit.settings, Principal(tenant=tenant, id='ci'))}"}
            for tenant in ("acme", "zeta")
        )
        text = envelope(body_of(), audience="https://callboard.example.org/acme")

        stranger = post(client, body_of(), text)
        another = post(client, body_of(), text, **zeta)
        own = post(client, body_of(), text, **acme)

    assert (stranger.status_code, stranger.json["code"]) == (401, "unauthenticated")
    assert is_refused(another)
    assert own.status_code != 401


def test_the_call_is_not_made_where_the_database_does_not_answer(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: SqlNonces, envelope: object) -> None:
        raise DatabaseUnreachable("away")

    text = envelope(body_of())
    with monkeypatch.context() as patch:
        patch.setattr(SqlNonces, "use_up", away)
        answer = post(client, body_of(), text)

    assert (answer.status_code, answer.json["code"], answer.json["retryable"]) == (503, "database_unreachable", True)
    assert calls_made == []
    assert post(client, body_of(), text).status_code == 200


def test_what_the_envelope_carries_is_there_for_the_call(client: FlaskClient) -> None:
    seen = []

    def look(answer: Response) -> Response:
        seen.append(current_envelope())
        return answer

    client.application.after_request_funcs.setdefault(None, []).append(look)
    post(client, body_of(), envelope(body_of(), context=b'{"trace_id":"4bf92"}'))
    post(client, body_of(), envelope(b"{}", context=b'{"trace_id":"4bf92"}'))

    verified, refused = seen
    assert verified is not None
    assert (verified.key_id, verified.context) == ("main", b'{"trace_id":"4bf92"}')
    assert refused is None


TRACE_ID, SENT = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{SENT}-00f067aa0ba902b7-01"}


def test_a_verified_context_names_the_trace_of_the_call_and_of_its_run(client: Any) -> None:
    signed = envelope(body_of(), context=json.dumps({"trace_id": TRACE_ID}).encode())

    answer = post(client, body_of(), signed, **PARENT)

    assert (answer.status_code, answer.headers["X-Trace-Id"]) == (200, TRACE_ID)
    assert [run["trace_id"] for run in client.get("/v1/runs").json["runs"]] == [TRACE_ID]


@pytest.mark.parametrize(
    "context", [b"", b"{", b"[]", b'"a"', b"\xff", b'{"trace_id":7}', b'{"trace_id":"4bf92"}', b"[" * 500]
)
def test_a_context_without_a_trace_id_leaves_that_of_the_header(client: FlaskClient, context: bytes) -> None:
    answer = post(client, body_of(), envelope(body_of(), context=context), **PARENT)

    assert (answer.status_code, answer.headers["X-Trace-Id"]) == (200, SENT)


def test_a_context_that_is_not_verified_names_no_trace(client: FlaskClient) -> None:
    signed = envelope(body_of(6), context=json.dumps({"trace_id": TRACE_ID}).encode())

    answer = post(client, body_of(), signed, **PARENT)

    assert is_refused(answer)
    assert answer.headers["X-Trace-Id"] == answer.json["trace_id"] == SENT


def test_the_example_of_the_page_signs_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "authentication.md").read_text(), re.DOTALL | re.M
    )
    monkeypatch.setenv("ENVELOPE_SECRET", SECRET)
    answers = []
    with served() as (_, client):

        def urlopen(request: urllib.request.Request) -> io.BytesIO:
            url = urlsplit(request.full_url)
            answer = client.open(
                url.path, method=request.get_method(), data=request.data, headers=dict(request.headers)
            )
            answers.append(answer)
            return io.BytesIO(answer.data)

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        exec(example, {})

    assert [(answer.status_code, answer.get_json()["output"]) for answer in answers] == [(200, "391")]
