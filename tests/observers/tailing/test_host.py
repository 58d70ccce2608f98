"""A process feeds observers from threads; one that hangs costs a thread, and no other event."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from observers.tailing import host as hosting
from observers.tailing import tailer as tailing
from observers.tailing.host import ObserverHost
from observers.tailing.tailed import EventSelection
from tests.observers.tailing.conftest import Room
from tests.tailed_log import end, status

pytestmark = pytest.mark.parity


@pytest.fixture
def host(room: Room, monkeypatch) -> Iterator[ObserverHost]:
    monkeypatch.setattr(hosting, "WATCH_S", 0.02)
    started = ObserverHost(room.settings, room.database)
    yield started
    started.stop()


def wait_for(condition, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def test_threads_share_the_runs_of_an_observer(room: Room, host: ObserverHost):
    runs = room.log.runs(100)
    room.member(threads=4)
    host.start(room.tailed)
    wait_for(lambda: len(room.state.threads) == 4)

    room.log.turn(runs)
    wait_for(lambda: room.state.delivered == 300)

    assert room.taken == {run: [1, 2, 3] for run in runs}


def test_a_call_that_never_returns_is_given_up_and_the_rest_is_delivered(room: Room, host: ObserverHost):
    stuck, free = room.log.runs(2)
    room.log.add(stuck, status(1))
    room.log.add(free, status(1))
    release = threading.Event()

    def hang(agent, payload, context) -> None:
        if context.run_id == stuck:
            release.wait(60)

    room.kind.act = hang
    room.member(timeout_s=0.3)
    host.start(room.tailed)

    wait_for(lambda: room.taken.get(free) == [1] and room.state.retrying == 1)
    room.log.add(free, end(2))
    wait_for(lambda: room.taken.get(free) == [1, 2])
    release.set()
    wait_for(lambda: room.state.retrying == 0)

    assert room.taken[stuck][-1] == 1


def test_a_best_effort_observer_passes_over_an_event_that_hangs(room: Room, host: ObserverHost):
    stuck, free = room.log.runs(2)
    room.log.add(stuck, status(1))
    room.log.add(free, status(1))
    release = threading.Event()
    room.kind.act = lambda agent, payload, context: context.run_id == stuck and release.wait(60)
    room.member(timeout_s=0.3, delivery="best_effort")

    host.start(room.tailed)
    wait_for(lambda: room.taken.get(free) == [1] and room.state.dropped == 1)
    room.log.add(free, end(2))
    wait_for(lambda: room.taken.get(free) == [1, 2])
    release.set()

    assert (room.state.retrying, room.state.state) == (0, "running")


def test_an_observer_that_hangs_again_and_again_is_left_alone(room: Room, host: ObserverHost, monkeypatch):
    monkeypatch.setattr(hosting, "MAX_ABANDONED", 1)
    release = threading.Event()
    room.kind.act = lambda *_: release.wait(60)
    room.log.turn(room.log.runs(3))
    room.member(timeout_s=0.05)

    host.start(room.tailed)
    wait_for(lambda: host.is_idle)

    assert room.state.state == "stopped"
    release.set()


def test_an_error_that_no_event_is_to_blame_for_ends_no_thread(room: Room, host: ObserverHost, monkeypatch, caplog):
    monkeypatch.setattr(tailing, "LONGEST_PAUSE_S", 0.05)
    errors = [RuntimeError("its table is gone")] * 2

    def on_commit(self, connection) -> None:
        if errors:
            raise errors.pop()

    room.kind.on_commit = on_commit  # type: ignore[method-assign]
    run = room.log.run()
    room.log.add(run, status(1))
    room.member(selection=EventSelection(types=frozenset({"end"})))
    host.start(room.tailed)

    wait_for(lambda: not errors)
    room.log.add(run, end(2))
    wait_for(lambda: room.state.delivered == 1)

    assert room.taken[run] == [2]
    assert caplog.text.count("is fed again in 0.05 s") == 2


def test_a_host_that_stops_frees_its_partitions_at_once(room: Room, host: ObserverHost):
    room.log.turn(room.log.runs(3))
    room.member()
    host.start(room.tailed)
    wait_for(lambda: room.state.delivered == 9)

    host.stop()

    assert room.state.state == "stopped"
    with room.database.read() as connection:
        assert set(connection.exec_driver_sql("SELECT owner FROM observer_cursors").scalars()) == {None}
