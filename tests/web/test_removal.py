"""Removing runs and threads over HTTP, and what is seen of them, and of logs that were not kept, afterwards."""

from __future__ import annotations

import contextlib
import socket

import orjson
import pytest
from sqlalchemy import update

from config.clock import epoch_ms
from config.database.tables import runs
from tests.bus.ended_runs import DAY_MS, remove_old
from tests.web.conftest import RunOwner, accept, eventually, process_of
from tests.web.test_board import Board
from tests.web.test_run_feed import Client, events
from web.dialects.seeds.feed import SeedFeed
from web.feeds.page import RETRY
from web.feeds.viewers import Viewer

PAGE = {"Accept": "application/json"}


@pytest.fixture
def over(runner, journal) -> str:
    """A run of the thread ``talk`` that ended."""
    run_id = accept(runner, thread_id="talk")
    owner = RunOwner(journal, run_id)
    owner.say("do", "ne")
    owner.finish()
    return run_id


def test_the_dialects_viewer_of_a_removed_run_is_dropped_without_a_traceback(app, journal, runner, caplog) -> None:
    hub = process_of(app).hub
    run_id = accept(runner)
    feed = SeedFeed(journal, hub.viewers.backlog, "default", "run_removed", runner.handle(run_id).thread_id, None)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    hub.viewers.welcome(theirs, Viewer(hub.viewers, lambda: feed, 0))

    ours.settimeout(10)
    with contextlib.suppress(ConnectionResetError):
        while ours.recv(1024):
            pass

    assert [record.levelname for record in caplog.records if record.name == "web.dialects.seeds.feed"] in ([], ["INFO"])
    ours.close()


def test_a_removed_run_is_unknown_and_its_thread_is_not(client, over: str) -> None:
    answer = client.delete(f"/v1/runs/{over}")

    assert (answer.status_code, answer.data) == (204, b"")
    for call in (
        client.get(f"/v1/runs/{over}"),
        client.get(f"/v1/runs/{over}/events"),
        client.get(f"/v1/runs/{over}/events?after=3", headers=PAGE),
        client.post(f"/v1/runs/{over}/cancel"),
        client.delete(f"/v1/runs/{over}"),
    ):
        assert (call.status_code, call.json["code"]) == (404, "run_unknown")
    assert client.get("/v1/threads/talk").json["runs"] == []
    assert [message["content"] for message in client.get("/v1/threads/talk/messages").json["messages"]] == [
        "Hello",
        "done",
    ]


def test_a_removed_thread_is_unknown_with_all_its_runs(client, over: str) -> None:
    answer = client.delete("/v1/threads/talk")

    assert (answer.status_code, answer.data) == (204, b"")
    assert client.get(f"/v1/runs/{over}").status_code == 404
    talk = "/v1/threads/talk"
    for call in (client.get(talk), client.get(f"{talk}/messages"), client.delete(talk)):
        assert (call.status_code, call.json["code"]) == (404, "thread_unknown")


@pytest.mark.parametrize("what", ["run", "thread"])
def test_what_is_open_is_refused_and_named(client, runner, over: str, what: str) -> None:
    going = accept(runner, thread_id="talk")

    answer = client.delete(f"/v1/runs/{going}" if what == "run" else "/v1/threads/talk")

    assert (answer.status_code, answer.json["code"], answer.json["run_id"]) == (409, "run_open", going)
    assert f"./callboard cancel {going}" in answer.json["detail"]
    assert client.get(f"/v1/runs/{over}").status_code == 200


def test_the_key_of_a_removed_run_starts_another(client, runner) -> None:
    key = {"Idempotency-Key": "once"}
    start = {"agent": "assistant", "input": "Hello"}
    first = client.post("/v1/runs", json=start, headers=key).json["run_id"]
    client.post(f"/v1/runs/{first}/cancel")

    client.delete(f"/v1/runs/{first}")

    assert client.post("/v1/runs", json=start, headers=key).json["run_id"] != first


def test_a_viewer_that_is_behind_when_a_run_is_removed_is_sent_away(client, app, over: str, monkeypatch) -> None:
    monkeypatch.setattr("bus.journal.live.reader.IDLE_S", 0.05)
    run = (over, "talk")
    client.delete(f"/v1/runs/{over}")

    viewer = Client(process_of(app).hub, run, cursor=2)

    assert viewer.read_all() == RETRY


def test_a_long_poll_for_a_removed_run_gets_an_error(client, journal, over: str) -> None:
    reading = journal.readers.follow_blocking("default", over, "talk", 999)
    client.delete(f"/v1/runs/{over}")

    with pytest.raises(Exception, match="there is no run"):
        next(reading)


def test_who_opens_the_board_later_does_not_see_a_removed_run(client, app, runner, over: str) -> None:
    first = Board(client)
    first.next("snapshot")
    (feed,) = process_of(app).hub._boards["default"]

    client.delete(f"/v1/runs/{over}")
    feed.nudge()
    eventually(lambda: over not in feed._shown.runs)
    second = Board(client)

    assert first.next("board")["gone"] == [over]
    assert second.next("snapshot")["runs"] == []
    for board in (first, second):
        board.close()


# --- logs that were not kept


@pytest.fixture
def expired(client, journal, over: str) -> str:
    """The same run long after, with its log gone."""
    with journal.database.write() as connection:
        connection.execute(update(runs).values(ended_ms=epoch_ms() - 10 * DAY_MS))
    settings = journal.settings.model_copy(update={"retain_events_days": 1})
    assert remove_old(journal.database, settings).logs == 1
    return over


def test_a_page_of_a_log_that_was_not_kept_says_so_and_how_it_ended(client, expired: str) -> None:
    page = client.get(f"/v1/runs/{expired}/events", headers=PAGE).json

    assert page["ended"]
    assert [event["type"] for event in page["events"]] == ["withdrawn", "end"]
    assert page["events"][0]["reason"] == "expired"
    assert page["events"][0]["ranges"] == [[1, page["events"][1]["seq"] - 2]]
    assert (page["events"][1]["status"], page["events"][1]["output"]) == ("succeeded", "done")


def test_a_stream_of_a_log_that_was_not_kept_ends_from_every_cursor(client, app, journal, expired: str) -> None:
    hub, last = process_of(app).hub, 6

    for cursor in range(last):
        data = Client(hub, (expired, "talk"), cursor=cursor).read_all()
        assert events(data) == [number for number in (last - 1, last) if number > cursor]
    assert client.get(f"/v1/runs/{expired}/events?after={last}").status_code == 204
    assert client.get(f"/v1/runs/{expired}/events?after={last + 1}").status_code == 409


def test_a_result_is_known_without_the_log(client, runner, expired: str) -> None:
    assert runner.handle(expired).result(5).output == "done"
    assert orjson.loads(client.get(f"/v1/runs/{expired}").data)["output"] == "done"
