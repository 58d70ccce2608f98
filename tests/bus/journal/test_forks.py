"""A fork of a thread: copies of its first messages, with its labels, and no call without its result."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert, update

from bus.identity.errors import FORBIDDEN
from bus.journal.errors import ThreadUnknown
from bus.journal.forks.errors import MESSAGE_UNKNOWN, THREAD_EXISTS
from bus.journal.forks.fork import Fork, fork_before, fork_thread
from bus.journal.log.commit import Commit
from bus.journal.queries.threads import Threads
from bus.journal.records.threads import HistoryItem
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.payloads import EndPayload, StatusPayload
from config.database.tables import messages, threads
from config.identity.principal import Principal, Role, Verb
from config.ids import new_id
from tests.bus.journal_harness import JournalHarness
from tests.bus.questions import question
from tests.raising import raises

ANA = Principal(tenant="acme", id="ana")
READ = frozenset({"untrusted", "from:http_get"})


def item(role: str, **data: Any) -> HistoryItem:
    return HistoryItem(id=new_id("msg"), role=role, data=data)


def asked(*call_ids: str) -> HistoryItem:
    calls = [{"call_id": id_, "name": "pay", "arguments": {}, "arguments_text": "{}"} for id_ in call_ids]
    return item("assistant", content="", tool_calls=calls)


def answered(call_id: str) -> HistoryItem:
    return item("tool", call_id=call_id, name="pay", outcome="done", result="paid")


@pytest.fixture
def talk(harness: JournalHarness) -> JournalHarness:
    """A thread ``talk``: 1 a question, 2 two calls, 3 and 4 their results, 5 the answer."""
    owner = harness.own(harness.accept("Pay both", principal=ANA, thread_id="talk").run_id)
    messages_ = [asked("c1", "c2"), answered("c2"), answered("c1"), item("assistant", content="Both are paid.")]
    harness.do(owner.writer.commit(Commit(history=messages_, labels=READ, events=[EndPayload(status="succeeded")])))
    return harness


def fork(harness: JournalHarness, number: int, **options: Any) -> Fork:
    return fork_thread(harness.database, ANA, "talk", number, **options)


def said(harness: JournalHarness, thread_id: str) -> list[tuple[int, str]]:
    return [(row["number"], row["role"]) for row in Threads(harness.database).messages(ANA, thread_id)]


@pytest.mark.parametrize(("number", "kept"), [(1, 1), (2, 1), (3, 1), (4, 4), (5, 5)])
def test_a_fork_ends_with_the_message_that_is_named_or_before_a_call_without_its_result(
    talk: JournalHarness, number: int, kept: int
) -> None:
    branch = fork(talk, number)

    assert (branch.forked_from, branch.at, branch.messages) == ("talk", kept, kept)
    assert said(talk, branch.thread_id) == said(talk, "talk")[:kept]
    assert len(said(talk, "talk")) == 5


def test_a_fork_keeps_the_labels_and_the_privacy_of_the_whole_thread(talk: JournalHarness) -> None:
    with talk.database.write() as connection:
        connection.execute(update(threads).values(private=True))

    branch = fork(talk, 1)

    run_id = talk.accept("Again", principal=ANA, thread_id=branch.thread_id).run_id
    assert talk.own(run_id).lease.labels == READ
    assert talk.run_row(run_id).private


def test_the_first_run_of_a_fork_says_so_and_no_later_one(talk: JournalHarness) -> None:
    branch = fork(talk, 4)
    first, second = (talk.accept("On", principal=ANA, thread_id=branch.thread_id).run_id for _ in range(2))

    talk.do(talk.own(first).end())
    talk.own(second)

    assert talk.kinds(first) == ["status", "history", "status", "end"]
    assert talk.record(first).events[1] | {"at": ""} == {
        "seq": 2,
        "run_id": first,
        "thread_id": branch.thread_id,
        "type": "history",
        "at": "",
        "kind": "forked",
        "from_seq": 1,
        "to_seq": 4,
    }
    assert "history" not in talk.kinds(second)
    assert [number for number, _ in said(talk, branch.thread_id)] == [1, 2, 3, 4, 5, 6]


def test_a_fork_of_an_unfinished_first_call_has_no_message(harness: JournalHarness) -> None:
    owner = harness.own(harness.accept("Pay", principal=ANA, thread_id="talk").run_id)
    with harness.database.write() as connection:
        calls = '{"content":"pay()","tool_calls":[{"call_id":"c1","name":"pay","arguments":{},"arguments_text":"{}"}]}'
        connection.execute(update(messages).values(data_json=calls))

    branch = fork(harness, 1)

    assert (branch.at, branch.messages, said(harness, branch.thread_id)) == (0, 0, [])
    run_id = harness.accept("On", principal=ANA, thread_id=branch.thread_id).run_id
    harness.own(run_id)
    assert harness.kinds(run_id) == ["status", "history", "status"]
    assert owner.lease.thread_id == "talk"


def aside(harness: JournalHarness) -> str:
    """Return the run of turn 1 of a new thread ``talk``, which waits with a call in message 2, aside of turn 3."""
    waiting = harness.accept("Pay", principal=ANA, thread_id="talk", on_waiting="aside").run_id
    owner = harness.own(waiting)
    release = Release(status="waiting", reason=Reason.APPROVAL, questions=(question(),))
    status = StatusPayload(status="waiting")
    harness.do(owner.writer.commit(Commit(history=[asked("c1")], events=[status], release=release)))
    other = harness.own(harness.accept("Hello", principal=ANA, thread_id="talk").run_id, "own_2")
    end = EndPayload(status="succeeded")
    harness.do(other.writer.commit(Commit(history=[item("assistant", content="Hi.")], events=[end])))
    return waiting


def test_a_fork_has_nothing_of_a_run_that_waits_aside(harness: JournalHarness) -> None:
    waiting = aside(harness)
    harness.accept("On", principal=ANA, thread_id="talk")
    harness.accept("And on", principal=ANA, thread_id="talk")

    answer, own, queued = (fork(harness, number) for number in (4, 2, 6))

    assert harness.run_row(waiting).status == "waiting"
    assert said(harness, answer.thread_id) == [(3, "user"), (4, "assistant")]
    assert (answer.at, answer.messages) == (4, 2)
    assert said(harness, own.thread_id) == [(1, "user")]
    assert said(harness, queued.thread_id) == [(3, "user"), (4, "assistant"), (5, "user"), (6, "user")]


def test_a_fork_of_a_fork_has_what_the_first_one_has(harness: JournalHarness) -> None:
    aside(harness)
    branch = fork(harness, 1)

    again = fork_thread(harness.database, ANA, branch.thread_id, 1)

    assert said(harness, again.thread_id) == [(1, "user")]


def test_a_rerun_has_nothing_of_a_run_that_waits_aside(harness: JournalHarness) -> None:
    aside(harness)

    with harness.database.write() as connection:
        branch = fork_before(connection, ANA, "talk", 5, "assistant", None)

    assert said(harness, branch) == [(3, "user"), (4, "assistant")]


def test_bad_forks_are_refused_with_the_remedy(talk: JournalHarness) -> None:
    talk.accept(principal=ANA, thread_id="taken")

    with raises(
        MESSAGE_UNKNOWN, match="no message 6; .* numbers from 1 to 5, which `./callboard threads talk --json` and"
    ):
        fork(talk, 6)
    with raises(THREAD_EXISTS, match="'taken' already; choose another name"):
        fork(talk, 5, new_thread_id="taken")
    with pytest.raises(ThreadUnknown):
        fork(talk, 5, new_thread_id=new_id("thr"))
    assert {thread["thread_id"] for thread in Threads(talk.database).newest(ANA)} == {"talk", "taken"}


@pytest.mark.parametrize(
    "principal",
    [
        Principal(tenant="acme", id="ben"),
        Principal(tenant="zeta", id="ana"),
        Principal(tenant="acme", id="root", roles=frozenset(Role)),
        Principal(tenant="acme", id="ana", agents=frozenset({"other"})),
    ],
)
def test_only_who_may_continue_a_thread_forks_it(talk: JournalHarness, principal: Principal) -> None:
    with pytest.raises(ThreadUnknown):
        fork_thread(talk.database, principal, "talk", 1)


def test_a_credential_that_starts_nothing_forks_nothing(talk: JournalHarness) -> None:
    with raises(FORBIDDEN, match="use a credential whose scope has the verb 'start'"):
        fork_thread(talk.database, Principal(tenant="acme", id="ana", verbs=frozenset({Verb.CONTROL})), "talk", 1)


def test_a_fork_of_ten_thousand_messages_is_a_few_statements(talk: JournalHarness) -> None:
    with talk.database.write() as connection:
        row = {"thread_key": 0, "run_id": "run_1", "role": "user", "partial": False, "created_ms": 1}
        (key,) = connection.execute(threads.select()).scalars().all()
        many = [
            row | {"thread_key": key, "number": n, "turn": n, "id": f"msg_{n}", "data_json": '{"content":"x"}'}
            for n in range(6, 10_001)
        ]
        connection.execute(insert(messages), many)

    branch = fork(talk, 10_000)

    assert (branch.at, branch.messages) == (10_000, 10_000)
