"""A stop against everything that may happen to a run at the same moment: one outcome, one end, a whole log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.live.hotlog import MemoryHotLog
from bus.journal.log.commit import Commit
from bus.journal.ownership.reaper import reap
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.payloads import TERMINAL, StatusPayload
from cli.crashlab.invariants import not_recovered
from config.database.engine import Database
from config.errors import CallboardError
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, Owner, cancel
from tests.bus.questions import asks, question
from tests.bus.racing import at_once

pytestmark = [pytest.mark.journey, pytest.mark.timeout(300)]

ME = Principal()
RACES = 100
"""Of each kind on SQLite; fewer on Postgres, which is a server."""
Race = Callable[[JournalHarness], tuple[str, Callable[[], Any]]]
"""Makes a run, and what happens to it at the moment of the stop."""


def finish(harness: JournalHarness) -> tuple[str, Callable[[], Any]]:
    """Its owner ends it."""
    owner = harness.own()
    return owner.lease.run_id, lambda: harness.do(owner.end())


def answer(harness: JournalHarness) -> tuple[str, Callable[[], Any]]:
    """A person answers what it asks."""
    run_id, open_question = harness.accept().run_id, question()
    asks(harness.database, run_id, open_question)
    return run_id, lambda: decide(
        harness.database, ME, run_id, open_question.id, Decision(decision="take_as_done", result=1), by="ann"
    )


def start(harness: JournalHarness) -> tuple[str, Callable[[], Any]]:
    """A worker claims it, and ends it unless it is to stop."""
    run_id = harness.accept().run_id

    def begin() -> None:
        lease = harness.claim(run_id)
        if lease is not None:
            harness.do(Owner(harness, lease).end("cancelled" if lease.stop_requested else "succeeded"))

    return run_id, begin


def crash(harness: JournalHarness) -> tuple[str, Callable[[], Any]]:
    """Its owner is gone, and a reaper finds that."""
    owner = harness.own()
    harness.expire_lease(owner.lease.run_id)
    return owner.lease.run_id, lambda: reap(harness.database, owner.lease.run_id)


def release(harness: JournalHarness) -> tuple[str, Callable[[], Any]]:
    """Its owner lets it go, since its process ends."""
    owner = harness.own()
    moved = Commit(events=[StatusPayload(status="moved")], release=Release(status="queued", reason=Reason.DRAIN))
    return owner.lease.run_id, lambda: harness.do(owner.writer.commit(moved))


def wait(harness: JournalHarness) -> tuple[str, Callable[[], Any]]:
    """Its owner lets it wait for a person."""
    owner, open_question = harness.own(), question()
    waits = Commit(
        events=[open_question.payload(), StatusPayload(status="waiting", reason="approval")],
        release=Release(status="waiting", reason=Reason.APPROVAL, questions=(open_question,)),
    )
    return owner.lease.run_id, lambda: harness.do(owner.writer.commit(waits))


RIVALS: dict[str, tuple[Race, set[str]]] = {
    # Who cancels a run that is owned only asks; what its owner writes then stands.
    "finish": (finish, {"succeeded", "cancelled"}),
    "answer": (answer, {"cancelled"}),
    "start": (start, {"succeeded", "cancelled"}),
    "crash": (crash, {"cancelled"}),
    "release": (release, {"cancelled"}),
    "wait": (wait, {"cancelled"}),
}


@pytest.fixture
def racing(database: Database, request: pytest.FixtureRequest) -> Iterator[JournalHarness]:
    """Runs on each database; each side of a race has a thread and a connection of its own."""
    journal_harness = JournalHarness(database, request.getfixturevalue("wide_loop"), MemoryHotLog())
    yield journal_harness
    journal_harness.commits.close()


@pytest.mark.parametrize("name", RIVALS)
def test_a_stop_and_its_rival_leave_one_outcome(name: str, racing: JournalHarness) -> None:
    harness, (make, allowed) = racing, RIVALS[name]
    outcomes: Counter[str] = Counter()
    for number in range(RACES if harness.database.is_sqlite else RACES // 5):
        run_id, rival = make(harness)
        race(number, partial(cancel, harness.database, ME, run_id, by="ann"), rival)
        settle(harness, run_id)
        outcomes[check(harness, run_id)] += 1

    print(f"{name}: {dict(outcomes)}")
    assert set(outcomes) <= allowed


def race(number: int, *sides: Callable[[], Any]) -> None:
    """Let both sides go at the same moment; each begins first in every other race."""
    order = sides if number % 2 else tuple(reversed(sides))
    for came in at_once(len(order), lambda index: order[index]()):
        assert not isinstance(came, Exception) or isinstance(came, CallboardError), came  # the second one is refused


def settle(harness: JournalHarness, run_id: str) -> None:
    """Do what the next owner does with a run that was requested to stop, if there is one."""
    if harness.run_row(run_id).status in TERMINAL:
        return
    if harness.run_row(run_id).status == "running":
        harness.expire_lease(run_id)
        reap(harness.database, run_id)
    lease = harness.claim(run_id)
    if lease is not None:
        assert lease.stop_requested, "the next owner knows of the stop"
        harness.do(Owner(harness, lease).end("cancelled"))


def check(harness: JournalHarness, run_id: str) -> str:
    """Return the outcome, of which the row, the log, the steps and the approvals agree."""
    record = harness.record(run_id)
    assert not_recovered(record) == []
    return str(record.run["status"])
