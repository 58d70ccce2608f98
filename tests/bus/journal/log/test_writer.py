"""The one ordered writer: numbers, commits, seals, and the moment it must stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import orjson
import pytest
from sqlalchemy import event, select

from bus.journal.errors import StaleOwner
from bus.journal.live.hotlog import MemoryHotLog
from bus.journal.log import writer as writers
from bus.journal.log.commit import Commit
from bus.journal.log.group_commit import GroupCommit
from bus.journal.log.writer import RunWriter
from bus.journal.records.steps import StepEnded, StepStarted, steps_of
from bus.journal.records.threads import HistoryItem, history
from bus.journal.states import owned
from bus.journal.states.owned import RESERVE
from bus.loop import ProcessLoop
from bus.payloads import (
    EndPayload,
    ErrorPayload,
    ReasoningPayload,
    ResponsePayload,
    StatusPayload,
    ToolNamePayload,
    encode,
)
from config.database.engine import Database
from config.database.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnreachable
from config.database.tables import messages
from config.errors import BadRequest, Retryable
from config.identity.principal import Principal
from tests.bus.faulty_commits import Fault, FaultyCommits
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, cancel, message_commit, settled

STARTED = StepStarted(
    id="stp_1", kind="model", name="demo/assistant", arguments_digest="a", idempotency_key="k", call_id="c"
)


class Gate:
    """Stands before the commit of the writer's transaction, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, times: int = 1) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        left = [times]

        def wait(stage: str) -> None:
            if stage != "commit-before":
                return
            self.reached.set()
            assert self.open.wait(20)
            if error is not None and left[0] > 0:
                left[0] -= 1
                raise error

        monkeypatch.setattr(writers, "failpoint", wait)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    commit_gate = Gate(monkeypatch)
    yield commit_gate
    commit_gate.open.set()


async def reached(harness: JournalHarness, gate: Gate) -> None:
    assert await harness.loop.read(gate.reached.wait, 20)


# --- numbers


def test_everything_gets_the_next_number_deltas_and_commits_alike(harness: JournalHarness):
    owner = harness.own()

    async def play() -> None:
        owner.writer.delta(ReasoningPayload, {"content": "hm", "message_id": "msg_1", "step_id": "stp_1"})
        owner.writer.delta(ResponsePayload, {"content": "Hi", "message_id": "msg_1", "step_id": "stp_1"})
        owner.writer.delta(
            ToolNamePayload, {"call_id": "call_1", "name": "clock", "message_id": "msg_1", "step_id": "stp_1"}
        )
        await owner.message()
        await owner.end()

    harness.do(play())

    assert owner.delivered_seqs == [3, 4, 5, 6, 7]
    assert [p.event_type for p in owner.delivered] == ["reasoning", "response", "tool", "message", "end"]
    assert all(payload.at for payload in owner.delivered)
    assert_whole(harness.lines(owner.lease.run_id))


def test_sql_has_byte_for_byte_what_was_delivered(harness: JournalHarness):
    owner = harness.own()
    lease = owner.lease

    async def play() -> None:
        owner.writer.delta(ReasoningPayload, {"content": "hm\n", "message_id": "msg_1", "step_id": "stp_1"})
        await owner.say("Grö", "ße 🎈", "")
        owner.writer.delta(
            ToolNamePayload, {"call_id": "call_1", "name": "clock", "message_id": "msg_1", "step_id": "stp_1"}
        )
        await owner.message()
        await owner.end()

    harness.do(play())

    delivered = [encode(payload, lease.run_id, lease.thread_id) for payload in owner.delivered]
    assert [line.data for line in harness.lines(lease.run_id, cursor=2)] == delivered


def test_pieces_that_come_while_a_commit_is_on_its_way_stand_behind_it(small_harness: JournalHarness, gate: Gate):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say("before")
        commit = asyncio.ensure_future(owner.writer.commit(Commit(events=[StatusPayload(status="running")])))
        await reached(small_harness, gate)
        await owner.say("during", "also")
        assert owner.delivered_seqs == [3]
        gate.open.set()
        await commit

    small_harness.do(play())

    assert [p.event_type for p in owner.delivered] == ["response", "status", "response", "response"]
    assert [p.seq for p in owner.delivered] == [3, 4, 5, 6]


def test_a_commit_that_fails_gives_its_numbers_back(small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch):
    gate = Gate(monkeypatch, BadRequest("nothing trying again would mend"))
    gate.open.set()
    owner = small_harness.own()

    async def play() -> None:
        with pytest.raises(BadRequest):
            await owner.message()
        await owner.say("next")
        await owner.message()

    small_harness.do(play())

    assert [(p.seq, p.event_type) for p in owner.delivered] == [(3, "response"), (4, "message")]


@pytest.mark.parametrize("error", [DatabaseBusy("locked"), DatabaseUnreachable("gone")], ids=["locked", "gone"])
def test_a_database_that_comes_back_is_waited_for(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, error: Retryable
):
    gate = Gate(monkeypatch, error, times=2)
    gate.open.set()
    owner = small_harness.own()

    small_harness.do(owner.message())

    assert small_harness.kinds(owner.lease.run_id) == ["status", "status", "message"]


@pytest.mark.parametrize("fault", ["busy", "reply_lost"])
def test_a_commit_counts_once_whatever_becomes_of_its_reply(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, fault: Fault
):
    faults = [fault]
    FaultyCommits(small_harness.database, monkeypatch, lambda: faults.pop() if faults else None)
    owner = small_harness.own()

    small_harness.do(owner.message("once"))
    small_harness.do(owner.message("twice", "msg_2"))

    assert faults == []
    assert small_harness.kinds(owner.lease.run_id) == ["status", "status", "message", "message"]
    assert [payload.seq for payload in owner.delivered] == [3, 4]
    assert small_harness.run_row(owner.lease.run_id).commits == 2


@pytest.mark.parametrize("by", ["owner", "stop"])
def test_a_reply_that_was_lost_is_no_licence_once_the_run_belongs_to_another(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, by: str
):
    """The commit counted, and its writer stops all the same: another owner declared the numbers after it."""
    owner = small_harness.own()
    run_id = owner.lease.run_id
    faults: list[Fault] = ["reply_lost"]
    FaultyCommits(small_harness.database, monkeypatch, lambda: faults.pop() if faults else None)
    submit = GroupCommit.submit

    def lose(written: Future[Any], delivered: Future[Any]) -> None:
        """Between the lost reply and the second try another owner takes the run."""
        small_harness.expire_lease(run_id)
        if by == "stop":
            cancel(small_harness.database, Principal(), run_id, "ann")
        else:
            small_harness.claim(run_id, "own_2")
        delivered.set_exception(written.exception())

    def submit_and_lose(commits: GroupCommit, *write: Any, **options: Any) -> Future[Any]:
        if not faults:
            return submit(commits, *write, **options)
        delivered: Future[Any] = Future()
        submit(commits, *write, **options).add_done_callback(lambda written: lose(written, delivered))
        return delivered

    monkeypatch.setattr(GroupCommit, "submit", submit_and_lose)
    with pytest.raises(StaleOwner):
        small_harness.do(owner.message("counted"))

    assert owner.writer.is_stale
    assert small_harness.kinds(run_id).count("message") == 1
    assert owner.delivered == []


def test_a_commit_that_was_given_up_is_never_taken_for_the_next_one(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    """What is committed next would be delivered to all viewers without being in SQL."""
    faults: list[Fault] = ["damaged_behind"]
    FaultyCommits(small_harness.database, monkeypatch, lambda: faults.pop() if faults else None)
    owner = small_harness.own()

    with pytest.raises(DatabaseDamaged):
        small_harness.do(owner.message("first"))
    with pytest.raises(StaleOwner):
        small_harness.do(owner.message("second", "msg_2"))

    assert owner.delivered == []
    assert small_harness.run_row(owner.lease.run_id).commits == 1


def test_more_numbers_are_taken_before_they_run_out(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say(*["x"] * (RESERVE // 2 + 10))
        assert owner.writer._extending is not None
        await owner.writer._extending

    small_harness.do(play())

    assert small_harness.run_row(owner.lease.run_id).reserved_to == 1 + 2 * RESERVE
    assert len(owner.delivered) == RESERVE // 2 + 10


def test_pieces_beyond_the_last_number_wait_for_more(small_harness: JournalHarness):
    owner = small_harness.own()
    number = 3 * RESERVE + 17

    async def play() -> None:
        await owner.say(*["x"] * number)
        assert owner.writer.is_full
        assert len(owner.delivered) == RESERVE - 1
        await owner.writer.room()
        assert not owner.writer.is_full

    small_harness.do(play())

    assert owner.delivered_seqs == list(range(3, 3 + number))


def test_a_message_stands_behind_its_pieces_also_where_they_waited_for_numbers(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say(*["x"] * (2 * RESERVE + 5))
        await owner.message()
        await owner.end()

    small_harness.do(play())

    assert [p.event_type for p in owner.delivered[-2:]] == ["message", "end"]
    assert len(owner.delivered) == 2 * RESERVE + 7
    assert_whole(small_harness.lines(owner.lease.run_id))


def test_a_commit_takes_numbers_when_there_are_none(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say(*["x"] * (RESERVE - 1))
        assert owner.writer._extending is not None
        owner.writer._extending.cancel()
        await owner.message()

    small_harness.do(play())

    assert owner.delivered_seqs[-1] == RESERVE + 2


def test_stopping_a_run_that_waits_for_numbers_does_not_lose_it(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say(*["x"] * (RESERVE + 5))
        waiting = asyncio.ensure_future(owner.writer.room())
        await settled()
        waiting.cancel()
        await asyncio.wait([waiting])
        await owner.message()
        await owner.end("cancelled")

    small_harness.do(play())

    assert not owner.writer.is_stale
    assert_whole(small_harness.lines(owner.lease.run_id))


# --- commits


@pytest.fixture
def commits(small_harness: JournalHarness) -> list[Any]:
    counted: list[Any] = []
    event.listen(small_harness.database.engine, "commit", counted.append)
    return counted


def test_pieces_cost_no_commit_and_a_message_one_with_everything_of_it(
    small_harness: JournalHarness, commits: list[Any]
):
    owner = small_harness.own()
    before = len(commits)

    async def play() -> None:
        await owner.writer.commit(Commit(started=[STARTED]))
        await owner.say(*"Hello")
        change, ended = message_commit(), StepEnded(id="stp_1", status="done", result={"a": 1})
        await owner.writer.commit(replace(change, ended=[ended], started=[replace(STARTED, id="stp_2")]))
        await owner.end()

    small_harness.do(play())

    assert len(commits) - before == 3
    with small_harness.database.read() as connection:
        first, second = steps_of(connection, owner.lease.run_id)
    assert (first["number"], first["status"], first["result_json"]) == (1, "done", '{"a":1}')
    assert (second["number"], second["status"], second["fence"]) == (2, "started", 1)
    assert small_harness.run_row(owner.lease.run_id).steps == 0  # the end says how many


def test_a_message_seals_its_pieces_in_the_same_commit(harness: JournalHarness):
    owner = harness.own()

    async def play() -> None:
        await owner.say("a", "b")
        assert owner.writer.sealed_to == 2
        assert len(harness.lines(owner.lease.run_id)) == 2
        await owner.message()
        assert owner.writer.sealed_to == 5

    harness.do(play())

    assert harness.kinds(owner.lease.run_id) == ["status", "status", "response", "response", "message"]


def test_a_message_seals_only_its_own_pieces(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say("a1", message_id="msg_a")
        await owner.say("b1", message_id="msg_b")
        await owner.say("a2", message_id="msg_a")
        await owner.message(message_id="msg_a")
        assert owner.writer.sealed_to == 3
        await owner.say("b2", message_id="msg_b")
        await owner.message(message_id="msg_b")
        await owner.end()

    small_harness.do(play())

    lines = small_harness.lines(owner.lease.run_id)
    assert [line.seq for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert_whole(lines)


def test_cancelling_the_caller_does_not_cut_a_commit(small_harness: JournalHarness, gate: Gate):
    owner = small_harness.own()

    async def play() -> None:
        first = asyncio.ensure_future(owner.message())
        await reached(small_harness, gate)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        second = asyncio.ensure_future(owner.end("cancelled"))
        await settled()
        gate.open.set()
        await second

    small_harness.do(play())

    assert [(p.seq, p.event_type) for p in owner.delivered] == [(3, "message"), (4, "end")]
    assert len(small_harness.rows(select(messages))) == 2


def test_the_end_closes_the_run_the_thread_and_the_writer(harness: JournalHarness):
    first = harness.own(harness.accept(thread_id="mine").run_id)
    second = harness.accept(thread_id="mine")
    end = EndPayload(
        status="failed", reason="why", output={"a": 1}, usage={"input_tokens": 3}, cost_usd=0.5, steps=2, duration_ms=5
    )

    harness.do(first.writer.commit(Commit(events=[end], error_code="model_failed")))

    row = harness.run_row(first.lease.run_id)
    assert (row.status, row.reason, row.error_code, row.steps, row.reserved_to) == (
        "failed",
        "why",
        "model_failed",
        2,
        3,
    )
    assert (row.owner, row.lease_until, orjson.loads(row.output_json)) == (None, None, {"a": 1})
    assert (orjson.loads(row.usage_json), row.cost_usd) == ({"input_tokens": 3}, 0.5)
    assert row.ended_ms >= row.started_ms
    assert first.woken == [second.run_id]
    with pytest.raises(StaleOwner):
        harness.do(first.message())
    with pytest.raises(StaleOwner):
        harness.do(first.say("more"))


def test_what_is_no_message_by_the_end_is_withdrawn_with_it(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say("sealed early", message_id="msg_2")
        await owner.writer._seal_all()
        await owner.say("left", "over")
        await owner.end("failed")

    small_harness.do(play())

    assert [p.event_type for p in owner.delivered[-2:]] == ["withdrawn", "end"]
    assert_whole(small_harness.lines(owner.lease.run_id))


def test_an_extension_that_the_end_overtakes_is_no_loss(
    sqlite: Database, wide_loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch
):
    """With several writers at once the end may be committed before numbers asked for earlier are."""
    is_ended, is_answered = threading.Event(), threading.Event()
    reserve = owned.reserve

    def late(*args: Any) -> bool:
        is_ended.wait(0.2)
        try:
            return reserve(*args)
        finally:
            is_answered.set()

    def linger(stage: str) -> None:
        if stage == "commit-before":
            is_ended.set()
            is_answered.wait(20)
            threading.Event().wait(0.02)  # the answer to the extension arrives first

    monkeypatch.setattr(owned, "reserve", late)
    monkeypatch.setattr(writers, "failpoint", linger)
    harness = JournalHarness(sqlite, wide_loop, MemoryHotLog())
    owner, lost = harness.own(), []
    owner.writer.on_lost = lambda: lost.append("lost")

    async def play() -> None:
        await owner.say(*["x"] * (RESERVE // 2 + 1))
        await owner.writer.commit(Commit(events=[*message_commit().events, EndPayload(status="succeeded")]))

    harness.do(play())

    assert lost == []
    assert not owner.writer.is_stale
    assert harness.run_row(owner.lease.run_id).reserved_to == owner.delivered_seqs[-1]


def test_history_items_stand_in_their_turn(harness: JournalHarness):
    first = harness.own(harness.accept("one", thread_id="mine").run_id)
    second = harness.accept("two", thread_id="mine")
    error = HistoryItem(id="msg_e", role="error", data={"content": "oops", "code": "x"}, partial=True)

    async def play() -> None:
        await first.message("answer")
        await first.writer.commit(Commit(events=[EndPayload(status="failed")], history=[error]))

    harness.do(play())

    with harness.database.read() as connection:
        key = harness.run_row(second.run_id).thread_key
        seen_by_second = history(connection, key, harness.run_row(second.run_id).turn, 1000).items
        seen_by_first = history(connection, key, first.lease.turn, 1000).items
    assert [item.role for item in seen_by_second] == ["user", "assistant", "error", "user"]
    assert [item.data["content"] for item in seen_by_second] == ["one", "answer", "oops", "two"]
    assert seen_by_first == seen_by_second[:-1]
    assert seen_by_first[-1] == error


# --- withdrawing and sealing early


def test_withdrawing_names_every_piece_held_and_sealed_and_only_those(harness: JournalHarness):
    owner = harness.own()

    async def play() -> None:
        await owner.say("sealed", "early")
        await owner.writer._seal_all()
        await owner.say("other", message_id="msg_2")
        await owner.say("held")
        await owner.writer.withdraw("msg_1", ErrorPayload(code="model_failed", message="again", retryable=True))
        await owner.say("second try")
        await owner.message()
        await owner.message(message_id="msg_2")
        await owner.end()

    harness.do(play())

    lines = harness.lines(owner.lease.run_id)
    (withdrawn,) = [line for line in lines if line.type == "withdrawn"]
    assert withdrawn.withdrawn_ranges == [(3, 4), (6, 6)]
    assert [line.type for line in lines if line.seq > 6][:2] == ["withdrawn", "error"]
    assert_whole(lines)


def test_withdrawing_nothing_writes_nothing(small_harness: JournalHarness):
    owner = small_harness.own()

    small_harness.do(owner.writer.withdraw("msg_1"))

    assert owner.delivered == []


def test_pieces_withdrawn_before_they_had_numbers_never_get_any(small_harness: JournalHarness, gate: Gate):
    owner = small_harness.own()

    async def play() -> None:
        commit = asyncio.ensure_future(owner.writer.commit(Commit(events=[StatusPayload(status="running")])))
        await reached(small_harness, gate)
        await owner.say("gone")
        await owner.say("stays", message_id="msg_2")
        withdrawing = asyncio.ensure_future(owner.writer.withdraw("msg_1"))
        await settled()
        gate.open.set()
        await asyncio.gather(commit, withdrawing)

    small_harness.do(play())

    assert [(p.seq, getattr(p, "content", None)) for p in owner.delivered] == [(3, None), (4, "stays")]


def test_pieces_sealed_early_are_not_sealed_again(harness: JournalHarness):
    owner = harness.own()

    async def play() -> None:
        await owner.say("a", "b")
        owner.writer.seal_soon()
        owner.writer.seal_soon()
        assert owner.writer._sealing is not None
        await owner.writer._sealing
        assert owner.writer.sealed_to == 4
        owner.writer.seal_soon()
        await owner.say("c")
        await owner.message()
        await owner.end()

    harness.do(play())

    lines = harness.lines(owner.lease.run_id)
    assert [line.seq for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert_whole(lines)


def test_pieces_that_come_while_sealing_are_held_for_the_next(small_harness: JournalHarness, gate: Gate):
    owner = small_harness.own()

    async def play() -> None:
        await owner.say("a")
        owner.writer.seal_soon()
        await reached(small_harness, gate)
        await owner.say("b")
        assert owner.delivered_seqs == [3, 4]
        gate.open.set()
        assert owner.writer._sealing is not None
        await owner.writer._sealing
        assert owner.writer.sealed_to == 3
        await owner.message()

    small_harness.do(play())

    assert [line.seq for line in small_harness.lines(owner.lease.run_id)] == [1, 2, 3, 4, 5]


def test_sealing_that_fails_is_tried_again_with_the_message(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    gate = Gate(monkeypatch, DatabaseUnreachable("gone"))
    gate.open.set()
    owner = small_harness.own()

    async def play() -> None:
        await owner.say("a")
        await owner.writer._seal_all()
        await owner.message()

    small_harness.do(play())

    assert [line.seq for line in small_harness.lines(owner.lease.run_id)] == [1, 2, 3, 4]


# --- losing the run


def attempts(owner: Owner) -> dict[str, Any]:
    """Everything a writer can be asked to write."""
    writer = owner.writer
    return {
        "message": owner.message,
        "step": lambda: writer.commit(Commit(started=[STARTED])),
        "step ended": lambda: writer.commit(Commit(ended=[StepEnded(id="stp_1", status="done")])),
        "end": owner.end,
        "withdraw": lambda: writer.withdraw("msg_1"),
        "room": writer.room,
    }


@pytest.mark.parametrize("what", ["message", "step", "step ended", "end", "withdraw", "room"])
def test_a_stale_writer_is_refused_and_writes_nothing(harness: JournalHarness, what: str):
    stale = harness.own()
    lost: list[str] = []
    stale.writer.on_lost = lambda: lost.append("lost")  # the hot log may be the first to tell
    harness.do(stale.say("piece"))
    harness.expire_lease(stale.lease.run_id)
    owner = harness.own(stale.lease.run_id, "own_2")
    before = harness.lines(stale.lease.run_id)

    with pytest.raises(StaleOwner):
        harness.do(attempts(stale)[what]())
    harness.do(settled())

    assert lost == ["lost"]
    assert stale.writer.is_stale
    assert harness.lines(stale.lease.run_id) == before
    assert harness.run_row(stale.lease.run_id).fence == owner.lease.fence
    with pytest.raises(StaleOwner):
        harness.do(stale.say("more"))


def test_a_stale_writer_seals_nothing(harness: JournalHarness):
    stale = harness.own()
    harness.do(stale.say("piece"))
    harness.expire_lease(stale.lease.run_id)
    harness.own(stale.lease.run_id, "own_2")

    harness.do(stale.writer._seal_all())
    harness.do(settled())

    assert stale.writer.is_stale
    assert "response" not in harness.kinds(stale.lease.run_id)


def test_a_writer_that_lost_the_run_writes_nothing_more(small_harness: JournalHarness, gate: Gate):
    owner = small_harness.own()
    lost: list[str] = []
    owner.writer.on_lost = lambda: lost.append("lost")

    async def play() -> None:
        commit = asyncio.ensure_future(owner.writer.commit(Commit(events=[StatusPayload(status="running")])))
        await reached(small_harness, gate)
        await owner.say("waiting for the commit")
        owner.writer.lost_ownership()
        owner.writer.lost_ownership()
        gate.open.set()
        await commit

    small_harness.do(play())

    assert lost == ["lost"]
    assert [p.event_type for p in owner.delivered] == ["status"]


def test_a_run_that_ended_is_not_written_to_by_a_second_writer_of_the_same_lease(harness: JournalHarness):
    owner = harness.own()
    on_wake, on_left = owner.woken.append, owner.hot_log.hint_stored
    second = RunWriter(owner.lease, harness.commits, harness.loop, owner.notify, on_wake=on_wake, on_left=on_left)
    harness.do(owner.end())

    with pytest.raises(StaleOwner):
        harness.do(second.commit(Commit(events=[StatusPayload(status="running")])))

    assert harness.kinds(owner.lease.run_id) == ["status", "status", "end"]
