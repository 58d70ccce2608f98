"""A start is answered only after everything of it is committed; asked twice with one key, it is one run."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy import event, func, select
from sqlalchemy.exc import IntegrityError

from bus.journal.errors import IDEMPOTENCY_CONFLICT, ThreadUnknown
from bus.journal.idempotency import IdempotencyKey
from config.database.tables import events, idempotency_keys, messages, outbox, runs, threads
from config.errors import BadRequest
from config.identity.principal import Principal
from config.ids import canonical_digest, new_id
from tests.bus.journal_harness import JournalHarness
from tests.bus.racing import at_once
from tests.raising import raises


def key(body: Any = "Hello", name: str = "key-1", path: str = "/v1/runs") -> IdempotencyKey:
    return IdempotencyKey(key=name, method="POST", path=path, body_digest=canonical_digest(body))


@pytest.mark.parametrize("name", ["sk-live-0123456789abcdef0123456789", "a\u202eb"])
def test_a_key_with_a_secret_or_a_hidden_character_is_refused(name: str):
    with pytest.raises(BadRequest, match=r"^the Idempotency-Key has (an API key|the hidden character)"):
        key(name=name)


def counts(harness: JournalHarness) -> dict[str, int]:
    tables = (threads, runs, messages, events, outbox, idempotency_keys)
    return {table.name: harness.rows(select(func.count()).select_from(table))[0][0] for table in tables}


def test_everything_of_a_start_is_one_commit(harness: JournalHarness):
    commits: list[Any] = []
    event.listen(harness.database.engine, "commit", listener := commits.append)

    accepted = harness.accept("What is 17 * 23?", idempotency=key(), metadata={"a": 1}, detached=True)
    event.remove(harness.database.engine, "commit", listener)

    assert len(commits) == 1
    assert set(counts(harness).values()) == {1}
    row = harness.run_row(accepted.run_id)
    assert (row.status, row.fence, row.reserved_to, row.turn, row.detached) == ("queued", 0, 1, 1, True)
    assert (row.owner, row.lease_until, row.stop_requested) == (None, None, False)
    assert orjson.loads(row.metadata_json) == {"a": 1}


def test_the_first_event_says_that_the_run_waits(harness: JournalHarness):
    accepted = harness.accept()

    (line,) = harness.lines(accepted.run_id)
    first = orjson.loads(line.data)
    assert (line.seq, first["type"], first["status"], first["agent"]) == (1, "status", "queued", "assistant")
    assert first["thread_id"] == accepted.thread_id


def test_the_users_words_are_the_threads_first_message(harness: JournalHarness):
    accepted = harness.accept("Größe 🎈\nsecond line")

    (row,) = harness.rows(select(messages))
    assert (row.number, row.turn, row.role, row.run_id) == (1, 1, "user", accepted.run_id)
    assert orjson.loads(row.data_json) == {"content": "Größe 🎈\nsecond line"}


def test_an_inline_run_has_no_outbox_row(harness: JournalHarness):
    assert harness.accept_inline().outbox_row is None

    assert counts(harness)["outbox"] == 0


def test_a_failure_in_the_middle_leaves_nothing(small_harness: JournalHarness):
    with pytest.raises(IntegrityError):
        small_harness.accept(agent_name=None)

    assert set(counts(small_harness).values()) == {0}


def test_the_same_key_and_body_are_the_same_run(harness: JournalHarness):
    first = harness.accept(idempotency=key())
    again = harness.accept(idempotency=key())

    assert first.is_new
    assert not again.is_new
    assert (again.run_id, again.thread_id) == (first.run_id, first.thread_id)
    assert set(counts(harness).values()) == {1}


def test_the_same_key_with_another_body_is_refused(harness: JournalHarness):
    harness.accept(idempotency=key("one"))

    with raises(IDEMPOTENCY_CONFLICT):
        harness.accept(idempotency=key("two"))

    assert counts(harness)["runs"] == 1


@pytest.mark.parametrize(
    "other",
    [
        {"principal": Principal(tenant="b")},
        {"principal": Principal(id="b")},
        {"principal": Principal(tenant="b"), "idempotency": key("another body")},  # no conflict tells of the first
        {"principal": Principal(id="b"), "idempotency": key("another body")},
        {"idempotency": key(path="/v1/agent/run")},
    ],
)
def test_a_key_counts_for_one_tenant_principal_and_path(harness: JournalHarness, other: dict[str, Any]):
    first = harness.accept(idempotency=key())

    second = harness.accept(**({"idempotency": key()} | other))

    assert second.is_new
    assert second.run_id != first.run_id


def test_one_key_used_at_the_same_moment_is_one_run(harness: JournalHarness):
    acceptances = at_once(8, lambda _: harness.accept(idempotency=key()))

    assert len({accepted.run_id for accepted in acceptances}) == 1
    assert sum(accepted.is_new for accepted in acceptances) == 1
    assert set(counts(harness).values()) == {1}


def test_a_new_thread_named_by_many_at_once_is_one_thread(harness: JournalHarness):
    acceptances = at_once(8, lambda i: harness.accept(thread_id="mine", idempotency=key(name=f"key-{i % 4}")))

    assert {accepted.thread_id for accepted in acceptances} == {"mine"}
    assert counts(harness) | {"threads": 1, "runs": 4, "messages": 4} == counts(harness)
    assert sorted(row.turn for row in harness.rows(select(runs.c.turn))) == [1, 2, 3, 4]


def test_each_run_of_a_thread_has_its_turn(harness: JournalHarness):
    first = harness.accept(thread_id="mine")
    second = harness.accept(thread_id="mine")

    assert (harness.run_row(first.run_id).turn, harness.run_row(second.run_id).turn) == (1, 2)
    assert harness.rows(select(threads.c.next_message))[0][0] == 3


def test_a_thread_id_is_its_owners_own(harness: JournalHarness):
    for principal in (Principal(), Principal(id="other"), Principal(tenant="other")):
        harness.accept(thread_id="mine", principal=principal)

    assert counts(harness)["threads"] == 3
    assert {row.turn for row in harness.rows(select(runs.c.turn))} == {1}


def test_a_race_that_cannot_be_won_is_not_tried_for_ever(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    tries = []

    def lose(*_: Any) -> None:
        tries.append(1)
        raise IntegrityError("", {}, Exception())

    monkeypatch.setattr(small_harness.database, "write", lose)

    with pytest.raises(IntegrityError):
        small_harness.accept()
    assert len(tries) == 3


def test_an_id_that_callboard_made_has_to_be_a_thread_of_the_principal(harness: JournalHarness) -> None:
    own_thread_id = harness.accept().thread_id

    again = harness.accept(thread_id=own_thread_id)
    for thread_id, principal in [(new_id("thr"), Principal()), (own_thread_id, Principal(id="ben"))]:
        with pytest.raises(ThreadUnknown):
            harness.accept(thread_id=thread_id, principal=principal)

    assert again.thread_id == own_thread_id
    assert harness.accept(thread_id="thr_mine").thread_id == "thr_mine"
