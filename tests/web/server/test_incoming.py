"""What a client sends is cut into requests, however it is cut on its way, in time linear in its size."""

from __future__ import annotations

import time
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import (
    InvalidHeader,
    InvalidRequestLine,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from hypothesis import given
from hypothesis import strategies as st

from web.server.incoming import MAX_CHUNKS, BodyTooLarge, Incoming, TooManyChunks, decode_body
from web.server.refusals import refusal_of

HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
REQUESTS = [
    (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
    (CHUNKED + b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"hello!"),
    (CHUNKED + b"0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", b""),
]


def incoming() -> Incoming:
    return Incoming(Config(), ("127.0.0.1", 1))


def body_of(request: Any) -> bytes:
    decode_body(request)
    body = request.body.read()
    assert isinstance(body, bytes)
    return body


@pytest.mark.parity
@given(
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4),
    st.lists(st.integers(min_value=1, max_value=60), min_size=1),
)
def test_requests_come_out_whole_however_they_are_cut(sent: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    data, reader, bodies = b"".join(request for request, _ in sent), incoming(), []
    while data:
        size = cuts[len(data) % len(cuts)]
        reader.feed(data[:size])
        data = data[size:]
        while (request := reader.take()) is not None:
            bodies.append(body_of(request))

    assert bodies == [body for _, body in sent]
    assert len(reader) == 0


@given(st.binary(max_size=200), st.booleans())
def test_whatever_comes_is_a_request_or_refused_or_waited_for(junk: bytes, is_chunked: bool) -> None:
    reader = incoming()
    reader.feed((CHUNKED if is_chunked else b"") + junk)
    try:
        request = reader.take()
        if request is not None:
            body_of(request)
    except (ParseException, BodyTooLarge):
        pass


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"GET / HTTP/1.1\nHost: x\n", InvalidRequestLine),
        (b"GET / HTTP/1.1\r\nHost: x\n", InvalidHeader),
        (b"GET /" + b"x" * 70_000, LimitRequestLine),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 12_000, LimitRequestHeaders),
        (CHUNKED + b"0\r\n" + b"X: y\r\n" * 12_000, LimitRequestHeaders),
        (CHUNKED + b"ffffff\r\n", BodyTooLarge),
        (CHUNKED + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 512 + b"1\r\n", BodyTooLarge),
        (CHUNKED + b"1\r\nx\r\n" * (MAX_CHUNKS + 1), TooManyChunks),
        (CHUNKED + (b"1;" + b"a" * 8000 + b"\r\nx\r\n") * 9, TooManyChunks),
    ],
)
def test_a_limit_counts_before_the_end_has_come(sent: bytes, error: type[Exception]) -> None:
    reader = incoming()
    reader.feed(sent)

    with pytest.raises(error):
        reader.take()


def test_as_many_chunks_as_may_be_are_taken_and_one_more_is_refused_with_the_remedy() -> None:
    most, more = (CHUNKED + b"1\r\nx\r\n" * count + b"0\r\n\r\n" for count in (MAX_CHUNKS - 1, MAX_CHUNKS))
    reader, refused = incoming(), incoming()
    reader.feed(most)
    refused.feed(more)

    assert body_of(reader.take()) == b"x" * (MAX_CHUNKS - 1)
    with pytest.raises(TooManyChunks) as error:
        refused.take()
    answer = refusal_of(error.value)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"send larger chunks, or a Content-Length" in answer


def test_sizes_may_be_written_apart_from_what_the_chunks_hold() -> None:
    piece = b"200\r\n" + b"x" * 512 + b"\r\n"
    reader = incoming()
    reader.feed(CHUNKED + piece * 4095 + b"0\r\nX-Sum: " + b"1" * 8000 + b"\r\n\r\n")

    assert len(body_of(reader.take())) == 4095 * 512


def test_a_body_beyond_the_limit_is_not_waited_for() -> None:
    reader = incoming()
    reader.feed(HEAD + b"Content-Length: 99999999\r\n\r\nxxx")

    request = reader.take()

    assert request.should_close()
    assert (request.body.read(), len(reader)) == (b"", 0)


@pytest.mark.parametrize(
    ("piece", "most"),
    [
        (b"1\r\nx\r\n", 24_000),
        (b"1;" + b"a" * 500 + b"\r\nx\r\n", 60_000),
        (b"400\r\n" + b"x" * 1024 + b"\r\n", 1_200_000),
    ],
)
def test_a_body_in_chunks_costs_time_linear_in_its_size(piece: bytes, most: int) -> None:
    def cost(size: int) -> float:
        data, reader = CHUNKED + piece * (size // len(piece)) + b"0\r\n\r\n", incoming()
        began = time.thread_time()
        for start in range(0, len(data), 16_384):
            reader.feed(data[start : start + 16_384])
            request = reader.take()
        body_of(request)
        return time.thread_time() - began

    cost(1000)
    assert cost(most) < 10 * cost(most // 4) + 0.05, "four times as much, in four times the time"


def test_a_client_is_asked_for_its_body_once() -> None:
    reader = incoming()
    reader.feed(HEAD + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")

    assert reader.take() is None
    assert (reader.take_expectation(), reader.take_expectation()) == (True, False)


ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_refusal_has_the_trace_id_of_a_request_whose_head_was_read() -> None:
    reader = incoming()
    reader.feed(CHUNKED.replace(b"Transfer", b"traceparent: 00-%s-00f067aa0ba902b7-01\r\nTransfer" % ID.encode()))
    reader.feed(b"200001\r\n" + b"x" * 0x200001)

    with pytest.raises(BodyTooLarge) as refused:
        reader.take()

    head, body = refusal_of(refused.value, reader.trace_id).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert f"X-Trace-Id: {ID}".encode() in head
    assert f'"trace_id":"{ID}"'.encode() in body
    assert incoming().trace_id is None
