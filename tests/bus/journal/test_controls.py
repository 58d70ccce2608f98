"""A verb is one row: the same request is done at once without an owner, and at the end of a step by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bus.journal.controls import Control
from bus.journal.log.commit import Commit
from bus.journal.ownership.lease_manager import LeaseManager
from bus.journal.ownership.leases import requests
from bus.journal.ownership.reaper import reap
from bus.journal.run_end import control
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.keys import Keys
from bus.payloads import StatusPayload, decode
from config.identity.principal import Principal
from config.settings import Settings
from tests.bus.journal_harness import HandWork, JournalHarness, cancel

ME = Principal()
LEFT = Release(status="waiting", reason=Reason.CODE_VERSION, control="leave")
LEAVE = Control(verb="leave", kind="leave", to=LEFT, request="to leave the run", help="Leave RUN.")
"""A verb of this test alone."""


def leave(harness: JournalHarness, run_id: str) -> str:
    return control(harness.database, ME, run_id, LEAVE, "ann").status


def test_without_an_owner_it_is_done_at_once_and_once(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    assert [leave(harness, run_id), leave(harness, run_id)] == ["waiting", "waiting"]

    row = harness.run_row(run_id)
    assert (row.status, row.reason, row.owner) == ("waiting", "code_version", None)
    payloads = [decode(line.data) for line in harness.lines(run_id)]
    assert [payload.status for payload in payloads if isinstance(payload, StatusPayload)] == ["queued", "waiting"]


def test_an_owner_is_asked_once_and_the_next_one_no_more(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id

    assert [leave(harness, run_id), leave(harness, run_id)] == ["running", "running"]
    assert requests(harness.database, "own_1") == [(run_id, "leave")]
    harness.do(owner.writer.commit(Commit(release=LEFT)))

    assert harness.run_row(run_id).status == "waiting"
    control(harness.database, ME, run_id, BACK, "ann")
    harness.own(run_id)
    assert requests(harness.database, "own_1") == []


BACK = Control(
    verb="back",
    kind="back",
    to=Release(status="queued", reason=Reason.CODE_VERSION),
    request="to continue",
    help="Continue RUN.",
    before="waiting",
)


def test_the_request_outlives_an_owner_that_is_lost(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    leave(harness, run_id)
    harness.expire_lease(run_id)
    reap(harness.database, run_id)

    harness.own(run_id, "own_2")

    assert requests(harness.database, "own_2") == [(run_id, "leave")]


def test_a_stop_counts_for_more(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    leave(harness, run_id)
    cancel(harness.database, ME, run_id, "ann")
    harness.do(owner.writer.commit(Commit(release=LEFT)))

    assert harness.run_row(run_id).status == "queued"
    assert harness.own(run_id).lease.stop_requested


def test_a_run_that_ended_stays_as_it_is(harness: JournalHarness) -> None:
    owner = harness.own()
    harness.do(owner.end())

    assert leave(harness, owner.lease.run_id) == "succeeded"
    assert LEAVE.is_done("succeeded")


@pytest.fixture
def manager(small_harness: JournalHarness, settings: Settings) -> Iterator[LeaseManager]:
    lease_manager = LeaseManager(
        "own_1", settings, small_harness.database, small_harness.loop, small_harness.hot_log, Keys("blue"), [LEAVE]
    )
    yield lease_manager
    small_harness.loop.call_soon(lease_manager.close)


def test_a_lease_manager_passes_on_what_is_requested_and_nothing_that_it_does_not_know(
    manager: LeaseManager, small_harness: JournalHarness
) -> None:
    leaver, unknown = small_harness.own(), small_harness.own()
    leave(small_harness, leaver.lease.run_id)
    control(small_harness.database, ME, unknown.lease.run_id, BACK, "ann")
    works = HandWork(), HandWork()

    async def play() -> None:
        for owner, work in zip((leaver, unknown), works, strict=True):
            await manager.track(owner.writer, work)
        while works[0].released_as is None:
            await asyncio.sleep(0.01)

    small_harness.do(play())

    assert (works[0].released_as, works[1].released_as) == (LEFT, None)
