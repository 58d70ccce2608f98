"""Decisions and labels in the database: kept with the step, the run and its thread, and read by the next owner."""

from __future__ import annotations

import orjson
from sqlalchemy import select

from bus.journal.log.commit import Commit
from bus.journal.records.steps import StepStarted
from bus.payloads import EndPayload
from config.database.tables import runs, steps, threads
from config.policy_decision import PolicyDecision, Verdict
from tests.bus.journal_harness import JournalHarness, message_commit

READ = frozenset({"untrusted", "from:http_get"})


def test_labels_are_the_run_s_for_its_next_owner(harness: JournalHarness) -> None:
    owner = harness.own()
    harness.do(owner.writer.commit(Commit(labels=READ)))

    harness.expire_lease(owner.lease.run_id)

    assert owner.lease.labels == frozenset()
    assert harness.own(owner.lease.run_id, "own_2").lease.labels == READ
    assert harness.run_row(owner.lease.run_id).labels_json == orjson.dumps(sorted(READ)).decode()


def test_labels_are_those_of_the_next_run_of_the_thread_and_of_no_other_thread(harness: JournalHarness) -> None:
    owner = harness.own()
    queued = harness.accept(thread_id=owner.lease.thread_id).run_id
    harness.do(owner.writer.commit(Commit(labels=READ, events=[EndPayload(status="succeeded")])))

    assert harness.own(queued).lease.labels == READ
    assert harness.own(harness.accept().run_id).lease.labels == frozenset()


def test_a_run_that_is_accepted_with_labels_begins_with_them_and_so_does_its_thread(harness: JournalHarness) -> None:
    first = harness.accept(labels=READ)

    assert harness.own(first.run_id).lease.labels == READ
    assert harness.rows(select(threads.c.labels_json)) == [(orjson.dumps(sorted(READ)).decode(),)]


def test_the_labels_of_a_message_that_waits_stay_when_the_thread_s_owner_adds_its_own(harness: JournalHarness) -> None:
    owner = harness.own()
    waiting = harness.accept(thread_id=owner.lease.thread_id, labels=["untrusted"])
    later = harness.accept(thread_id=owner.lease.thread_id)

    harness.do(owner.writer.commit(Commit(labels=frozenset({"sensitive"}), events=[EndPayload(status="succeeded")])))

    assert harness.run_row(owner.lease.run_id).labels_json == '["sensitive"]'
    second = harness.own(waiting.run_id)
    assert second.lease.labels == {"sensitive", "untrusted"}
    harness.do(second.end())
    assert harness.own(later.run_id).lease.labels == {"sensitive", "untrusted"}


def test_a_commit_without_new_labels_writes_none(harness: JournalHarness) -> None:
    owner = harness.own()

    harness.do(owner.writer.commit(message_commit()))

    both = select(runs.c.labels_json, threads.c.labels_json).join(threads, threads.c.key == runs.c.thread_key)
    assert harness.rows(both) == [(None, None)]


def test_a_decision_is_a_column_of_the_step(harness: JournalHarness) -> None:
    owner = harness.own()
    decided = PolicyDecision(
        verdict=Verdict.CONSTRAIN,
        rule="at-most-ten",
        reason="Ten are enough.",
        version="v1",
        arguments={"limit": 10},
        labels=("sensitive",),
        seen=("untrusted",),
    )
    step = StepStarted(
        id="stp_1",
        kind="tool",
        name="search",
        arguments_digest="d",
        idempotency_key="k",
        effect="pure",
        decision=decided,
    )

    harness.do(owner.writer.commit(Commit(started=[step])))

    ((recorded,),) = harness.rows(select(steps.c.decision_json))
    assert orjson.loads(recorded) == {
        "verdict": "constrain",
        "rule": "at-most-ten",
        "reason": "Ten are enough.",
        "version": "v1",
        "arguments": {"limit": 10},
        "labels": ["sensitive"],
        "seen": ["untrusted"],
    }
