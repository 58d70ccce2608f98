"""Clients as people have them: what they make of a stream, whole and cut off behind any byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import httpx
import orjson
import pytest
from httpx_sse import EventSource

from bus.journal.readers import Line
from web.feeds.page import BEAT, RETRY, frame

FIRST, LAST = 8, 12
"""Numbers of one digit and of two."""


class Seen(NamedTuple):
    """An event as a client reports it."""

    event: str
    data: str
    cursor: str
    """What the client would resume by."""


def stream(after: int = FIRST - 1) -> bytes:
    """Return what a viewer is sent that resumes after a number, with a beat before each event."""
    lines = [Line(n, "response", orjson.dumps({"seq": n, "content": f"{n}: \n"})) for n in range(after + 1, LAST + 1)]
    return RETRY + b"".join(BEAT + frame(line) for line in lines)


def with_httpx_sse(data: bytes) -> list[Seen]:
    response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=data)
    return [Seen(event.event, event.data, event.id) for event in EventSource(response).iter_sse()]


def with_an_eager_client(data: bytes) -> list[Seen]:
    """As `sseclient-py` reads: what is left at the end of the connection counts as a block."""
    seen, cursor = [], ""
    for block in data.decode(errors="replace").split("\n\n"):
        fields = {name: value[1:] for name, _, value in (line.partition(":") for line in block.split("\n")) if name}
        cursor = fields.get("id", cursor)
        if "data" in fields:
            seen.append(Seen(fields.get("event", "message"), fields["data"], cursor))
    return seen


CLIENTS = pytest.mark.parametrize("read", [with_httpx_sse, with_an_eager_client])


@CLIENTS
def test_a_client_sees_each_event_once_and_nothing_else(read) -> None:
    seen = read(stream())

    assert [event.event for event in seen] == ["response"] * len(seen)
    assert [orjson.loads(event.data)["seq"] for event in seen] == list(range(FIRST, LAST + 1))
    assert [event.cursor for event in seen] == [str(number) for number in range(FIRST, LAST + 1)]


def known(seen: list[Seen]) -> Iterator[int]:
    """Yield the numbers of the events that a client could parse."""
    for event in seen:
        try:
            yield orjson.loads(event.data)["seq"]
        except orjson.JSONDecodeError:
            continue


@CLIENTS
def test_a_client_that_is_cut_off_anywhere_and_resumes_by_its_cursor_misses_nothing(read) -> None:
    whole = stream()
    for cut in range(len(whole)):
        seen = read(whole[:cut])
        got = set(known(seen))
        cursor = next((int(event.cursor) for event in reversed(seen) if event.cursor), FIRST - 1)

        got |= set(known(read(stream(after=max(cursor, FIRST - 1)))))

        assert got == set(range(FIRST, LAST + 1)), f"cut off behind {whole[:cut][-20:]!r}"


def test_httpx_sse_reports_nothing_of_a_frame_that_was_cut_off() -> None:
    whole = stream()

    for cut in range(len(whole)):
        assert all(orjson.loads(event.data) for event in with_httpx_sse(whole[:cut]))
