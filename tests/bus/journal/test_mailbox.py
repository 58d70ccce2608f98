"""A thread answers one message at a time; each policy decides what becomes of one that comes while it is busy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from sqlalchemy import event, select, text

from bus.journal.acceptance.accept import Accepted, accept
from bus.journal.approvals import Decision
from bus.journal.controls import PAUSE, RESUME
from bus.journal.decisions.decisions import decide
from bus.journal.errors import MESSAGE_TAKEN, RUN_CRASHED, THREAD_BUSY, RunUnknown, ThreadUnknown
from bus.journal.idempotency import IdempotencyKey
from bus.journal.log.commit import Commit
from bus.journal.mailbox import busy, queue
from bus.journal.mailbox.control import control
from bus.journal.records.control_requests import request_of
from bus.journal.records.steps import StepEnded, StepStarted
from bus.journal.records.threads import HistoryItem, history
from bus.journal.retention.removal import remove_runs
from bus.journal.run_end import fail_owned
from bus.journal.states.codes import Reason
from bus.journal.states.release import PAUSED, Release
from bus.payloads import MessagePayload, StatusPayload, ToolResultPayload
from cli.crashlab.invariants import breaches
from config.database.tables import approvals, audit, controls, messages, outbox, runs, steps
from config.identity.principal import Principal, Role
from config.ids import canonical_digest, new_id
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, fire_timers, lose_owner, new_run
from tests.bus.questions import ALLOWED, question
from tests.raising import raises

ME = Principal()


def send(harness: JournalHarness, text: str, if_busy: Any = "enqueue", **fields: Any) -> Accepted:
    return accept(harness.database, new_run(text, thread_id="talk", if_busy=if_busy, **fields))


def titles(harness: JournalHarness) -> list[str]:
    """Return the texts that wait, the next one first."""
    return [entry["content"] for entry in queue.listed(harness.database, ME, "talk")[0]]


def texts_for(harness: JournalHarness, run_id: str) -> list[str]:
    """Return the users' texts that a run's model would get."""
    row = harness.run_row(run_id)
    with harness.database.read() as connection:
        past = history(connection, row.thread_key, row.turn, 100_000)
    return [item.data["content"] for item in past.items if item.role == "user"]


def streaming(harness: JournalHarness, run_id: str) -> Owner:
    owner = harness.own(run_id)
    harness.do(owner.say("wh", "ole"))
    harness.do(owner.message())
    return owner


def in_a_tool(harness: JournalHarness, run_id: str) -> Owner:
    owner = harness.own(run_id)
    calls = [{"call_id": "call_1", "name": "pay", "arguments": {}, "arguments_text": "{}"}]
    message = MessagePayload(role="assistant", tool_calls=calls, message_id="msg_1", step_id="stp_1")
    item = HistoryItem(id="msg_1", role="assistant", data={"tool_calls": calls})
    its: dict[str, Any] = {"id": new_id("stp"), "idempotency_key": "key_1", "arguments_digest": canonical_digest({})}
    step = StepStarted(**its, kind="tool", name="pay", effect="unsafe", call_id="call_1", decision=ALLOWED)
    harness.do(owner.writer.commit(Commit(events=[message], history=[item], started=[step])))
    return owner


def end(harness: JournalHarness, owner: Owner, *, is_in_tool: bool) -> None:
    """Have the owner end its run, and where a call is open, by what the journal has of it."""
    run_id, is_stopped = owner.lease.run_id, harness.run_row(owner.lease.run_id).stop_requested
    if not is_in_tool:
        harness.do(owner.end("cancelled" if is_stopped else "failed"))
        return
    if is_stopped:
        lose_owner(harness.database, run_id)
    else:
        fail_owned(harness.database, run_id, owner.lease.fence, RUN_CRASHED(crashes=1, during="pay"))
    assert list(breaches(harness.record(run_id))) == []


def waiting(harness: JournalHarness, run_id: str) -> None:
    owner = streaming(harness, run_id)
    release = Release(status="waiting", reason=Reason.APPROVAL, questions=(question(),))
    harness.do(owner.writer.commit(Commit(events=[StatusPayload(status="waiting")], release=release)))


def paused(harness: JournalHarness, run_id: str) -> None:
    owner = streaming(harness, run_id)
    control(harness.database, ME, run_id, PAUSE, "ann")
    (request,) = harness.unread(run_id)
    harness.do(owner.writer.commit(Commit(events=[request.answer("consumed")], release=PAUSED)))


STATES: dict[str, Callable[[JournalHarness, str], Owner | None]] = {
    "queued": lambda harness, run_id: None,
    "streaming": streaming,
    "in a tool": in_a_tool,
    "waiting": waiting,
    "paused": paused,
}
ANSWERED = {
    "enqueue": ["Behind", "New"],
    "reject": ["Behind"],
    "interrupt": ["New", "Behind"],
    "rollback": ["New", "Behind"],
    "merge": ["Behind\n\nNew"],
}
"""What is answered after the first message."""
STEERED = {
    "queued": ["New", "Behind"],
    "paused": ["New", "Behind"],
    # The run fails before its model gets the text, which then is a turn in the place in which it arrived.
    "streaming": ["Behind", "New"],
    "in a tool": ["Behind", "New"],
    "waiting": ["Behind", "New"],
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("policy", [*ANSWERED, "steer"])
def test_each_policy_in_each_state_answers_every_message_once_and_in_order(
    harness: JournalHarness, policy: str, state: str
) -> None:
    first = send(harness, "First").run_id
    owner = STATES[state](harness, first)
    behind = send(harness, "Behind").run_id

    taker = send_new(harness, policy, first)
    if owner is not None:
        end(harness, owner, is_in_tool=state == "in a tool")
    answered = play(harness)

    assert [text for text in answered if text != "First"] == ANSWERED.get(policy, STEERED[state])
    assert ("First" in texts_for(harness, behind)) is (policy != "rollback")
    assert taker == {"merge": behind, "steer": first}.get(policy)


def send_new(harness: JournalHarness, policy: str, first: str) -> str | None:
    """Send a message with this policy, and return the run that took it, where it is not its own."""
    if policy == "reject":
        with raises(THREAD_BUSY, match=first):
            send(harness, "New", policy)
        return None
    new = send(harness, "New", policy)
    return None if new.is_new else new.run_id


def play(harness: JournalHarness) -> list[str]:
    """Execute what the thread has, one run at a time, and return the texts in the order in which models got them."""
    answered: list[str] = []
    while open_ids := [row.id for row in harness.rows(select(runs.c.id).where(runs.c.ended_ms.is_(None)))]:
        claimable = harness.claimable()
        assert len(claimable) <= 1, "a thread does one thing at a time"
        for run_id in claimable:
            owner = harness.own(run_id)
            steers = [request for request in harness.unread(run_id) if request.kind == "steer"]
            answered += [texts_for(harness, run_id)[-1], *(request.content for request in steers)]
            harness.do(owner.writer.commit(Commit(events=[request.answer("consumed") for request in steers])))
            harness.do(owner.end())
            assert_whole(harness.lines(run_id))
        if not claimable:
            leave(harness, open_ids)
    return answered


def leave(harness: JournalHarness, run_ids: list[str]) -> None:
    """Resume the paused run; a question is not answered, so its run expires."""
    for run_id in run_ids:
        if harness.run_row(run_id).reason == "paused":
            control(harness.database, ME, run_id, RESUME, "ann")
        elif harness.run_row(run_id).status == "waiting":
            fire_timers(harness.database, run_id)


@pytest.mark.parametrize(("state", "is_before"), [(streaming, "message"), (in_a_tool, "tool_result")])
def test_a_steer_is_consumed_at_the_end_of_the_step_and_its_event_says_where(
    harness: JournalHarness, state: Callable[[JournalHarness, str], Owner], is_before: str
) -> None:
    first = send(harness, "First").run_id
    owner = state(harness, first)
    behind = send(harness, "Behind").run_id
    assert send(harness, "New", "steer").run_id == first

    harness.do(owner.writer.commit(boundary(harness, first)))
    harness.do(owner.end())

    lines = harness.lines(first)
    assert [line.type for line in lines][-3:] == [is_before, "control", "end"]
    assert orjson.loads(lines[-2].data)["consumed_at"] == lines[-2].seq
    assert list(breaches(harness.record(first))) == []
    assert texts_for(harness, behind) == ["First", "New", "Behind"]
    assert harness.claimable() == [behind]


def boundary(harness: JournalHarness, run_id: str) -> Commit:
    """Return what an owner commits at the end of a step: the result of the open call, and the texts for its model."""
    ended = [StepEnded(id=row.id, status="done") for row in harness.rows(select(steps).where(steps.c.run_id == run_id))]
    its: dict[str, Any] = {"call_id": "call_1", "name": "pay", "outcome": "done", "result": "paid"}
    results = [ToolResultPayload(**its, step_id=step.id) for step in ended]
    items = [HistoryItem(id="msg_paid", role="tool", data=its) for _ in ended]
    unread = harness.unread(run_id)
    texts = [{"content": each.content, "control_id": each.control_id} for each in unread]
    items += [HistoryItem(id=new_id("msg"), role="user", data=data) for data in texts]
    return Commit(events=[*results, *(each.answer("consumed") for each in unread)], ended=ended, history=items)


def test_messages_are_edited_moved_and_removed_while_they_wait(harness: JournalHarness) -> None:
    owner = harness.own(send(harness, "First").run_id)
    second, third, fourth = (send(harness, text).run_id for text in ("Second", "Third", "Fourth"))

    queue.edit(harness.database, ME, "talk", second, "ann", content="Second, better")
    queue.edit(harness.database, ME, "talk", fourth, "ann", place="first")
    queue.remove(harness.database, ME, "talk", third, "ann")

    assert titles(harness) == ["Fourth", "Second, better"]
    assert harness.run_row(third).status == "cancelled"
    assert harness.run_row(second).title == "Second, better"
    harness.do(owner.end())
    play(harness)
    assert texts_for(harness, second) == ["First", "Fourth", "Second, better"]


def test_what_a_message_is_put_before_keeps_its_order_and_the_message_is_announced(harness: JournalHarness) -> None:
    head = send(harness, "First").run_id
    send(harness, "Second")
    send(harness, "Third", "steer")
    fourth = send(harness, "Fourth").run_id

    queue.edit(harness.database, ME, "talk", fourth, "ann", place="first")
    assert titles(harness) == ["Fourth", "First", "Second", "Third"]
    _, stopped = queue.edit(harness.database, ME, "talk", head, "ann", place="first")

    assert stopped is None
    assert titles(harness) == ["First", "Fourth", "Second", "Third"]
    assert harness.rows(select(outbox.c.run_id).order_by(outbox.c.id))[-1].run_id == head
    harness.do(harness.own(head).end("failed"))
    rows = harness.rows(select(runs.c.title).order_by(runs.c.turn))
    assert [row.title for row in rows] == ["First", "Fourth", "Second", "Third"]


@pytest.mark.parametrize("policy", ["interrupt", "rollback"])
def test_a_message_that_is_stopped_before_it_begins_stays_before_the_new_one(
    harness: JournalHarness, policy: str
) -> None:
    send(harness, "First")
    new = send(harness, "New", policy).run_id

    assert [row.title for row in harness.rows(select(runs.c.title).order_by(runs.c.turn))] == ["First", "New"]
    assert texts_for(harness, new) == (["First", "New"] if policy == "interrupt" else ["New"])


def test_send_now_stops_the_run_that_the_thread_is_at(harness: JournalHarness) -> None:
    owner = harness.own(send(harness, "First").run_id)
    send(harness, "Second")
    third = send(harness, "Third").run_id

    queue.edit(harness.database, ME, "talk", third, "ann", place="now")
    harness.do(owner.end("cancelled"))

    assert harness.claimable() == [third]


def test_texts_are_merged_up_to_a_length(harness: JournalHarness) -> None:
    harness.own(send(harness, "First").run_id)
    large = "x" * (queue.MAX_MERGED_CHARS // 2)
    send(harness, large)

    merged, waits = send(harness, large[:-2], "merge"), send(harness, "!", "merge")

    assert (merged.is_new, waits.is_new) == (False, True)
    assert [len(text) for text in titles(harness)] == [queue.MAX_MERGED_CHARS, 1]


def test_a_message_whose_run_has_begun_is_not_edited(harness: JournalHarness) -> None:
    run_id = send(harness, "First").run_id
    harness.own(run_id)

    for change in (
        lambda: queue.edit(harness.database, ME, "talk", run_id, "ann", content="Other"),
        lambda: queue.remove(harness.database, ME, "talk", run_id, "ann"),
        lambda: queue.edit(harness.database, ME, "talk", run_id, "ann", place="first"),
    ):
        with raises(MESSAGE_TAKEN, match="the run is running; steer the run, or send another"):
            change()
    assert texts_for(harness, run_id) == ["First"]


def test_a_message_that_cannot_be_moved_keeps_its_text(harness: JournalHarness) -> None:
    harness.own(send(harness, "First", agent_id="other").run_id)
    second = send(harness, "Second", agent_id="tester").run_id
    narrow = Principal(agents=frozenset({"tester"}))

    with pytest.raises(RunUnknown):  # the run that it would stop
        queue.edit(harness.database, narrow, "talk", second, "ann", content="Other", place="now")
    assert titles(harness) == ["Second"]

    queue.edit(harness.database, narrow, "talk", second, "ann", content="Other", place="first")
    assert titles(harness) == ["Other"]


def test_a_message_of_another_thread_or_principal_is_unknown(harness: JournalHarness) -> None:
    run_id = send(harness, "First").run_id
    with pytest.raises(RunUnknown):
        queue.edit(harness.database, ME, "elsewhere", run_id, "ann", content="Other")
    with pytest.raises(RunUnknown):
        queue.edit(harness.database, Principal(id="eve"), "talk", run_id, "ann", content="Other")
    with pytest.raises(ThreadUnknown):
        queue.listed(harness.database, Principal(id="eve"), "talk")


@pytest.mark.parametrize(("policy", "delivered"), [("merge", "merged"), ("steer", "steered"), ("enqueue", "run")])
def test_a_repeated_message_was_delivered_as_the_first_one(
    harness: JournalHarness, policy: str, delivered: str
) -> None:
    send(harness, "First")
    key = IdempotencyKey(key="k", method="POST", path="/v1/runs", body_digest="d")

    first, again = (send(harness, "Second", policy, idempotency=key) for _ in range(2))
    send(harness, "Third", policy)
    later = send(harness, "Second", policy, idempotency=key)

    assert first.delivery.delivered == delivered
    for repeated in (again, later):
        assert replace(repeated.delivery, stopped=None) == replace(first.delivery, stopped=None)
        assert (repeated.run_id, repeated.thread_id, repeated.is_new) == (first.run_id, "talk", False)


@pytest.mark.parametrize("on_waiting", ["aside", "withdraw"])
def test_a_thread_is_not_held_by_a_question(harness: JournalHarness, on_waiting: str) -> None:
    first = send(harness, "First", on_waiting=on_waiting).run_id
    waiting(harness, first)

    second = send(harness, "Second").run_id
    assert harness.claimable() == [second]
    assert texts_for(harness, second) == (["Second"] if on_waiting == "aside" else ["First", "Second"])
    owner = harness.own(second)
    if on_waiting == "aside":
        leave(harness, [first])  # it comes back to its question's end while the other one is answered
    harness.do(owner.end())

    assert harness.run_row(first).status == ("failed" if on_waiting == "aside" else "cancelled")


def test_a_request_that_says_reject_leaves_the_question_and_one_of_an_agent_that_says_so_takes_it_back(
    harness: JournalHarness,
) -> None:
    first = send(harness, "First", on_waiting="withdraw").run_id
    waiting(harness, first)

    with raises(THREAD_BUSY, match=first):
        send(harness, "Second", "reject", agent_if_busy="reject")
    assert harness.run_row(first).status == "waiting"
    assert send(harness, "Third", None, agent_if_busy="reject").is_new
    assert harness.run_row(first).status == "cancelled"


def test_a_run_that_waited_aside_does_not_begin_beside_the_one_that_is_answered_meanwhile(
    harness: JournalHarness,
) -> None:
    first = send(harness, "First", on_waiting="aside").run_id
    waiting(harness, first)
    owner = harness.own(send(harness, "Second").run_id)
    (open_question,) = harness.rows(select(approvals.c.id))
    decide(harness.database, ME, first, open_question.id, Decision(decision="run_again"), by="ann")

    assert harness.run_row(first).status == "queued"
    assert harness.claimable() == []
    assert harness.claim(first, "own_2") is None
    harness.do(owner.end())
    assert harness.claimable() == [first]


def test_a_question_is_withdrawn_where_a_message_waits_already(harness: JournalHarness) -> None:
    first = send(harness, "First", on_waiting="withdraw").run_id
    owner = harness.own(first)
    send(harness, "Second")
    release = Release(status="waiting", reason=Reason.APPROVAL, questions=(question(),))

    harness.do(owner.writer.commit(Commit(events=[StatusPayload(status="waiting")], release=release)))

    assert harness.run_row(first).status == "queued"
    assert harness.own(first).lease.stop_requested


@pytest.mark.parity
def test_put_first_takes_as_many_statements_however_many_messages_wait(small_harness: JournalHarness) -> None:
    harness, counts = small_harness, list[int]()
    owner = harness.own(send(harness, "First").run_id)
    for size in (3, 300):
        last = [send(harness, f"text {number} of {size}").run_id for number in range(size)][-1]
        counts.append(0)

        @event.listens_for(harness.database.engine, "before_cursor_execute")
        def note(*_: Any) -> None:
            counts[-1] += 1

        queue.edit(harness.database, ME, "talk", last, "ann", place="first")
        event.remove(harness.database.engine, "before_cursor_execute", note)
    harness.do(owner.end())

    assert counts[0] == counts[1] < 25
    assert titles(harness)[:4] == ["text 299 of 300", "text 2 of 3", "text 0 of 3", "text 1 of 3"]
    assert harness.claimable() == [last]


def test_put_first_keeps_the_order_of_messages_whose_runs_were_removed(harness: JournalHarness) -> None:
    owner = harness.own(send(harness, "First").run_id)
    _, third, fourth = (send(harness, text).run_id for text in ("Second", "Third", "Fourth"))
    queue.remove(harness.database, ME, "talk", third, "ann")
    remove_runs(harness.database, ME, [third])

    queue.edit(harness.database, ME, "talk", fourth, "ann", place="first")

    rows = harness.rows(select(messages).order_by(messages.c.turn, messages.c.number))
    contents = [orjson.loads(row.data_json)["content"] for row in rows if row.role == "user"]
    assert contents == ["First", "Fourth", "Second", "Third"]
    assert len({row.turn for row in rows if row.role == "user"}) == 4
    harness.do(owner.end())
    assert harness.claimable() == [fourth]


def test_a_steer_that_waits_is_listed_in_the_order_of_arrival(harness: JournalHarness) -> None:
    owner = harness.own(send(harness, "First").run_id)
    send(harness, "Second")
    send(harness, "Third", "steer")
    send(harness, "Fourth")

    kinds = [(entry["kind"], entry["content"]) for entry in queue.listed(harness.database, ME, "talk")[0]]

    assert kinds == [("message", "Second"), ("steer", "Third"), ("message", "Fourth")]
    (row,) = harness.rows(select(controls))
    assert orjson.loads(row.data_json) == {"content": "Third", "checked_by": new_run().definition_digest}
    assert request_of(row).run_id == owner.lease.run_id


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 500])
def test_pages_of_what_waits_join_in_the_order_of_arrival(harness: JournalHarness, limit: int) -> None:
    harness.own(send(harness, "Open").run_id)
    for number in range(8):
        send(harness, f"text {number}", "steer" if number in (0, 3, 4, 7) else "enqueue")
    contents, sizes = list[str](), list[int]()
    after: int | None = 0
    while after is not None:
        page, after = queue.listed(harness.database, ME, "talk", after=after, limit=limit)
        contents += [entry["content"] for entry in page]
        sizes.append(len(page))

    assert contents == [f"text {number}" for number in range(8)]
    assert sizes == [limit] * (8 // limit) + [8 % limit] * (8 % limit > 0)


def test_a_page_of_what_waits_ends_at_a_megabyte_before_later_steers(harness: JournalHarness) -> None:
    harness.own(send(harness, "Open").run_id)
    for number in range(9):
        send(harness, str(number) * 190_000, "steer" if number in (2, 8) else "enqueue")
    firsts = list[str]()
    after: int | None = 0
    while after is not None:
        page, after = queue.listed(harness.database, ME, "talk", after=after)
        firsts.append("".join(entry["content"][0] for entry in page))

    assert firsts == ["0123456", "78"]


def test_the_run_that_a_thread_is_at_is_found_without_reading_all_that_waits(harness: JournalHarness) -> None:
    its = {"tenant_": ME.tenant, "principal_": ME.id, "id_": "talk"}
    send(harness, "Open")

    with harness.database.write() as connection:  # a transaction, for SET LOCAL
        if not harness.database.is_sqlite:
            for name in ("enable_seqscan", "enable_sort", "enable_incremental_sort"):  # as where the table is large
                connection.execute(text(f"SET LOCAL {name} = off"))
        query = busy._HEAD.params(its).compile(connection, compile_kwargs={"literal_binds": True})
        explain = "EXPLAIN QUERY PLAN" if harness.database.is_sqlite else "EXPLAIN"
        plan = [str(row) for row in connection.exec_driver_sql(f"{explain} {query}")]

    assert plan
    assert not any("Sort" in line or "TEMP B-TREE" in line for line in plan), plan


@pytest.mark.parametrize("narrower", [{"agents": frozenset({"assistant"})}, {"roles": frozenset()}])
def test_a_text_becomes_part_of_no_message_with_other_rights(harness: JournalHarness, narrower: dict[str, Any]) -> None:
    admin = Principal(id="ann", roles=frozenset({Role.ADMIN}))
    harness.own(send(harness, "First", principal=admin).run_id)
    second = send(harness, "Second", principal=admin).run_id
    same = send(harness, "more", "merge", principal=admin)

    other = send(harness, "other", "merge", principal=replace(admin, **narrower))

    assert (same.run_id, same.delivery.delivered) == (second, "merged")
    assert (other.run_id != second, other.delivery.delivered) == (True, "run")
    (entry,) = harness.rows(select(audit).where(audit.c.action == "run.controlled"))
    assert (entry.target_id, orjson.loads(entry.facts_json)["verb"]) == (second, "merge")
