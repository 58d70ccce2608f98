"""Trace ids are read from ``traceparent`` as W3C Trace Context has it, and everything else is as no header."""

from __future__ import annotations

import io
import logging

import pytest

from config.logs import TextLines
from config.tracing import current_trace_id, is_trace_id, new_trace_id, trace_id_of, traced

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
