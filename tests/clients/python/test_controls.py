"""Controls, repeats, and the messages that wait: both clients on a web process whose runs the tests own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from callboard_client import Callboard, RequestRefused, RunHandle, Unreachable
from tests.clients.python.blocking import KINDS, client_of
from tests.clients.python.scripted_server import LOST, Answer, ScriptedServer
from tests.journeys.web_server import Web
from tests.web.conftest import RunOwner, furnish_served, opened, serve_queues

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Runner]:
    with opened(furnish_served(tmp_path_factory.mktemp("web"), empty_database)) as new_runner:
        yield new_runner


@pytest.fixture(scope="module")
def web(runner: Runner) -> Iterator[Web]:
    with Web(runner.settings) as started:
        yield started


@pytest.fixture(params=KINDS)
def callboard(request: pytest.FixtureRequest, web: Web) -> Iterator[Callboard]:
    """A client of each kind in turn."""
    with client_of(request.param, web.address) as client:
        yield client


def sent(callboard: Callboard, *texts: str, **options: Any) -> list[RunHandle]:
    """Send messages to a new thread, or to the one that is named, and return their handles."""
    options.setdefault("thread_id", callboard.threads.create(agent="assistant"))
    return [callboard.run("assistant", text, **options) for text in texts]


def code_of(request: Callable[[], object]) -> tuple[str, int]:
    """Return the code and the status with which a request is refused."""
    with pytest.raises(RequestRefused) as raised:
        request()
    return raised.value.code, raised.value.status


def controls_of(callboard: Callboard, handle: RunHandle) -> dict[str | None, tuple[str, str]]:
    """Return verb and text of each control of an ended run, by its id."""
    events = [event for event in handle.events() if event.event_type == "control"]
    return {event.raw["control_id"]: (event.raw["verb"], event.raw.get("content", "")) for event in events}


def test_runs_are_found_and_counted_and_the_fleet_is_listed(callboard: Callboard, runner: Runner) -> None:
    serve_queues(runner.journal, "runs", slots=4)
    first, second = (callboard.run("assistant", text) for text in ("Refund order 1042", "Where is order 1077?"))

    page = callboard.runs.list(q="refund 1042", since="1h", sort="oldest", limit=1)
    by_id = callboard.runs.list(q=second.run_id[-8:], kind="agent", code=None)

    assert page[0].title == "Refund order 1042"
    assert [run.run_id for run in by_id] == [second.run_id]
    assert callboard.runs.counts("agent", q=first.run_id).groups == [{"value": "assistant", "count": 1}]
    assert [worker.state for worker in callboard.workers()] == ["alive"]
    assert "queues" in {finding["check"] for finding in callboard.doctor().findings}
    assert {queue.queue: queue.workers for queue in callboard.queues()} == {"runs": 1}
    assert callboard.approvals.list(state="answered") == []
    assert callboard.observers() == callboard.observers("none") == []
    assert callboard.runs.list(tool="none") == []
    assert code_of(lambda: callboard.run("assistant", "Hello", version=99)) == ("version_unknown", 404)
    for handle in (first, second):
        assert handle.cancel() == "cancelled"


def test_an_open_run_is_steered_paused_resumed_and_limited(callboard: Callboard) -> None:
    (handle,) = sent(callboard, "First")

    steered = handle.steer("Be brief.")
    limited = handle.set(max_iterations=2, priority="high")
    paused = handle.pause()
    resumed = handle.resume()

    assert {control.run_id for control in (steered, limited, paused, resumed)} == {handle.run_id}
    assert {control.thread_id for control in (steered, limited, paused, resumed)} == {handle.thread_id}
    assert (steered.status, steered.number) == ("queued", 2)
    assert (limited.status, paused.status, resumed.status) == ("queued", "waiting", "queued")
    assert callboard.runs.get(handle.run_id).priority == "high"
    assert handle.cancel() == "cancelled"
    controls = controls_of(callboard, handle)
    assert controls[steered.control_id] == ("steer", "Be brief.")
    assert controls[limited.control_id][0] == "set"
    assert "max_iterations 2" in controls[limited.control_id][1]
    assert (controls[paused.control_id][0], controls[resumed.control_id][0]) == ("pause", "resume")


def test_a_control_for_another_status_is_refused(callboard: Callboard) -> None:
    (handle,) = sent(callboard, "First")

    refusals = {
        code_of(request)
        for request in (
            lambda: handle.steer("Be brief.", expected_status="running"),
            lambda: handle.pause(expected_status="running"),
            lambda: handle.set(priority="low", expected_status="running"),
            lambda: handle.cancel(expected_status="running"),
        )
    }
    handle.pause(expected_status="queued")

    assert refusals == {("control_refused", 409)}
    assert code_of(lambda: handle.resume(expected_status="running")) == ("control_refused", 409)
    assert handle.resume(expected_status="waiting").status == "queued"
    assert callboard.runs.get(handle.run_id).priority == "normal"
    handle.cancel()


def test_a_failed_run_is_retried_once_with_a_key(callboard: Callboard, runner: Runner) -> None:
    (handle,) = sent(callboard, "First")
    RunOwner(runner.journal, handle.run_id).finish("Hello.", status="failed")

    first, again = (handle.retry(mode="live", idempotency_key="again-17") for _ in range(2))

    assert (first.run_id, first.thread_id) == (again.run_id, handle.thread_id)
    run = callboard.runs.get(first.run_id)
    assert (run.retry_of, run.mode, run.title) == (handle.run_id, "live", "First")
    assert code_of(first.retry) == ("run_not_repeatable", 409)
    first.cancel()


def test_a_thread_is_forked_up_to_a_message(callboard: Callboard, runner: Runner) -> None:
    (handle,) = sent(callboard, "First")
    RunOwner(runner.journal, handle.run_id).finish("Hello.")

    fork = callboard.threads.fork(handle.thread_id, 1, new_thread_id=f"{handle.thread_id[4:]}-2")
    other = callboard.threads.fork(handle.thread_id, 2)

    assert (fork.thread_id, fork.forked_from) == (f"{handle.thread_id[4:]}-2", handle.thread_id)
    assert (fork.at, fork.messages, other.at, other.messages) == (1, 1, 2, 2)
    assert [message.content for message in callboard.threads.messages(other.thread_id)] == ["First", "Hello."]
    assert code_of(lambda: callboard.threads.fork(handle.thread_id, 9)) == ("message_unknown", 404)
    again = (handle.thread_id, 1)
    assert code_of(lambda: callboard.threads.fork(*again, new_thread_id=fork.thread_id)) == ("thread_exists", 409)


def test_messages_that_wait_are_listed_in_pages_edited_moved_and_removed(callboard: Callboard) -> None:
    first, second, third = sent(callboard, "First", "Second", "Third")
    threads, thread_id = callboard.threads, first.thread_id

    edited = threads.edit(thread_id, second.run_id, content="Second, better")
    moved = threads.edit(thread_id, third.run_id, content="Third, better", place="first")
    threads.remove(thread_id, first.run_id)
    steered = third.steer("Be brief.")
    page = threads.queue(thread_id, limit=1)
    rest = threads.queue(thread_id, after=page.next)

    assert [(control.run_id, control.status) for control in (edited, moved)] == [
        (second.run_id, "queued"),
        (third.run_id, "queued"),
    ]
    assert [(entry.kind, entry.run_id, entry.content, entry.agent) for entry in page] == [
        ("message", third.run_id, "Third, better", "assistant")
    ]
    assert [(entry.kind, entry.run_id, entry.content, entry.control_id) for entry in rest] == [
        ("message", second.run_id, "Second, better", None),
        ("steer", third.run_id, "Be brief.", steered.control_id),
    ]
    assert (rest.next, first.status()) == (None, "cancelled")
    assert code_of(lambda: threads.remove(thread_id, first.run_id)) == ("message_taken", 409)
    assert code_of(lambda: threads.edit(thread_id, first.run_id, place="now")) == ("message_taken", 409)


def test_a_message_for_a_busy_thread_says_which_run_took_it(callboard: Callboard) -> None:
    (first,) = sent(callboard, "First", priority="low", on_disconnect="stop:60")

    (merged,) = sent(callboard, "Second", thread_id=first.thread_id, if_busy="merge")
    (steered,) = sent(callboard, "Third", thread_id=first.thread_id, if_busy="steer")
    rejected = code_of(lambda: sent(callboard, "Fourth", thread_id=first.thread_id, if_busy="reject"))

    assert callboard.runs.get(first.run_id).priority == "low"
    assert (first.delivered, first.control_id) == (None, None)
    assert (merged.run_id, merged.delivered, merged.control_id) == (first.run_id, "merged", None)
    assert (steered.run_id, steered.delivered) == (first.run_id, "steered")
    assert rejected == ("thread_busy", 409)
    first.cancel()
    assert controls_of(callboard, first)[steered.control_id] == ("steer", "Third")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        lambda threads: threads.edit("sums", "run_1", place="now"),
        lambda threads: threads.remove("sums", "run_1"),
        lambda threads: threads.fork("sums", 2),
    ],
    ids=["edit", "remove", "fork"],
)
def test_a_change_whose_answer_was_lost_is_not_sent_again(kind: str, change: Callable[[Any], object]) -> None:
    taken = Answer(status=409, body={"code": "message_taken", "detail": "The run has begun."})
    with (
        ScriptedServer(LOST, taken) as server,
        client_of(kind, server.address) as client,
        pytest.raises(Unreachable) as raised,
    ):
        change(client.threads)

    assert raised.value.may_have_arrived
    assert len(server.requests) == 1
