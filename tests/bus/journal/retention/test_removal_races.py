"""Removals, starts, stops and ends of one thread at the same moment: each waits for the others; no row is orphaned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import exists, func, select

from bus.journal.errors import RUN_OPEN, RunUnknown, ThreadUnknown
from bus.journal.live.hotlog import MemoryHotLog
from bus.journal.retention.removal import OF_A_RUN, remove_runs, remove_threads
from config.database.engine import Database
from config.database.tables import messages, runs, threads
from config.identity.principal import Principal
from tests.bus.ended_runs import ended
from tests.bus.journal_harness import JournalHarness, Owner, cancel
from tests.bus.racing import at_once

pytestmark = pytest.mark.parity  # seconds of threads that race
ME = Principal()
ROUNDS = 40
Side = Callable[[], Any]
LOST = {RUN_OPEN.code, RunUnknown.code, ThreadUnknown.code}
"""The errors of the side that came second."""


@pytest.fixture
def racing(database: Database, request: pytest.FixtureRequest) -> JournalHarness:
    return JournalHarness(database, request.getfixturevalue("wide_loop"), MemoryHotLog())


def race(sides: Sequence[Side]) -> list[Exception]:
    """Let all sides go at the same moment and return the errors of those that did not get through."""
    return [came for came in at_once(len(sides), lambda index: sides[index]()) if isinstance(came, Exception)]


def codes_of(errors: Sequence[Exception]) -> set[str]:
    return {getattr(error, "code", repr(error)) for error in errors}


def orphans(harness: JournalHarness) -> dict[str, int]:
    """Return how many rows of each table belong to nothing."""
    has_thread = exists(select(threads.c.key).where(threads.c.key == messages.c.thread_key))
    has_run = exists(select(runs.c.id).where(runs.c.id == messages.c.run_id))
    queries = {
        "messages without a thread": select(func.count()).select_from(messages).where(~has_thread),
        "messages without a run": select(func.count()).select_from(messages).where(~has_run),
    }
    for table in OF_A_RUN:
        parent_run = exists(select(runs.c.id).where(runs.c.id == table.c.run_id))
        queries[f"{table.name} without a run"] = select(func.count()).select_from(table).where(~parent_run)
    return {name: count for name, query in queries.items() if (count := harness.rows(query)[0][0])}


def finish(harness: JournalHarness, owner: Owner) -> None:
    harness.do(owner.message())
    harness.do(owner.end())


@pytest.mark.parametrize("is_over", [True, False])
def test_a_removed_thread_leaves_nothing_whatever_happens_to_it_meanwhile(
    racing: JournalHarness, is_over: bool
) -> None:
    harness, received = racing, Counter[str]()
    for number in range(ROUNDS):
        thread = f"thr_{is_over}_{number}"
        owner = ended(harness, thread) if is_over else harness.own(harness.accept(thread_id=thread).run_id)
        remove = partial(remove_threads, harness.database, ME, [thread])
        stop = partial(cancel, harness.database, ME, owner.lease.run_id, "ann")
        sides: list[Side] = [remove, partial(harness.accept, thread_id=thread), remove, stop]
        if not is_over:
            sides.append(partial(finish, harness, owner))
        refused = race(sides if number % 2 else sides[::-1])
        received.update(codes_of(refused))
        assert codes_of(refused) <= LOST, refused

    print(dict(received))
    assert orphans(harness) == {}


def test_removing_a_thread_and_its_runs_at_once_does_not_deadlock(racing: JournalHarness) -> None:
    harness = racing
    for number in range(ROUNDS):
        thread = f"thr_{number}"
        run_ids = [ended(harness, thread).lease.run_id for _ in range(2)]
        sides: list[Side] = [
            *(partial(remove_runs, harness.database, ME, [run_id]) for run_id in run_ids),
            partial(remove_threads, harness.database, ME, [thread]),
            partial(remove_threads, harness.database, ME, [thread]),
        ]
        refused = race(sides if number % 2 else sides[::-1])
        assert codes_of(refused) <= LOST, refused

    assert orphans(harness) == {}
    assert harness.rows(select(func.count()).select_from(threads).where(threads.c.id.like("thr_%")))[0][0] == 0
