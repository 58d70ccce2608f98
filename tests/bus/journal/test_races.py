"""A stop against everything that may happen to a run at the same moment: one outcome, one end, a whole log."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest

from bus.journal.approvals import Decision, decide
from bus.journal.endings import cancel
from bus.journal.hotlog import MemoryHotLog
from bus.journal.parting import Parting
from bus.journal.reaper import reap
from bus.journal.who import Who
from bus.journal.writer import Commit
from bus.payloads import TERMINAL, StatusPayload
from config.database import Database
from config.errors import CallboardError
from tests.bus.asked import asks, question
from tests.bus.world import Owner, World, assert_whole

pytestmark = [pytest.mark.journey, pytest.mark.timeout(300)]

ME = Who()
RACES = 100
"""Of each kind on SQLite; fewer on Postgres, which is a server."""
Race = Callable[[World], tuple[str, Callable[[], Any]]]
"""Makes a run, and what happens to it at the moment of the stop."""


def finish(world: World) -> tuple[str, Callable[[], Any]]:
    """Its owner ends it."""
    owner = world.own()
    return owner.lease.run_id, lambda: world.do(owner.end())


def answer(world: World) -> tuple[str, Callable[[], Any]]:
    """A person answers what it asks."""
    run_id, asked = world.accept().run_id, question()
    asks(world.database, run_id, asked)
    return run_id, lambda: decide(
        world.database, ME, run_id, asked.id, Decision(decision="take_as_done", result=1), by="ann"
    )


def start(world: World) -> tuple[str, Callable[[], Any]]:
    """A worker claims it, and ends it unless it is to stop."""
    run_id = world.accept().run_id

    def begin() -> None:
        lease = world.claim(run_id)
        if lease is not None:
            world.do(Owner(world, lease).end("cancelled" if lease.stop_requested else "succeeded"))

    return run_id, begin


def crash(world: World) -> tuple[str, Callable[[], Any]]:
    """Its owner is gone, and a reaper finds that."""
    owner = world.own()
    world.lapse(owner.lease.run_id)
    return owner.lease.run_id, lambda: reap(world.database, owner.lease.run_id)


def release(world: World) -> tuple[str, Callable[[], Any]]:
    """Its owner lets it go, since its process ends."""
    owner = world.own()
    moved = Commit(events=[StatusPayload(status="moved")], parting=Parting(status="queued", reason="drain"))
    return owner.lease.run_id, lambda: world.do(owner.writer.commit(moved))


def wait(world: World) -> tuple[str, Callable[[], Any]]:
    """Its owner lets it wait for a person."""
    owner, asked = world.own(), question()
    waits = Commit(
        events=[asked.payload(), StatusPayload(status="waiting", reason="approval")],
        parting=Parting(status="waiting", reason="approval", questions=(asked,)),
    )
    return owner.lease.run_id, lambda: world.do(owner.writer.commit(waits))


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
def racing(database: Database, request: pytest.FixtureRequest) -> Iterator[World]:
    """Runs on each database; each side of a race has a thread and a connection of its own."""
    made = World(database, request.getfixturevalue("wide_loop"), MemoryHotLog())
    yield made
    made.commits.close()


@pytest.mark.parametrize("name", RIVALS)
def test_a_stop_and_its_rival_leave_one_outcome(name: str, racing: World) -> None:
    world, (make, allowed) = racing, RIVALS[name]
    outcomes: Counter[str] = Counter()
    for number in range(RACES if world.database.is_sqlite else RACES // 5):
        run_id, rival = make(world)
        race(number, partial(cancel, world.database, ME, run_id, by="ann"), rival)
        settle(world, run_id)
        outcomes[check(world, run_id)] += 1

    print(f"{name}: {dict(outcomes)}")
    assert set(outcomes) <= allowed


def race(number: int, *sides: Callable[[], Any]) -> None:
    """Let both sides go at the same moment; each begins first in every other race."""
    barrier = threading.Barrier(len(sides))

    def run(side: Callable[[], Any]) -> None:
        barrier.wait(20)
        with contextlib.suppress(CallboardError):  # whoever comes second is told so
            side()

    order = sides if number % 2 else tuple(reversed(sides))
    threads = [threading.Thread(target=run, args=(side,)) for side in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def settle(world: World, run_id: str) -> None:
    """Do what the next owner does with a run that was told to stop, if there is one."""
    if world.run_row(run_id).status in TERMINAL:
        return
    if world.run_row(run_id).status == "running":
        world.lapse(run_id)
        reap(world.database, run_id)
    lease = world.claim(run_id)
    if lease is not None:
        assert lease.stop_requested, "whoever goes on knows of the stop"
        world.do(Owner(world, lease).end("cancelled"))


def check(world: World, run_id: str) -> str:
    """Return the outcome; the row, the log and its one end agree on it."""
    row, lines = world.run_row(run_id), world.lines(run_id)
    assert_whole(lines)
    assert row.status in TERMINAL
    assert orjson.loads(lines[-1].data)["status"] == row.status
    assert row.reserved_to == lines[-1].seq
    return str(row.status)
