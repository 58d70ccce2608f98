"""One request to an ASGI application: answered at once, or continued for a viewer; a client that leaves is noticed."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from config.errors import CallboardError
from web.errors import Overloaded, Unauthenticated
from web.mcp.application import AsgiExchange

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}


class FakeViewer:
    """What an exchange needs of a viewer."""

    trace_id = "0af7651916cd43dd8448eb211c80319c"

    def __init__(self) -> None:
        self.sent = b""
        self.is_finished = False

    def write(self, data: bytes) -> None:
        self.sent += data

    async def room(self) -> None:
        await asyncio.sleep(0)

    def finish(self) -> None:
        self.is_finished = True


def _body(data: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def test_an_answer_that_is_there_at_once_is_whole() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        await send({**START, "status": 202})
        await send(_body(message["body"].upper(), more=False))

    async def work() -> AsgiExchange:
        exchange = AsgiExchange(application, {"type": "http"}, b"hello")
        assert await exchange.begin(5)
        return exchange

    exchange = asyncio.run(work())

    assert (exchange.status, exchange.body) == (202, b"HELLO")
    assert exchange.headers == [("content-type", "text/event-stream")]


def test_a_longer_answer_is_continued_for_its_viewer_from_the_beginning() -> None:
    may_end = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "headers": [(b"content-type", b"text/event-stream"), (b"connection", b"keep-alive")]})
        await send(_body(b"one ", more=True))
        await may_end.wait()
        await send(_body(b"two", more=False))

    async def work() -> FakeViewer:
        exchange, viewer = AsgiExchange(application, {}, b""), FakeViewer()
        assert not await exchange.begin(0.01)
        exchange.continue_with([("X-Content-Type-Options", "nosniff"), ("content-type", "text/html")])
        exchange.attach(viewer)  # type: ignore[arg-type]  # what it needs of one
        may_end.set()
        while not viewer.is_finished:
            await asyncio.sleep(0)
        return viewer

    viewer = asyncio.run(work())

    head, _, body = viewer.sent.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"content-type: text/event-stream",
        b"X-Content-Type-Options: nosniff",
        b"Connection: close",
    ]
    assert (body, viewer.is_finished) == (b"one two", True)


def test_the_application_notices_a_client_that_leaves_and_its_error_ends_the_answer() -> None:
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])
        raise RuntimeError("it broke")

    async def work() -> AsgiExchange:
        exchange, viewer = AsgiExchange(application, {}, b""), FakeViewer()
        assert not await exchange.begin(0.01)
        exchange.attach(viewer)  # type: ignore[arg-type]  # what it needs of one
        exchange.detach(viewer)  # type: ignore[arg-type]  # the same
        while not exchange.is_over:
            await asyncio.sleep(0)
        return exchange

    exchange = asyncio.run(work())

    assert seen == ["http.request", "http.disconnect"]
    assert (exchange.status, exchange.body) == (500, b"")


@pytest.mark.parametrize(
    ("error", "status", "code", "header"),
    [
        (Unauthenticated(), b"401 UNAUTHORIZED", "unauthenticated", b"WWW-Authenticate: Bearer"),
        (Overloaded("it ends.", retry_after_s=2), b"503 SERVICE UNAVAILABLE", "overloaded", b"Retry-After: 2"),
    ],
)
def test_an_answer_that_ends_before_it_began_is_a_problem(
    error: CallboardError, status: bytes, code: str, header: bytes
) -> None:
    async def work() -> FakeViewer:
        exchange, viewer = AsgiExchange(_wait, {}, b""), FakeViewer()
        assert not await exchange.begin(0.01)
        exchange.continue_with([("X-Trace-Id", viewer.trace_id), ("Content-Type", "text/html")])
        exchange.attach(viewer)  # type: ignore[arg-type]  # what it needs of one
        exchange.refuse(viewer, error)  # type: ignore[arg-type]  # the same
        exchange.detach(viewer)  # type: ignore[arg-type]  # the same
        return viewer

    head, _, body = asyncio.run(work()).sent.partition(b"\r\n\r\n")

    first, *headers = head.split(b"\r\n")
    assert first.upper() == b"HTTP/1.1 " + status
    assert {b"Content-Type: application/problem+json", b"X-Trace-Id: " + FakeViewer.trace_id.encode(), header} <= {
        *headers
    }
    assert (orjson.loads(body)["code"], orjson.loads(body)["trace_id"]) == (code, FakeViewer.trace_id)


def test_an_answer_that_has_begun_is_cut() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await _wait(scope, receive, send)

    async def work() -> tuple[bytes, bytes]:
        exchange, viewer = AsgiExchange(application, {}, b""), FakeViewer()
        assert not await exchange.begin(0.01)
        exchange.attach(viewer)  # type: ignore[arg-type]  # what it needs of one
        begun = viewer.sent
        exchange.refuse(viewer, Unauthenticated())  # type: ignore[arg-type]  # the same
        return begun, viewer.sent

    begun, sent = asyncio.run(work())

    assert begun.startswith(b"HTTP/1.1 200 OK")
    assert sent == begun


def test_an_application_that_fails_before_its_answer_is_a_problem() -> None:
    may_fail = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await may_fail.wait()
        raise RuntimeError("it broke")

    async def work() -> FakeViewer:
        exchange, viewer = AsgiExchange(application, {}, b""), FakeViewer()
        assert not await exchange.begin(0.01)
        exchange.attach(viewer)  # type: ignore[arg-type]  # what it needs of one
        may_fail.set()
        while not viewer.is_finished:
            await asyncio.sleep(0)
        return viewer

    viewer = asyncio.run(work())

    assert viewer.sent.startswith(b"HTTP/1.1 500 Internal Server Error")
    assert b'"code":"internal"' in viewer.sent
    assert b"it broke" not in viewer.sent


async def _wait(_scope: Any, receive: Any, _send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
