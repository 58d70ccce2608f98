"""What a body may be: one JSON object that means one thing."""

from __future__ import annotations

import pytest

from tests.web.conftest import accept

GOOD = b'{"agent": "assistant", "input": "Hi"}'
AMBIGUOUS = {
    "empty": b"",
    "array": b"[1]",
    "text": b'"x"',
    "null": b"null",
    "truncated": b'{"agent": "assis',
    "trailing": GOOD + b"{}",
    "same key twice": b'{"agent": "assistant", "input": "a", "input": "b"}',
    "same key twice below": b'{"agent": "assistant", "input": "a", "metadata": {"x": [{"y": 1, "y": 2}]}}',
    "NaN": b'{"agent": "assistant", "input": "a", "metadata": {"x": NaN}}',
    "infinite": b'{"agent": "assistant", "input": "a", "metadata": {"x": -Infinity}}',
    "too large a number": b'{"agent": "assistant", "input": "a", "metadata": {"x": 1e400}}',
    "a number of 5000 digits": b'{"agent": "assistant", "input": "a", "metadata": {"x": ' + b"9" * 5000 + b"}}",
    "half a character": b'{"agent": "assistant", "input": "\\ud800"}',
    "half a character in a key": b'{"agent": "assistant", "input": "a", "\\udfff": 1}',
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "Latin-1": b'{"agent": "assistant", "input": "\xe4"}',
    "65 levels": b'{"agent": "assistant", "input": "a", "metadata": ' + b'{"x":' * 64 + b"1" + b"}" * 64 + b"}",
    "100 000 levels": b"[" * 100_000,
    "unknown field": b'{"agent": "assistant", "input": "a", "owner": "me"}',
    "tenant": b'{"agent": "assistant", "input": "a", "tenant": "other"}',
    "agent is a number": b'{"agent": 5, "input": "a"}',
    "agent is missing": b'{"input": "a"}',
    "input is missing": b'{"agent": "assistant"}',
    "input is null": b'{"agent": "assistant", "input": null}',
    "input is a list": b'{"agent": "assistant", "input": ["a"]}',
    "detached is text": b'{"agent": "assistant", "input": "a", "detached": "yes"}',
    "wait_s is negative": b'{"agent": "assistant", "input": "a", "wait_s": -1}',
    "wait_s is a flag": b'{"agent": "assistant", "input": "a", "wait_s": true}',
    "wait_s is too long": b'{"agent": "assistant", "input": "a", "wait_s": 301}',
    "metadata is a list": b'{"agent": "assistant", "input": "a", "metadata": []}',
    "metadata is huge": b'{"agent": "assistant", "input": "a", "metadata": {"x": "' + b"a" * 20_000 + b'"}}',
    "thread id with a line end": b'{"agent": "assistant", "input": "a", "thread_id": "a\\nb"}',
    "thread id with NUL": b'{"agent": "assistant", "input": "a", "thread_id": "a\\u0000"}',
    "thread id with a slash": b'{"agent": "assistant", "input": "a", "thread_id": "a/b"}',
    "thread id of nothing": b'{"agent": "assistant", "input": "a", "thread_id": ""}',
    "thread id too long": b'{"agent": "assistant", "input": "a", "thread_id": "' + b"a" * 129 + b'"}',
}


@pytest.mark.parametrize("body", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_refuses_what_is_not_plain(door, body: bytes) -> None:
    answer = door.post("/v1/runs", data=body, content_type="application/json")

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
    assert answer.json["detail"].rstrip().endswith((".", "?"))
    assert "Traceback" not in answer.text
    assert door.get("/v1/runs").json == {"runs": []}


def test_an_unknown_field_is_told_the_nearest(client) -> None:
    answer = client.post("/v1/runs", json={"agent": "assistant", "input": "a", "tread_id": "x"})

    assert "Did you mean 'thread_id'?" in answer.json["detail"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx"]
)
def test_refuses_what_is_not_said_to_be_json(door, kind: str) -> None:
    answer = door.post("/v1/runs", data=GOOD, content_type=kind)

    assert (answer.status_code, answer.json["code"]) == (415, "media_type_refused")


def test_takes_json_with_a_charset(client) -> None:
    answer = client.post("/v1/runs", data=GOOD, content_type="application/json; charset=utf-8")

    assert answer.status_code == 202


def test_refuses_more_than_two_mebibytes(door) -> None:
    body = b'{"agent": "assistant", "input": "' + b"a" * (2 * 1024 * 1024) + b'"}'

    answer = door.post("/v1/runs", data=body, content_type="application/json")

    assert (answer.status_code, answer.json["code"]) == (413, "body_too_large")


def test_refuses_a_long_input_with_the_limit(door) -> None:
    answer = door.post("/v1/runs", json={"agent": "assistant", "input": "a" * 1_000_000})

    assert (answer.status_code, answer.json["code"]) == (413, "input_too_large")
    assert answer.json["limit"] == 200_000


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_refuses_an_empty_input(door, text: str) -> None:
    answer = door.post("/v1/runs", json={"agent": "assistant", "input": text})

    assert (answer.status_code, answer.json["code"]) == (400, "input_empty")


def test_a_body_may_be_left_out_where_it_says_nothing(client, runner) -> None:
    answer = client.post(f"/v1/runs/{accept(runner)}/cancel")

    assert answer.status_code == 200
