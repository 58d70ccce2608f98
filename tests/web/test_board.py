"""The board: a snapshot, then what changes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import orjson
import pytest

from config.identity.principal import Principal
from tests.web.conftest import RunOwner, accept, eventually, process_of
from web.feeds.board import MIN_PAUSE_S, BoardFeed
from web.feeds.viewers import Viewer


class Board:
    """A reader of the board's stream, through the portable generator."""

    def __init__(self, client: Any) -> None:
        self.answer = client.get("/v1/events", buffered=False)
        self._pieces: Iterator[bytes] = iter(self.answer.response)
        self._rest = b""

    def next(self, event: str) -> dict:
        while True:
            while b"\n\n" not in self._rest:
                self._rest += next(self._pieces)
            frame, _, self._rest = self._rest.partition(b"\n\n")
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
            if fields.get(b"event") == event.encode():
                return orjson.loads(fields[b"data"]) | {"number": int(fields[b"id"])}

    def close(self) -> None:
        self.answer.close()


@pytest.fixture
def board(client) -> Iterator[Board]:
    new_board = Board(client)
    yield new_board
    new_board.close()


def test_begins_with_a_snapshot(client, runner) -> None:
    run_id = accept(runner)
    board = Board(client)

    snapshot = board.next("snapshot")
    board.close()

    assert [run["run_id"] for run in snapshot["runs"]] == [run_id]


def test_sends_what_changes_and_nothing_else(board: Board, runner, journal) -> None:
    first = board.next("snapshot")
    run_id = accept(runner)
    queued = board.next("run")
    RunOwner(journal, run_id).finish("answer")
    journal.live.nudge_board("default", run_id)

    ended = board.next("run")
    while ended["status"] != "succeeded":
        ended = board.next("run")

    assert first["runs"] == []
    assert (queued["run_id"], queued["status"]) == (run_id, "queued")
    assert ended["number"] > queued["number"] > first["number"]
    assert "output" not in ended


def test_says_how_many_there_are_and_which_are_shown_no_more(board: Board, client, runner, journal) -> None:
    first = board.next("snapshot")["counts"]
    run_id = accept(runner)
    queued = board.next("board")
    RunOwner(journal, run_id).finish("answer")
    client.delete(f"/v1/runs/{run_id}")
    journal.live.nudge_board("default", run_id)

    removed = board.next("board")
    while run_id not in removed["gone"]:
        removed = board.next("board")

    assert (queued["counts"]["queued"], queued["gone"]) == (1, [])
    assert removed["counts"] == first
    assert set(first.values()) == {0}


def test_is_returned_once_as_json(client, runner) -> None:
    run_id = accept(runner)
    board = Board(client)

    page = client.get("/v1/events", headers={"Accept": "application/json"})
    streamed = board.next("snapshot")
    board.close()

    assert [run["run_id"] for run in page.json["runs"]] == [run_id]
    assert page.json["counts"]["queued"] == 1
    assert {"runs": streamed["runs"], "counts": streamed["counts"]} == page.json


def test_is_asked_once_for_all(app, client) -> None:
    boards = [Board(client) for _ in range(3)]
    for each in boards:
        each.next("snapshot")

    hub = process_of(app).hub
    assert len(hub._boards) == 1
    for each in boards:
        each.close()
    eventually(lambda: not hub._boards)


def test_a_board_that_ends_while_it_subscribes_costs_the_next_one_no_hints(app, journal, monkeypatch) -> None:
    hub = process_of(app).hub
    began, may_continue, subscribed = threading.Event(), asyncio.Event(), threading.Event()

    async def listen(_channel: str, _function: Any) -> None:
        began.set()
        await may_continue.wait()
        subscribed.set()

    async def look_and_leave() -> None:
        feed = hub.board_feed(Principal())
        viewer = Viewer(hub.viewers, lambda: feed, 0)
        feed.attach(viewer)
        while not began.is_set():
            await asyncio.sleep(0)
        feed.detach(viewer)

    monkeypatch.setattr(journal.live.hot_log, "listen", listen)
    journal.loop.run(look_and_leave(), 10)
    journal.loop.loop.call_soon_threadsafe(may_continue.set)

    assert subscribed.wait(5)


def test_a_change_wakes_the_boards_of_its_tenant_alone(app, journal, monkeypatch) -> None:
    hub, woken = process_of(app).hub, []
    monkeypatch.setattr(BoardFeed, "nudge", lambda board: woken.append(board.principal))
    principals = [Principal(), Principal(id="ann"), Principal(tenant="acme", id="ann")]

    async def look() -> list[Principal]:
        feeds = [hub.board_feed(principal) for principal in principals]
        viewers = [Viewer(hub.viewers, partial(hub.board_feed, feed.principal), 0) for feed in feeds]
        for feed, viewer in zip(feeds, viewers, strict=True):
            feed.attach(viewer)
        while len(journal.live.hot_log._channels) < 2:
            await asyncio.sleep(0)
        for tenant in ("acme", "other", "default"):
            journal.live.hot_log.nudge(journal.live.keys.board(tenant), "run_1")
        for feed, viewer in zip(feeds, viewers, strict=True):
            feed.detach(viewer)
        return woken

    order = journal.loop.run(look(), 10)
    eventually(lambda: not journal.live.hot_log._channels)

    assert order == [principals[2], *principals[:2]]
    assert not hub._boards


@pytest.mark.parity
def test_a_flood_of_hints_makes_it_ask_no_more_often(board: Board, runner, journal, monkeypatch) -> None:
    looked_at_s: list[float] = []
    query = journal.readers.runs.board

    def look(*principal: Any) -> Any:
        looked_at_s.append(time.monotonic())
        return query(*principal)

    monkeypatch.setattr(journal.readers.runs, "board", look)
    board.next("snapshot")
    stop = threading.Event()

    def flood() -> None:
        while not stop.wait(0.001):
            journal.live.nudge_board("default", "run_forged")

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    try:
        eventually(lambda: len(looked_at_s) >= 2, 20)
        run_id = accept(runner)
        run = board.next("run")
    finally:
        stop.set()
        flooding.join()

    assert run["run_id"] == run_id
    assert all(later - earlier >= MIN_PAUSE_S for earlier, later in pairwise(looked_at_s))
