"""What is kept of a call's operations: bounded, without secrets, and only inside of a call."""

import asyncio
import threading

import orjson
import pytest

from agents.tools.spans.collector import (
    MAX_BYTES,
    MAX_HEADERS,
    MAX_SPANS,
    MAX_TEXT,
    collecting,
    is_collecting,
    note_answer,
    note_request,
    span,
    span_if_collecting,
)
from config.tracing import current_traceparent, trace_id_of, traced

KEY = "sk-" + "a" * 40


def test_nothing_is_noted_outside_of_a_call():
    with span_if_collecting("file", "read a") as open_span:
        assert open_span is None

    assert not is_collecting("file")


def test_an_operation_is_noted_with_its_facts():
    with collecting() as collector, span("sql", "SELECT", statement="SELECT 1", database="shop") as open_span:
        open_span.facts["rows"] = 1

    (record,) = collector.close()
    assert record.pop("duration_ms") >= 0
    assert record.pop("started_at").endswith("Z")
    assert len(record.pop("span_id")) == 16
    assert record == {"kind": "sql", "name": "SELECT", "statement": "SELECT 1", "database": "shop", "rows": 1}


def test_a_span_has_the_trace_id_and_a_request_in_it_names_it_as_its_parent():
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    with traced(trace_id), collecting() as collector:
        with span("http", "GET a"):
            inside = current_traceparent()
        outside = current_traceparent()

    (record,) = collector.close()
    assert record["trace_id"] == trace_id
    assert inside == f"00-{trace_id}-{record['span_id']}-01"
    assert trace_id_of(outside) == trace_id
    assert record["span_id"] not in str(outside)


def test_an_operation_that_raises_is_noted_and_raises():
    with collecting() as collector, pytest.raises(ValueError), span("file", "read a", path="a"):
        raise ValueError("no")

    assert collector.close()[0]["error"] == "ValueError"


def test_a_library_on_top_of_another_makes_one_span():
    with collecting() as collector:
        with span("http", "outer"):
            assert not is_collecting("http")
            with span_if_collecting("http", "inner"), span_if_collecting("file", "read certificates"):
                pass
        assert is_collecting("http")

    assert [record["name"] for record in collector.close()] == ["read certificates", "outer"]


def test_spans_are_limited_in_number():
    with collecting() as collector:
        for _ in range(MAX_SPANS + 7):
            with span("file", "read a"):
                pass

    records = collector.close()
    assert len(records) == MAX_SPANS + 1
    assert (records[-1]["kind"], records[-1]["count"]) == ("left_out", 7)


def test_spans_are_limited_in_size():
    with collecting() as collector:
        for _ in range(80):
            with span("sql", "SELECT", statement="x" * 1_000_000):
                pass

    records = collector.close()
    assert len(orjson.dumps(records)) < MAX_BYTES + 1000
    assert len(records[0]["statement"]) == MAX_TEXT


@pytest.mark.parametrize("value", [object(), float("nan"), 2**80, {1: object()}, b"\xff"])
def test_what_cannot_be_written_is_left_out_and_disturbs_nothing(value):
    with collecting() as collector, span("file", "odd", path=value):
        pass

    orjson.dumps(collector.close())


def test_a_path_that_is_no_text_is_noted():
    with collecting() as collector, span("file", "open \udcff", path="/a/\udcff"):
        pass

    assert collector.close()[0]["path"] == "/a/?"


def test_what_ends_after_the_call_is_not_kept():
    with collecting() as collector:
        late = span("file", "read late")
        late.__enter__()
        collector.close()
        late.__exit__(None, None, None)

    assert collector.close() == []


def test_calls_at_once_have_their_own_spans():
    async def call(name):
        with collecting() as collector:
            for _ in range(20):
                with span("file", name):
                    await asyncio.sleep(0)
            await asyncio.to_thread(note, name)
            return collector.close()

    def note(name):
        with span_if_collecting("file", name):
            pass

    async def run():
        return await asyncio.gather(*(call(f"read {number}") for number in range(10)))

    for number, records in enumerate(asyncio.run(run())):
        assert [record["name"] for record in records] == [f"read {number}"] * 21


def test_a_thread_of_its_own_is_outside_of_the_call():
    seen = []
    with collecting():
        thread = threading.Thread(target=lambda: seen.append(is_collecting("http")))
        thread.start()
        thread.join()

    assert seen == [False]


def test_headers_and_bodies_have_no_secrets():
    with collecting() as collector, span("http", "GET a", url=f"https://a/?api_key={KEY}") as open_span:
        sent = {"Authorization": f"Bearer {KEY}", "X-Api-Key": "plain-words", "Content-Type": "application/json"}
        note_request(
            open_span, {**sent, **{f"X-{number}": "1" for number in range(50)}}, b'{"key": "%s"}' % KEY.encode()
        )
        note_answer(open_span, 200, {"Set-Cookie": "a=b", "Content-Type": "image/png"}, b"\x89PNG" * 100)

    (record,) = collector.close()
    assert KEY not in str(record)
    assert "plain-words" not in str(record)
    assert record["request_headers"]["authorization"] == "[redacted]"
    assert len(record["request_headers"]) == MAX_HEADERS
    assert record["request_body"] == '{"key": "[redacted]"}'
    assert (record["status"], record["response_body"]) == (200, "(400 bytes)")
    assert record["response_headers"]["set-cookie"] == "[redacted]"
