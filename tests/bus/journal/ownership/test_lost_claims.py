"""A claim whose commit gets no answer: where it was committed, this process works on the run, and no other does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from agents.testing import AgentKit, Turn
from bus.journal.actors import owner as owners
from bus.journal.owner import ClaimTerms
from bus.journal.ownership.leases import claim_on, confirm
from bus.payloads import StatusPayload
from config.database.errors import DatabaseUnreachable
from tests.bus.faulty_commits import Fault, FaultyCommits
from tests.bus.journal_harness import JournalHarness, new_run

LOCKED = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit() as agent_kit:
        yield agent_kit


@pytest.mark.parametrize("fault", ["reply_lost", "away"])
@pytest.mark.parametrize("questions_in_vain", [0, 2])
def test_the_run_has_one_owner_and_no_crash(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, fault: Fault, questions_in_vain: int
) -> None:
    faults, outage = [fault], [DatabaseUnreachable("gone")] * questions_in_vain

    def confirm_after(*claim: Any) -> bool:
        if outage:
            raise outage.pop()
        return confirm(*claim)

    monkeypatch.setattr(owners, "confirm", confirm_after)
    monkeypatch.setattr(owners, "CONFIRM_S", 0.001)
    database = kit.runner.journal.database
    FaultyCommits(database, monkeypatch, lambda: faults.pop() if faults else None, at="claim-before")
    kit.model.script(Turn(text="Here I am."))

    handle = kit.run()

    assert handle.result(10).status == "succeeded"
    attempts = [event.attempt for event in handle.events() if isinstance(event, StatusPayload) and event.attempt]
    assert (faults, outage, attempts) == ([], [], [1])


def test_a_claim_that_another_owner_followed_is_none(harness: JournalHarness) -> None:
    lease = harness.own().lease
    assert confirm(harness.database, lease, 60)
    harness.expire_lease(lease.run_id)
    harness.claim(lease.run_id, "own_2")

    assert not confirm(harness.database, lease, 60)


def test_a_process_that_closes_does_not_wait_for_the_answer(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, run_id = kit.runner.journal, kit.runner.journal.clients.accept(new_run()).run_id
    faults: list[Fault] = ["reply_lost"]
    FaultyCommits(journal.database, monkeypatch, lambda: faults.pop() if faults else None, at="claim-before")
    journal.owner.stop()

    with pytest.raises(DatabaseUnreachable):
        journal.owner.claim_and_begin(ClaimTerms(run_id=run_id), lambda claim: claim.lease)


@pytest.mark.postgres
def test_on_postgres_a_commit_that_is_still_under_way_is_waited_for(postgres_harness: JournalHarness) -> None:
    database, run_id = postgres_harness.database, postgres_harness.accept().run_id
    answers: list[bool] = []
    with database.write() as connection:
        lease = claim_on(connection, database, run_id, "own_1", 60)
        assert lease is not None
        asking = threading.Thread(target=lambda: answers.append(confirm(database, lease, 60)))
        asking.start()
        while connection.execute(LOCKED).scalar_one() == 0:
            assert asking.is_alive(), "it did not wait for the commit"

    asking.join(10)
    assert answers == [True]
