"""Leases are kept while they are ours; a stop is seen; a silent or lost owner stops writing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from bus.journal.controls import STOP
from bus.journal.live.hotlog import MemoryHotLog
from bus.journal.log.commit import Commit
from bus.journal.ownership import lease_manager as lease_manager_module
from bus.journal.ownership import leases
from bus.journal.ownership.lease_manager import LeaseManager
from bus.journal.records.control_requests import ControlRequest
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.database.errors import DatabaseUnreachable
from config.identity.principal import Principal
from config.settings import Settings
from tests.bus.journal_harness import HandWork, JournalHarness, Owner, cancel, settled, suspend

BEAT_S = 0.03
PATIENCE_S = 20.0
"""How long a test waits for a heartbeat on a busy machine."""


class ManagerHarness:
    """A lease manager, and its heartbeats."""

    def __init__(self, journal_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.journal_harness = journal_harness
        self.keys = Keys("manager")
        self.beats: list[list[str]] = []
        self.fail: BaseException | None = None
        self.is_silent = False
        self._beat: Callable[..., list[Any]] = leases.beat
        monkeypatch.setattr(lease_manager_module, "beat", self.beat)
        self.lease_manager = LeaseManager(
            "own_1", settings, journal_harness.database, journal_harness.loop, journal_harness.hot_log, self.keys
        )

    def beat(self, database, owner, lease_s, owned) -> list[Any]:
        self.beats.append([run_id for run_id, _ in owned])
        if self.fail is not None:
            raise self.fail
        return self._beat(database, owner, lease_s, owned)

    async def track(self, owner: Owner) -> tuple[asyncio.Event, asyncio.Event]:
        """Track a run; return what is set when it is stopped, and when it is lost."""
        stopped, lost = asyncio.Event(), asyncio.Event()
        owner.writer.on_lost = lost.set
        await self.lease_manager.track(owner.writer, HandWork(stopped.set))
        return stopped, lost

    async def until_beats(self, number: int) -> None:
        async with asyncio.timeout(20):
            while len(self.beats) < number:
                await asyncio.sleep(BEAT_S / 3)


@pytest.fixture
def harness(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ManagerHarness]:
    manager_harness = ManagerHarness(
        small_harness, settings.model_copy(update={"beat_s": BEAT_S, "lease_s": 60.0}), monkeypatch
    )
    yield manager_harness
    small_harness.loop.call_soon(manager_harness.lease_manager.close)


async def happens(event: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await event.wait()


def test_beats_extend_the_lease_of_every_run_kept_and_of_no_other(
    harness: ManagerHarness, small_harness: JournalHarness
):
    mine, other, untrack = (small_harness.own(lease_s=-1) for _ in range(3))

    async def play() -> None:
        for owner in (mine, untrack):
            await harness.track(owner)
        harness.lease_manager.untrack(untrack.lease.run_id)
        assert harness.lease_manager.busy == 1
        await harness.until_beats(2)

    small_harness.do(play())

    assert harness.beats[0] == [mine.lease.run_id]
    assert small_harness.claim(mine.lease.run_id, "own_2") is None
    assert small_harness.claim(other.lease.run_id, "own_2") is not None
    assert small_harness.claim(untrack.lease.run_id, "own_2") is not None


def test_a_run_that_another_owner_took_is_lost_with_the_next_beat(
    harness: ManagerHarness, small_harness: JournalHarness
):
    owner = small_harness.own()

    async def play() -> None:
        stopped, lost = await harness.track(owner)
        small_harness.expire_lease(owner.lease.run_id)
        small_harness.claim(owner.lease.run_id, "own_2")
        await happens(lost)
        assert not stopped.is_set()

    small_harness.do(play())

    assert owner.writer.is_stale


def test_a_run_this_process_took_again_is_lost_by_its_old_writer_only(
    harness: ManagerHarness, small_harness: JournalHarness
):
    old = small_harness.own()
    small_harness.expire_lease(old.lease.run_id)
    new = small_harness.own(old.lease.run_id, "own_1")

    async def play() -> None:
        await harness.track(new)
        harness.lease_manager.untrack(old.lease.run_id, old.lease.fence)
        assert harness.lease_manager.busy == 1
        await harness.until_beats(2)
        harness.lease_manager.untrack(new.lease.run_id, new.lease.fence)

    small_harness.do(play())

    assert old.writer.is_stale
    assert not new.writer.is_stale
    assert harness.lease_manager.busy == 0


def test_a_beat_that_fails_once_is_no_loss(harness: ManagerHarness, small_harness: JournalHarness):
    owner = small_harness.own()
    harness.fail = RuntimeError("something unexpected")

    async def play() -> None:
        await harness.track(owner)
        await harness.until_beats(1)
        harness.fail = None
        await harness.until_beats(4)

    small_harness.do(play())

    assert not owner.writer.is_stale


def test_a_run_that_cannot_be_asked_for_its_time_ends_no_heartbeat(
    harness: ManagerHarness, small_harness: JournalHarness
):
    class AskedTooEarly(HandWork):
        request_count = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "is_within_time":
                type(self).request_count += 1
                if self.request_count == 1:
                    raise ValueError("changed meanwhile")
            return super().__getattribute__(name)

    owner = small_harness.own()

    async def play() -> None:
        await harness.lease_manager.track(owner.writer, AskedTooEarly())
        await harness.until_beats(2)

    small_harness.do(play())

    assert not owner.writer.is_stale


@pytest.mark.parametrize("way", ["fails", "hangs"])
def test_an_owner_that_cannot_beat_writes_nothing_before_its_lease_is_over_and_continues_after(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch, way: str
):
    harness = ManagerHarness(small_harness, settings.model_copy(update={"beat_s": BEAT_S, "lease_s": 0.3}), monkeypatch)
    may_return = threading.Event()

    def hang(*arguments: Any) -> list[Any]:
        may_return.wait(20)
        return leases.beat(*arguments)

    if way == "fails":
        harness.fail = DatabaseUnreachable("gone")
    else:
        harness._beat = hang
    owner = small_harness.own(lease_s=-1)

    async def play() -> None:
        _, lost = await harness.track(owner)
        async with asyncio.timeout(20):
            while not harness.lease_manager.is_silent:
                await asyncio.sleep(BEAT_S)
        commit = asyncio.create_task(owner.message())
        await owner.say("held back", message_id="msg_2")
        await asyncio.sleep(BEAT_S)
        assert owner.delivered == []
        harness.fail = None
        may_return.set()
        await commit
        async with asyncio.timeout(20):
            while len(owner.delivered) < 2:
                await asyncio.sleep(BEAT_S)
        assert not lost.is_set()
        harness.lease_manager.close()

    small_harness.do(play())

    assert [payload.event_type for payload in owner.delivered] == ["response", "message"]
    assert (owner.lease.fence, owner.writer.is_stale) == (1, False)


def test_heartbeats_do_not_depend_on_the_loop(harness: ManagerHarness, small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> int:
        await harness.track(owner)
        before, until = len(harness.beats), time.monotonic() + PATIENCE_S
        while len(harness.beats) < before + 3 and time.monotonic() < until:
            time.sleep(BEAT_S)  # blocks the loop, as a tool does that should be a plain function
        return len(harness.beats) - before

    assert small_harness.do(play()) >= 3


def test_a_loop_that_does_not_answer_for_most_of_a_lease_is_beaten_for_no_longer(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    harness = ManagerHarness(small_harness, settings.model_copy(update={"beat_s": BEAT_S, "lease_s": 0.3}), monkeypatch)
    owner = small_harness.own()

    async def play() -> bool:
        await harness.track(owner)
        until = time.monotonic() + PATIENCE_S
        while not harness.lease_manager.is_silent and time.monotonic() < until:
            time.sleep(BEAT_S)  # blocks the loop; the watch ends such a process (bus/liveness.py)
        return harness.lease_manager.is_silent

    assert small_harness.do(play())
    small_harness.loop.call_soon(harness.lease_manager.close)


def test_a_process_that_was_stopped_beats_at_once_when_it_continues(
    harness: ManagerHarness, small_harness: JournalHarness
):
    """Its loop had no time to answer either; the heartbeat tells which runs are still its own."""
    owner = small_harness.own()

    async def play() -> None:
        await harness.track(owner)
        suspend(harness.lease_manager)
        assert harness.lease_manager.is_silent
        harness.lease_manager._beat()
        assert not harness.lease_manager.is_silent

    small_harness.do(play())


def test_a_run_whose_claim_is_older_than_its_lease_writes_nothing_before_a_heartbeat_found_it(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """This process was stopped between the claim and its work; its other runs were beaten for before and after."""
    harness = ManagerHarness(small_harness, settings.model_copy(update={"beat_s": 20.0, "lease_s": 60.0}), monkeypatch)
    first, late, lost = (small_harness.own() for _ in range(3))
    for owner in (late, lost):
        owner.writer.claimed_s -= 1000
    small_harness.expire_lease(lost.lease.run_id)
    small_harness.claim(lost.lease.run_id, "own_2")

    async def play() -> None:
        for owner in (first, late, lost):
            await harness.track(owner)
        assert [owner.writer.is_silent() for owner in (first, late, lost)] == [False, True, True]
        await asyncio.to_thread(harness.lease_manager._beat)
        assert [owner.writer.is_silent() for owner in (first, late, lost)] == [False, False, True]
        await small_harness.loop.read(lambda: None)
        assert [owner.writer.is_stale for owner in (first, late, lost)] == [False, False, True]
        harness.lease_manager.close()

    small_harness.do(play())


def test_a_heartbeat_stands_before_all_work_that_waits_for_the_writer(sqlite: Database, loop: ProcessLoop):
    owner = JournalHarness(sqlite, loop, MemoryHotLog()).own()
    order: list[str] = []
    is_writing, may_go = threading.Event(), threading.Event()

    def work() -> None:
        with sqlite.write():
            is_writing.set()
            may_go.wait(20)
            order.append("work")

    def beat() -> None:
        leases.beat(sqlite, "own_1", 60, [(owner.lease.run_id, 1)])
        order.append("beat")

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in [*threads, beating := threading.Thread(target=beat)]:
        thread.start()
        assert is_writing.wait(20)
    assert sqlite._turns is not None
    while len(sqlite._turns._waiting) < len(threads):
        time.sleep(0.001)
    may_go.set()
    for thread in (*threads, beating):
        thread.join(20)

    assert order.index("beat") <= 2, "behind the one that writes; the next one may be quicker to append"


def test_a_run_kept_beside_one_that_was_lost_is_not_silent_for_what_was_before_it(
    harness: ManagerHarness, small_harness: JournalHarness
):
    lost, new = small_harness.own(), small_harness.own()

    async def play() -> bool:
        await harness.track(lost)
        lost.writer.lost_ownership()
        suspend(harness.lease_manager)
        await harness.track(new)
        return harness.lease_manager.is_silent

    assert small_harness.do(play()) is False


def test_a_run_kept_beside_one_that_is_still_owned_says_nothing_of_that_ones_lease(
    harness: ManagerHarness, small_harness: JournalHarness
):
    old, new = small_harness.own(), small_harness.own()

    async def play() -> bool:
        await harness.track(old)
        suspend(harness.lease_manager)
        await harness.track(new)
        return old.writer.is_silent()

    assert small_harness.do(play()) is True


def test_the_log_says_why_a_run_is_left(
    harness: ManagerHarness, small_harness: JournalHarness, caplog: pytest.LogCaptureFixture
):
    endless, taken = (small_harness.own() for _ in range(2))
    endless_work = HandWork()

    async def play() -> None:
        await harness.track(taken)
        small_harness.expire_lease(taken.lease.run_id)
        small_harness.claim(taken.lease.run_id, "own_2")
        harness.lease_manager._beat()
        await harness.lease_manager.track(endless.writer, endless_work)
        endless_work.is_within_time = False
        harness.lease_manager._beat()
        await settled()

    small_harness.do(play())

    reasons = {
        owner.lease.run_id: record.getMessage()
        for record in caplog.records
        if record.name == "bus.journal.log.writer"
        for owner in (endless, taken)
        if owner.lease.run_id in record.getMessage()
    }
    assert "taken over by another owner" in reasons[taken.lease.run_id]
    assert "its step does not end" in reasons[endless.lease.run_id]


def test_a_run_that_ended_here_is_not_lost(harness: ManagerHarness, small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> None:
        _, lost = await harness.track(owner)
        await owner.end()
        await harness.until_beats(2)
        await settled()
        assert not lost.is_set()

    small_harness.do(play())

    assert not owner.writer.is_stale


@pytest.mark.parametrize("way", ["nudge", "poll", "beat", "here"])
def test_a_stop_is_seen(
    harness: ManagerHarness, small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, way: str
):
    poll_s = 0.02 if way == "poll" else 30
    monkeypatch.setattr(lease_manager_module, "REQUESTS_POLL_S", poll_s)
    owner, other = small_harness.own(), small_harness.own()
    if way in ("nudge", "poll"):
        harness.fail = DatabaseUnreachable("gone")  # no heartbeat brings the stop

    async def play() -> None:
        stopped, _ = await harness.track(owner)
        not_stopped, _ = await harness.track(other)
        cancel(small_harness.database, Principal(), owner.lease.run_id, "ann")
        if way == "nudge":
            await settled()
            small_harness.hot_log.nudge(harness.keys.nudges, f"stop {owner.lease.run_id}")
        if way == "here":
            assert harness.lease_manager.control_local(owner.lease.run_id, STOP)
            assert not harness.lease_manager.control_local("run_nobody_knows", STOP)
        await happens(stopped)
        assert not not_stopped.is_set()

    small_harness.do(play())


def test_a_stop_from_before_the_claim_is_seen_at_once(harness: ManagerHarness, small_harness: JournalHarness):
    first = small_harness.own()
    cancel(small_harness.database, Principal(), first.lease.run_id, "ann")
    small_harness.do(first.writer.commit(Commit(release=Release(status="queued", reason=Reason.DRAIN))))
    second = small_harness.own(first.lease.run_id, "own_1")

    async def play() -> bool:
        stopped, _ = await harness.track(second)
        return stopped.is_set()

    assert small_harness.do(play())


@pytest.mark.parametrize("text", ["stop {run}", "stop", "", "stop run_x", "kill {run}", "\x00", "stop  {run}"])
def test_a_forged_nudge_stops_nothing(
    harness: ManagerHarness, small_harness: JournalHarness, text: str, monkeypatch: pytest.MonkeyPatch
):
    looks: list[str] = []

    def look(*args) -> list[ControlRequest]:
        looks.append("look")
        return leases.requests(*args)

    monkeypatch.setattr(lease_manager_module, "requests", look)
    monkeypatch.setattr(lease_manager_module, "REQUESTS_POLL_S", 30)
    owner = small_harness.own()
    assert isinstance(small_harness.hot_log, MemoryHotLog)

    async def play() -> bool:
        stopped, _ = await harness.track(owner)
        for _ in range(100):
            small_harness.hot_log.nudge(harness.keys.nudges, text.format(run=owner.lease.run_id))
        await harness.until_beats(2)
        return stopped.is_set()

    assert small_harness.do(play()) is False
    assert len(looks) <= 2
    assert not owner.writer.is_stale


@pytest.mark.parity
def test_a_flood_of_nudges_is_looked_at_once_a_poll(
    harness: ManagerHarness, small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    looked_at_s: list[float] = []

    def look(*args) -> list[ControlRequest]:
        looked_at_s.append(time.monotonic())
        return leases.requests(*args)

    monkeypatch.setattr(lease_manager_module, "requests", look)
    monkeypatch.setattr(lease_manager_module, "NUDGE_PAUSE_S", 0.1)
    owner = small_harness.own()

    async def play() -> bool:
        stopped, _ = await harness.track(owner)
        while len(looked_at_s) < 5:
            small_harness.hot_log.nudge(harness.keys.nudges, f"stop {owner.lease.run_id}")
            await asyncio.sleep(0)
        cancel(small_harness.database, Principal(), owner.lease.run_id, "ann")
        await happens(stopped)
        return True

    assert small_harness.do(play())
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(looked_at_s))


def test_a_beat_that_failed_is_tried_again_before_the_next_is_due(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lease_manager_module, "RETRY_S", 0.01)
    harness = ManagerHarness(small_harness, settings.model_copy(update={"beat_s": 0.5, "lease_s": 1e6}), monkeypatch)
    harness.fail = DatabaseUnreachable("gone")

    async def play() -> None:
        await harness.track(small_owner)
        await harness.until_beats(3)
        harness.fail = None
        await harness.until_beats(4)
        await settled()

    small_owner = small_harness.own()
    began_s = time.monotonic()
    small_harness.do(play())

    assert not small_owner.writer.is_stale
    assert len(harness.beats) <= 2 + (time.monotonic() - began_s) / 0.01
    assert not harness.lease_manager.is_silent
    small_harness.loop.call_soon(harness.lease_manager.close)
