"""The self-test stream says when it sent what, and which headers arrived, without their values."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.web.contract import contract_of, data_of
from web.feeds import viewers
from web.feeds.page import BEAT

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
