"""What the client sends: keys, retries that do nothing twice, and what it does not repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from callboard_client import Callboard, RequestRefused, Timeouts, UnexpectedAnswer, Unreachable
from tests.clients.python.blocking import KINDS, client_of
from tests.clients.python.scripted_server import LOST, Answer, ScriptedServer

pytestmark = [pytest.mark.parity, pytest.mark.parametrize("kind", KINDS)]

ACCEPTED = Answer(status=202, body={"run_id": "run_1", "thread_id": "sums", "status": "queued"})
DECIDED = {"run_id": "run_1", "approval_id": "apr_1", "decision": "fail", "by": "ann", "status": "queued"}
RUN = {"run_id": "run_1", "thread_id": "sums", "agent": "assistant", "status": "running"}
BUSY = Answer(status=503, body={"code": "overloaded", "detail": "Try again."}, headers={"Retry-After": "0"})
GONE = Answer(status=404, body={"code": "run_unknown", "detail": "There is no such run."})
TIMEOUTS = Timeouts(retry_s=5)

POSTS: dict[str, tuple[Callable[[Callboard], Any], Answer]] = {
    "run": (lambda callboard: callboard.run("assistant", "Hello").run_id, ACCEPTED),
    "cancel": (lambda callboard: callboard.handle("run_1").cancel(), Answer(body=RUN)),
    "set": (lambda callboard: callboard.handle("run_1").set(max_iterations=3), Answer(body=RUN)),
    "steer": (lambda callboard: callboard.handle("run_1").steer("Be brief."), Answer(body=RUN)),
    "rerun": (lambda callboard: callboard.handle("run_1").rerun(2).run_id, ACCEPTED),
    "log_event": (
        lambda callboard: callboard.log_event("c-1", "message.created", "discord", {"content": "Hello"}).event_id,
        Answer(status=201, body={"event_id": "evt_1", "created_at": "2026-11-20T12:00:00.123Z"}),
    ),
    "decide": (lambda callboard: callboard.handle("run_1").decide("apr_1", "fail").by, Answer(body={**RUN, **DECIDED})),
    "link": (
        lambda callboard: callboard.handle("run_1").link("apr_1", "ann").url,
        Answer(status=201, body={"url": "http://h/#/approval/t", "token": "t", "principal": "ann", "expires_at": "x"}),
    ),
}


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize("failure", [LOST, BUSY, Answer(status=502)], ids=["lost", "busy", "proxy"])
def test_a_repeated_post_has_the_key_of_the_first(kind: str, post: str, failure: Answer) -> None:
    call, answer = POSTS[post]
    first = [] if post in ("run", "log_event") else [Answer(body=RUN)]
    with (
        ScriptedServer(*first, failure, failure, answer) as server,
        client_of(kind, server.address, timeouts=TIMEOUTS) as callboard,
    ):
        call(callboard)

    posts = [request for request in server.requests if request.method == "POST"]
    assert len(posts) == 3
    assert len({request.headers["idempotency-key"] for request in posts}) == 1
    assert len({str(request.body) for request in posts}) == 1


def test_two_calls_have_two_keys_and_a_given_key_is_sent(kind: str) -> None:
    with ScriptedServer(ACCEPTED) as server, client_of(kind, server.address) as callboard:
        for key in (None, None, "order-17"):
            callboard.run("assistant", "Hello", idempotency_key=key)

    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert len(set(keys)) == 3
    assert keys[2] == "order-17"


@pytest.mark.parametrize("detached", [False, True])
def test_a_start_never_waits_for_the_run(kind: str, detached: bool) -> None:
    with ScriptedServer(ACCEPTED) as server, client_of(kind, server.address) as callboard:
        handle = callboard.run("assistant", "Hello", thread_id="sums", detached=detached, metadata={"order": 17})

    assert (handle.run_id, handle.thread_id) == ("run_1", "sums")
    assert server.requests[0].body == {
        "agent": "assistant",
        "input": "Hello",
        "thread_id": "sums",
        "metadata": {"order": 17},
        **({"detached": True} if detached else {"detached": False, "wait_s": 0}),
    }


def test_a_thread_is_not_created_twice(kind: str) -> None:
    created = Answer(status=201, body={"thread_id": "thr_1"})
    with ScriptedServer(LOST, created) as server, client_of(kind, server.address) as callboard:
        with pytest.raises(Unreachable) as raised:
            callboard.threads.create(agent="assistant")
        assert raised.value.may_have_arrived
        assert callboard.threads.create(agent="assistant") == "thr_1"

    assert len(server.requests) == 2


def test_a_deletion_whose_answer_was_lost_is_done(kind: str) -> None:
    with ScriptedServer(LOST, GONE) as server, client_of(kind, server.address) as callboard:
        callboard.runs.delete("run_1")

        with pytest.raises(RequestRefused, match="run_unknown"):
            callboard.runs.delete("run_1")

    assert len(server.requests) == 3


def test_a_refusal_for_good_is_not_repeated(kind: str) -> None:
    with (
        ScriptedServer(GONE) as server,
        client_of(kind, server.address) as callboard,
        pytest.raises(RequestRefused) as raised,
    ):
        callboard.handle("run_1")

    assert raised.value.code == "run_unknown"
    assert len(server.requests) == 1


def test_a_server_that_stays_busy_is_an_error_before_the_time_it_asks_for(kind: str) -> None:
    busy = Answer(status=503, body={"code": "overloaded", "detail": "Later."}, headers={"Retry-After": "60"})
    with (
        ScriptedServer(busy) as server,
        client_of(kind, server.address, timeouts=TIMEOUTS) as callboard,
        pytest.raises(RequestRefused) as raised,
    ):
        callboard.run("assistant", "Hello")

    assert (raised.value.retry_after_s, len(server.requests)) == (60.0, 1)


def test_the_key_goes_into_the_header_and_no_further_than_its_server(kind: str) -> None:
    with ScriptedServer(ACCEPTED) as elsewhere:
        redirect = Answer(status=307, headers={"Location": f"{elsewhere.address}/v1/runs"})
        own: Any = {"plain": httpx.Client, "async": httpx.AsyncClient}[kind](follow_redirects=True)
        with (
            ScriptedServer(redirect) as server,
            client_of(kind, server.address, "cbk_1", http_client=own) as callboard,
            pytest.raises(UnexpectedAnswer),
        ):
            callboard.run("assistant", "Hello")

    assert [request.headers["authorization"] for request in server.requests] == ["Bearer cbk_1"]
    assert "cbk_1" not in server.requests[0].path
    assert elsewhere.requests == []


def test_an_id_is_one_part_of_the_path(kind: str) -> None:
    thread = {"thread_id": "a", "runs": []}
    with ScriptedServer(Answer(body=thread)) as server, client_of(kind, server.address + "/") as callboard:
        callboard.threads.get("ann's sums? 100%#/../é")

        for wrong in ("", ".", ".."):
            with pytest.raises(ValueError, match="is not an id"):
                callboard.threads.get(wrong)

    [request] = server.requests
    assert request.path == "/v1/threads/ann%27s%20sums%3F%20100%25%23%2F..%2F%C3%A9"


def test_a_page_is_a_list_that_knows_where_the_next_begins(kind: str) -> None:
    page = Answer(body={"runs": [RUN], "next": "place"})
    last = Answer(body={"runs": []})
    with ScriptedServer(page, last) as server, client_of(kind, server.address) as callboard:
        first = callboard.runs.list(status="open", limit=1)
        second = callboard.runs.list(status="open", limit=1, before=first.next)

    assert [run.run_id for run in first] == ["run_1"]
    assert (second, second.next) == ([], None)
    assert server.requests[1].path == "/v1/runs?status=open&limit=1&before=place"
