"""How long workers worked on a run: the sum of what each owner knows at its last commit, without the waits between."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from bus.journal.log.commit import Commit
from bus.journal.run_end import fail_owned
from bus.journal.states.codes import Reason
from bus.journal.states.release import DRAINED, Release
from bus.payloads import EndPayload
from config.database.tables import runs
from config.errors import CallboardError
from config.identity.principal import LOCAL
from tests.bus.journal_harness import JournalHarness, Owner, cancel, lose_owner

SLACK_MS = 900


def work_for(owner: Owner, seconds: float) -> None:
    """Let the owner have had its run for so long."""
    owner.writer.claimed_s -= seconds


def about(expected_ms: int, found_ms: int | None) -> bool:
    assert found_ms is not None
    return expected_ms <= found_ms < expected_ms + SLACK_MS


@pytest.mark.parametrize("change", [DRAINED, Release(status="queued", reason=Reason.ANSWERED)])
def test_the_next_owner_continues_the_time_of_one_that_released_the_run(harness: JournalHarness, change: Release):
    first = harness.own()
    assert first.lease.work_ms == 0
    work_for(first, 5)
    harness.do(first.writer.commit(Commit(release=change)))

    second = harness.own(first.lease.run_id, "own_2")
    work_for(second, 2)
    harness.do(second.message())

    assert about(5000, second.lease.work_ms)
    assert about(7000, harness.run_row(first.lease.run_id).work_ms)


def test_a_lost_owners_time_counts_up_to_its_last_commit(harness: JournalHarness):
    first = harness.own()
    work_for(first, 5)
    harness.do(first.message())
    work_for(first, 3600)
    lose_owner(harness.database, first.lease.run_id)

    assert about(5000, harness.own(first.lease.run_id, "own_2").lease.work_ms)


def test_a_run_that_ends_without_an_owner_keeps_its_time(harness: JournalHarness):
    owner = harness.own()
    work_for(owner, 5)
    harness.do(owner.writer.commit(Commit(release=DRAINED)))

    end = cancel(harness.database, LOCAL, owner.lease.run_id, "ann").events[-1]

    assert isinstance(end, EndPayload)
    assert about(5000, end.work_ms)
    assert about(5000, harness.run_row(owner.lease.run_id).work_ms)


def test_an_end_that_is_built_from_sql_has_the_time_too(harness: JournalHarness):
    owner = harness.own()
    work_for(owner, 5)
    harness.do(owner.message())

    error = CallboardError("no way on")
    end = fail_owned(harness.database, owner.lease.run_id, owner.lease.fence, error).events[-1]

    assert isinstance(end, EndPayload)
    assert about(5000, end.work_ms)


def test_the_time_of_a_run_that_an_earlier_release_began_is_unknown(harness: JournalHarness):
    run_id = harness.accept().run_id
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(work_ms=None))
    owner = harness.own(run_id)
    work_for(owner, 5)
    harness.do(owner.message())

    assert owner.lease.work_ms is None
    assert owner.lease.work_ms_of_all(owner.writer.claimed_s) is None
    assert harness.run_row(run_id).work_ms is None
