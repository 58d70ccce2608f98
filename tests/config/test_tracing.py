"""Trace ids are read from ``traceparent`` as W3C Trace Context has it, and everything else is as no header."""

from __future__ import annotations

import io
import logging
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from config.logs import JsonLines, TextLines
from config.tracing import (
    change_trace,
    correlate,
    current_correlation_id,
    current_headers,
    current_span_id,
    current_trace,
    current_trace_id,
    current_traceparent,
    in_span,
    in_trace,
    is_correlation_id,
    is_trace_id,
    new_trace_id,
    parent_of_environment,
    parent_span_of,
    span_id_of,
    trace_id_of,
    trace_of_environment,
    trace_variables,
    traced,
)

ID, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header",
    [
        f"00-{ID}-{PARENT}-01",
        f"00-{ID}-{PARENT}-00",
        f"00-{ID}-{PARENT}-ff",
        f" 00-{ID}-{PARENT}-01\t",
        f"01-{ID}-{PARENT}-01",
        f"cc-{ID}-{PARENT}-01-what-the-future-adds",
    ],
)
def test_the_trace_id_of_a_traceparent_is_read(header: str) -> None:
    assert trace_id_of(header) == ID


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        ID,
        f"ff-{ID}-{PARENT}-01",
        f"00-{ID}-{PARENT}-01-more",
        f"00-{ID}-{PARENT}",
        f"00-{ID}-{PARENT}-01-",
        f"00-{ID}-{PARENT}-01\n",
        f"01-{ID}-{PARENT}-011",
        f"00-{ID.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{ID}-{'0' * 16}-01",
        f"00-{ID[1:]}-{PARENT}-01",
        f"00-{ID}g-{PARENT}-01",
        f"00-{ID}-{PARENT}-01,00-{ID}-{PARENT}-01",
        f"00-{ID}-{PARENT}-01 x",
        f"01-{ID}-{PARENT}-01-" + "x" * 500,
        "0٠-" + f"{ID}-{PARENT}-01",
    ],
)
def test_a_malformed_traceparent_has_no_trace_id(header: str | None) -> None:
    assert trace_id_of(header) is None


def test_new_trace_ids_are_trace_ids_and_differ() -> None:
    first, second = new_trace_id(), new_trace_id()

    assert is_trace_id(first)
    assert is_trace_id(second)
    assert first != second
    assert not is_trace_id("0" * 32)
    assert not is_trace_id(None)


def test_records_have_the_trace_they_are_logged_in_and_none_afterwards() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLines("web"))
    log = logging.Logger("callboard.test")
    log.addHandler(handler)

    with traced(ID):
        log.warning("within")
        with traced(None):
            log.warning("apart")
        assert current_trace_id() == ID
    log.warning("after")

    within, apart, after = stream.getvalue().splitlines()
    assert within.endswith(f"within trace_id={ID}")
    assert "trace_id" not in apart + after


def test_records_have_the_run_and_the_correlation_id_and_name_none_twice():
    texts, objects = io.StringIO(), io.StringIO()
    log = logging.Logger("callboard.test")
    for stream, lines in ((texts, TextLines("worker")), (objects, JsonLines("worker"))):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(lines)
        log.addHandler(handler)

    with traced(ID, "order 4711\n", "run_1"):
        log.info("claimed run_id=%s", "run_1")
        log.info("looked", extra={"trace_id": "of a viewer"})

    first, second = texts.getvalue().splitlines()
    assert first.endswith(f'claimed run_id=run_1 trace_id={ID} correlation_id="order 4711\\n"')
    assert second.endswith('looked correlation_id="order 4711\\n" run_id=run_1 trace_id="of a viewer"')
    whole = [orjson.loads(line) for line in objects.getvalue().splitlines()]
    assert [line["run_id"] for line in whole] == ["run_1", "run_1"]
    assert [line["trace_id"] for line in whole] == [ID, "of a viewer"]


@pytest.mark.parametrize("text", [None, 5, "", "x" * 129, "a\0b", "\udc80", b"a"])
def test_what_is_no_correlation_id_is_not_taken(text: object):
    assert not is_correlation_id(text)

    with traced(ID):
        correlate(text)
        assert current_correlation_id() is None


def test_messages_and_programs_get_the_trace_and_nothing_outside_of_one():
    assert (current_headers(), trace_variables(), current_traceparent()) == ({}, {}, None)
    with traced(None, "order 4711", "run_1"):  # of an earlier release
        assert (current_headers(), current_traceparent()) == ({}, None)
    with traced(ID):
        correlate("order 4711")
        headers, variables = current_headers(), trace_variables()

    assert trace_id_of(headers["traceparent"]) == ID
    assert headers["x-correlation-id"] == "order 4711"
    assert trace_of_environment(variables) == (ID, "order 4711")


@pytest.mark.parametrize("variables", [{}, {"TRACEPARENT": "x" * 9000}, {"CALLBOARD_CORRELATION_ID": "x" * 129}])
def test_a_program_that_was_started_without_a_trace_has_none(variables: dict[str, str]):
    assert trace_of_environment(variables) == (None, None)


def test_a_function_works_on_the_trace_of_its_caller_on_another_thread_and_leaves_none():
    with ThreadPoolExecutor(1) as thread:
        with traced(ID, "order 4711", "run_1"):
            trace = thread.submit(in_trace(current_trace)).result()
            expected = current_trace()
        afterwards = thread.submit(current_trace).result()

    assert trace == expected
    assert afterwards is None


@pytest.mark.parametrize(
    ("header", "parent"), [(f"00-{ID}-{PARENT}-01", PARENT), (f"00-{ID}-{'0' * 16}-01", None), (7, None)]
)
def test_the_span_of_the_caller_is_read(header: object, parent: str | None):
    assert parent_span_of(header) == parent


def test_the_span_of_a_program_that_started_this_one_is_the_one_that_was_under_way():
    with traced(ID, run_id="run_1"), in_span(span_id_of("step_1")):
        variables = trace_variables()

    assert parent_of_environment(variables) == span_id_of("step_1")
    assert parent_of_environment({}) is None


def test_the_span_under_way_is_the_calls_then_the_runs_then_the_callers():
    assert current_span_id() is None
    with traced(ID, parent_span=PARENT):
        assert (current_span_id(), parent_span_of(current_traceparent())) == (PARENT, PARENT)
        with traced(ID, run_id="run_1"):
            assert current_span_id() == span_id_of("run_1")
            with in_span(span_id_of("step_1")):
                assert parent_span_of(current_traceparent()) == span_id_of("step_1")
        change_trace(ID)
        assert current_span_id() == PARENT
        change_trace("a" * 32)
        assert current_span_id() is None


def test_a_span_id_follows_from_the_id():
    assert span_id_of("run_1") == span_id_of("run_1") != span_id_of("run_2")
    assert len(span_id_of("run_1")) == 16
