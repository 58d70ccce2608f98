"""What a body may be: one JSON object that means one thing."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from config.errors import BadRequest
from tests.web.conftest import accept
from web.calls.bodies import parse_object

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
    "NUL in the input": b'{"agent": "assistant", "input": "a\\u0000"}',
    "NUL in a key below": b'{"agent": "assistant", "input": "a", "metadata": {"x": [{"\\u0000": 1}]}}',
    "50 001 values": b'{"agent": "assistant", "input": "a", "metadata": [' + b"1," * 50_001 + b"1]}",
    "many values and a text that breaks off": b'{"agent": [' + b"1," * 50_001 + b'"' + b'\\"' * 1000,
    "thread id of a dot": b'{"agent": "assistant", "input": "a", "thread_id": "."}',
    "thread id of two dots": b'{"agent": "assistant", "input": "a", "thread_id": ".."}',
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


def test_marks_within_a_text_are_no_values_and_a_written_escape_is_no_nul(client) -> None:
    text = '[{"a": 1},' * 15_000 + '\\u0000 \\ "'

    answer = client.post("/v1/runs", json={"agent": "assistant", "input": text})

    assert answer.status_code == 202


HOSTILE = {
    "lists": b"[[],[" * 400_000,
    "objects": b'[{"a":{}},' * 200_000,
    "numbers": b"[" + b"1," * 1_000_000,
    "quotes": b'[1,{"a":"' + b'\\"' * 1_000_000,
    "backslashes": b'["' + b"\\" * 2_000_000,
    "texts": b'["",' * 500_000,
    "levels": b'{"a":' * 400_000,
    "broken texts": b'"\\' * 1_000_000,
}


@pytest.mark.parity
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_body_is_refused_before_anything_is_made_of_it(body: bytes) -> None:
    def cost(data: bytes) -> float:
        began = time.thread_time()
        with pytest.raises(BadRequest):
            parse_object(data)
        return time.thread_time() - began

    tracemalloc.start()
    cost(body[: 2 * 1024 * 1024])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    half, whole = (min(cost(body[:size]) for _ in range(3)) for size in (2**20, 2**21))

    assert most < 26 * 1024 * 1024, "most of it is what orjson takes for a text of 2 MiB"
    assert whole < 4 * half + 0.05, "linear in its size"


def test_an_unknown_field_gets_a_suggestion(client) -> None:
    answer = client.post("/v1/runs", json={"agent": "assistant", "input": "a", "tread_id": "x"})

    assert "Did you mean 'thread_id'?" in answer.json["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/threads/talk/fork", {"message": "1"}),
        ("/v1/runs/run_0/rerun", {"from_step": "1"}),
        ("/v1/runs/run_0/set", {"max_iterations": "3"}),
        ("/query", {"query": "a", "limit": "5"}),
    ],
)
def test_text_is_no_number_in_a_body(client, path: str, body: dict[str, str]) -> None:
    answer = client.post(path, json=body)

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
    assert "has to be a whole number" in answer.json["detail"]
    assert client.get("/v1/runs?limit=5").status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx"]
)
def test_refuses_what_is_not_said_to_be_json(door, kind: str) -> None:
    answer = door.post("/v1/runs", data=GOOD, content_type=kind)

    assert (answer.status_code, answer.json["code"]) == (415, "media_type_refused")


@pytest.mark.parametrize(
    "header",
    [{"Content-Encoding": "gzip"}, {"Content-Encoding": "identity, br"}, {"Transfer-Encoding": "gzip, chunked"}],
    ids=str,
)
def test_refuses_what_is_said_to_be_compressed(door, header: dict[str, str]) -> None:
    answer = door.post("/v1/runs", data=GOOD, content_type="application/json", headers=header)

    assert (answer.status_code, answer.json["code"]) == (415, "media_type_refused")
    assert "without compression" in answer.json["detail"]


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
