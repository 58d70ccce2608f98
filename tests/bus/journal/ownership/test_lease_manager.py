"""Leases are kept while they are ours; a stop is seen; a silent or lost owner stops writing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from bus.journal import keeper as keepers
from bus.journal import leases
from bus.journal.endings import cancel
from bus.journal.hotlog import MemoryHotLog
from bus.journal.keeper import LeaseKeeper
from bus.journal.leases import Beat
from bus.journal.who import Who
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database import Database
from config.errors import DatabaseUnreachable
from config.settings import Settings
from tests.bus.world import HandWork, Owner, World, settled

BEAT_S = 0.03


class Kept:
    """A keeper and what became of the runs it keeps."""

    def __init__(self, world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.keys = Keys("keeper")
        self.beats: list[list[str]] = []
        self.fail: BaseException | None = None
        self.is_silent = False
        self._beat: Callable[..., list[Beat]] = leases.beat
        monkeypatch.setattr(keepers, "beat", self.beat)
        self.keeper = LeaseKeeper("own_1", settings, world.database, world.loop, world.hot_log, self.keys)

    def beat(self, database, owner, lease_s, owned) -> list[Beat]:
        self.beats.append([run_id for run_id, _ in owned])
        if self.fail is not None:
            raise self.fail
        return self._beat(database, owner, lease_s, owned)

    async def keep(self, owner: Owner) -> tuple[asyncio.Event, asyncio.Event]:
        """Keep a run; return what is set when it is stopped, and when it is lost."""
        stopped, lost = asyncio.Event(), asyncio.Event()
        owner.writer.on_lost = lost.set
        await self.keeper.keep(owner.writer, HandWork(stopped.set))
        return stopped, lost

    async def until_beats(self, number: int) -> None:
        async with asyncio.timeout(20):
            while len(self.beats) < number:
                await asyncio.sleep(BEAT_S / 3)


@pytest.fixture
def kept(small_world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    made = Kept(small_world, settings.model_copy(update={"beat_s": BEAT_S, "lease_s": 60.0}), monkeypatch)
    yield made
    small_world.loop.call_soon(made.keeper.close)


async def happens(event: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await event.wait()


def test_beats_extend_the_lease_of_every_run_kept_and_of_no_other(kept: Kept, small_world: World):
    mine, other, let_go = (small_world.own(lease_s=-1) for _ in range(3))

    async def play() -> None:
        for owner in (mine, let_go):
            await kept.keep(owner)
        kept.keeper.let_go(let_go.lease.run_id)
        assert kept.keeper.busy == 1
        await kept.until_beats(2)

    small_world.do(play())

    assert kept.beats[0] == [mine.lease.run_id]
    assert small_world.claim(mine.lease.run_id, "own_2") is None
    assert small_world.claim(other.lease.run_id, "own_2") is not None
    assert small_world.claim(let_go.lease.run_id, "own_2") is not None


def test_a_run_somebody_else_took_is_lost_with_the_next_beat(kept: Kept, small_world: World):
    owner = small_world.own()

    async def play() -> None:
        stopped, lost = await kept.keep(owner)
        small_world.lapse(owner.lease.run_id)
        small_world.claim(owner.lease.run_id, "own_2")
        await happens(lost)
        assert not stopped.is_set()

    small_world.do(play())

    assert owner.writer.is_stale


def test_a_run_this_process_took_again_is_lost_by_its_old_writer_only(kept: Kept, small_world: World):
    old = small_world.own()
    small_world.lapse(old.lease.run_id)
    new = small_world.own(old.lease.run_id, "own_1")

    async def play() -> None:
        await kept.keep(new)
        kept.keeper.let_go(old.lease.run_id, old.lease.fence)
        assert kept.keeper.busy == 1
        await kept.until_beats(2)
        kept.keeper.let_go(new.lease.run_id, new.lease.fence)

    small_world.do(play())

    assert old.writer.is_stale
    assert not new.writer.is_stale
    assert kept.keeper.busy == 0


def test_a_beat_that_fails_once_is_no_loss(kept: Kept, small_world: World):
    owner = small_world.own()
    kept.fail = RuntimeError("something nobody foresaw")

    async def play() -> None:
        await kept.keep(owner)
        await kept.until_beats(1)
        kept.fail = None
        await kept.until_beats(4)

    small_world.do(play())

    assert not owner.writer.is_stale


def test_a_run_that_cannot_be_asked_for_its_time_ends_no_heartbeat(kept: Kept, small_world: World):
    class AskedTooEarly(HandWork):
        asked = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "is_within_time":
                type(self).asked += 1
                if self.asked == 1:
                    raise ValueError("changed meanwhile")
            return super().__getattribute__(name)

    owner = small_world.own()

    async def play() -> None:
        await kept.keeper.keep(owner.writer, AskedTooEarly())
        await kept.until_beats(2)

    small_world.do(play())

    assert not owner.writer.is_stale


@pytest.mark.parametrize("way", ["fails", "hangs"])
def test_an_owner_that_cannot_beat_writes_nothing_before_its_lease_is_over_and_goes_on_after(
    small_world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch, way: str
):
    kept = Kept(small_world, settings.model_copy(update={"beat_s": BEAT_S, "lease_s": 0.3}), monkeypatch)
    may_return = threading.Event()

    def hang(*given: Any) -> list[Beat]:
        may_return.wait(20)
        return leases.beat(*given)

    if way == "fails":
        kept.fail = DatabaseUnreachable("gone")
    else:
        kept._beat = hang
    owner = small_world.own(lease_s=-1)

    async def play() -> None:
        _, lost = await kept.keep(owner)
        async with asyncio.timeout(20):
            while not kept.keeper.is_silent:
                await asyncio.sleep(BEAT_S)
        commit = asyncio.create_task(owner.message())
        await owner.say("held back", message_id="msg_2")
        await asyncio.sleep(BEAT_S)
        assert owner.told == []
        kept.fail = None
        may_return.set()
        await commit
        async with asyncio.timeout(20):
            while len(owner.told) < 2:
                await asyncio.sleep(BEAT_S)
        assert not lost.is_set()
        kept.keeper.close()

    small_world.do(play())

    assert [payload.event_type for payload in owner.told] == ["response", "message"]
    assert (owner.lease.fence, owner.writer.is_stale) == (1, False)


def test_heartbeats_do_not_depend_on_the_loop(kept: Kept, small_world: World):
    owner = small_world.own()

    async def play() -> int:
        await kept.keep(owner)
        before = len(kept.beats)
        time.sleep(10 * BEAT_S)  # as a tool does that should be a plain function
        return len(kept.beats) - before

    assert small_world.do(play()) > 2


def test_a_loop_that_does_not_answer_for_most_of_a_lease_is_beaten_for_no_longer(
    small_world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    kept = Kept(small_world, settings.model_copy(update={"beat_s": BEAT_S, "lease_s": 0.3}), monkeypatch)
    owner = small_world.own()

    async def play() -> bool:
        await kept.keep(owner)
        time.sleep(1.0)  # the watch ends such a process (bus/pulse.py)
        return kept.keeper.is_silent

    assert small_world.do(play())
    small_world.loop.call_soon(kept.keeper.close)


def test_a_process_that_was_stopped_beats_at_once_when_it_goes_on(kept: Kept, small_world: World):
    """Its loop had no time to answer either; the heartbeat tells which runs are still its own."""
    owner = small_world.own()

    async def play() -> None:
        await kept.keep(owner)
        kept.keeper._last_good_s -= 1000
        assert kept.keeper.is_silent
        kept.keeper._beat()
        assert not kept.keeper.is_silent

    small_world.do(play())


def test_a_run_whose_claim_is_older_than_its_lease_writes_nothing_before_a_heartbeat_found_it(
    small_world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """This process was stopped between the claim and its work; its other runs were beaten for before and after."""
    kept = Kept(small_world, settings.model_copy(update={"beat_s": 20.0, "lease_s": 60.0}), monkeypatch)
    first, late, lost = (small_world.own() for _ in range(3))
    for owner in (late, lost):
        owner.writer.claimed_s -= 1000
    small_world.lapse(lost.lease.run_id)
    small_world.claim(lost.lease.run_id, "own_2")

    async def play() -> None:
        for owner in (first, late, lost):
            await kept.keep(owner)
        assert [owner.writer.is_silent() for owner in (first, late, lost)] == [False, True, True]
        await asyncio.to_thread(kept.keeper._beat)
        assert [owner.writer.is_silent() for owner in (first, late, lost)] == [False, False, True]
        await small_world.loop.read(lambda: None)
        assert [owner.writer.is_stale for owner in (first, late, lost)] == [False, False, True]
        kept.keeper.close()

    small_world.do(play())


def test_a_heartbeat_stands_before_all_work_that_waits_for_the_writer(sqlite: Database, loop: ProcessLoop):
    owner = World(sqlite, loop, MemoryHotLog()).own()
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


def test_a_run_kept_beside_one_that_was_lost_is_not_silent_for_what_was_before_it(kept: Kept, small_world: World):
    lost, new = small_world.own(), small_world.own()

    async def play() -> bool:
        await kept.keep(lost)
        lost.writer.lost_ownership()
        kept.keeper._last_good_s -= 1000
        await kept.keep(new)
        return kept.keeper.is_silent

    assert small_world.do(play()) is False


def test_a_run_kept_beside_one_that_is_still_owned_says_nothing_of_that_ones_lease(kept: Kept, small_world: World):
    old, new = small_world.own(), small_world.own()

    async def play() -> bool:
        await kept.keep(old)
        kept.keeper._last_good_s -= 1000
        await kept.keep(new)
        return old.writer.is_silent()

    assert small_world.do(play()) is True


def test_the_log_says_why_a_run_is_left(kept: Kept, small_world: World, caplog: pytest.LogCaptureFixture):
    endless, taken = (small_world.own() for _ in range(2))
    endless_work = HandWork()

    async def play() -> None:
        await kept.keep(taken)
        small_world.lapse(taken.lease.run_id)
        small_world.claim(taken.lease.run_id, "own_2")
        kept.keeper._beat()
        await kept.keeper.keep(endless.writer, endless_work)
        endless_work.is_within_time = False
        kept.keeper._beat()
        await settled()

    small_world.do(play())

    said = {owner.lease.run_id: record.getMessage() for record in caplog.records if record.name == "bus.journal.writer"
            for owner in (endless, taken) if owner.lease.run_id in record.getMessage()}  # fmt: skip
    assert "taken over by another owner" in said[taken.lease.run_id]
    assert "its step does not end" in said[endless.lease.run_id]


def test_a_run_that_ended_here_is_not_lost(kept: Kept, small_world: World):
    owner = small_world.own()

    async def play() -> None:
        _, lost = await kept.keep(owner)
        await owner.end()
        await kept.until_beats(2)
        await settled()
        assert not lost.is_set()

    small_world.do(play())

    assert not owner.writer.is_stale


@pytest.mark.parametrize("way", ["nudge", "poll", "beat", "here"])
def test_a_stop_is_seen(kept: Kept, small_world: World, monkeypatch: pytest.MonkeyPatch, way: str):
    poll_s = 0.02 if way == "poll" else 30
    monkeypatch.setattr(keepers, "STOP_POLL_S", poll_s)
    owner, other = small_world.own(), small_world.own()
    if way in ("nudge", "poll"):
        monkeypatch.setattr(kept, "_beat", lambda *_: [])
        monkeypatch.setattr(LeaseKeeper, "_heed", lambda *_: None)

    async def play() -> None:
        stopped, _ = await kept.keep(owner)
        not_stopped, _ = await kept.keep(other)
        cancel(small_world.database, Who(), owner.lease.run_id, "ann")
        if way == "nudge":
            await settled()
            small_world.hot_log.nudge(kept.keys.nudges, f"stop {owner.lease.run_id}")
        if way == "here":
            assert kept.keeper.stop_here(owner.lease.run_id)
            assert not kept.keeper.stop_here("run_nobody_knows")
        await happens(stopped)
        assert not not_stopped.is_set()

    small_world.do(play())


def test_a_stop_from_before_the_claim_is_seen_at_once(kept: Kept, small_world: World):
    first = small_world.own()
    cancel(small_world.database, Who(), first.lease.run_id, "ann")
    small_world.lapse(first.lease.run_id)
    second = small_world.own(first.lease.run_id, "own_1")

    async def play() -> bool:
        stopped, _ = await kept.keep(second)
        return stopped.is_set()

    assert small_world.do(play())


@pytest.mark.parametrize("text", ["stop {run}", "stop", "", "stop run_x", "kill {run}", "\x00", "stop  {run}"])
def test_a_forged_nudge_stops_nothing(kept: Kept, small_world: World, text: str, monkeypatch: pytest.MonkeyPatch):
    looks: list[str] = []

    def look(*args) -> list[str]:
        looks.append("look")
        return leases.stops(*args)

    monkeypatch.setattr(keepers, "stops", look)
    monkeypatch.setattr(keepers, "STOP_POLL_S", 30)
    owner = small_world.own()
    assert isinstance(small_world.hot_log, MemoryHotLog)

    async def play() -> bool:
        stopped, _ = await kept.keep(owner)
        for _ in range(100):
            small_world.hot_log.nudge(kept.keys.nudges, text.format(run=owner.lease.run_id))
        await kept.until_beats(2)
        return stopped.is_set()

    assert small_world.do(play()) is False
    assert len(looks) <= 2
    assert not owner.writer.is_stale


def test_a_flood_of_nudges_is_looked_at_once_a_poll(kept: Kept, small_world: World, monkeypatch: pytest.MonkeyPatch):
    looked_at_s: list[float] = []

    def look(*args) -> list[str]:
        looked_at_s.append(time.monotonic())
        return leases.stops(*args)

    monkeypatch.setattr(keepers, "stops", look)
    monkeypatch.setattr(keepers, "STOP_POLL_S", 0.1)
    owner = small_world.own()

    async def play() -> bool:
        stopped, _ = await kept.keep(owner)
        while len(looked_at_s) < 5:
            small_world.hot_log.nudge(kept.keys.nudges, f"stop {owner.lease.run_id}")
            await asyncio.sleep(0)
        cancel(small_world.database, Who(), owner.lease.run_id, "ann")
        await happens(stopped)
        return True

    assert small_world.do(play())
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(looked_at_s))


def test_a_beat_that_failed_is_tried_again_before_the_next_is_due(
    kept: Kept, small_world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keepers, "AGAIN_S", 0.01)
    monkeypatch.setattr(kept.keeper, "_settings", settings.model_copy(update={"beat_s": 0.5, "lease_s": 1e6}))
    kept.fail = DatabaseUnreachable("gone")

    async def play() -> None:
        await kept.keep(small_owner)
        await kept.until_beats(3)
        kept.fail = None
        await kept.until_beats(4)
        await settled()

    small_owner = small_world.own()
    began_s = time.monotonic()
    small_world.do(play())

    assert not small_owner.writer.is_stale
    assert len(kept.beats) <= 2 + (time.monotonic() - began_s) / 0.01
    assert kept.keeper._last_good_s >= began_s
