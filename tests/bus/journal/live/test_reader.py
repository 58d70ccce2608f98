"""A reader gets every event once and in order, whatever arrives when, and from wherever."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from bus.journal.errors import CURSOR_INVALID
from bus.journal.live import reader as readers
from bus.journal.live.hotlog import Listener, MemoryHotLog
from bus.journal.live.reader import Merge
from bus.journal.log import events as log
from bus.journal.log.commit import Commit
from bus.journal.log.line import Line, parse_cursor, to_line
from bus.payloads import EndPayload, StatusPayload, WithdrawnPayload, encode, ranges_of
from config.database.errors import DatabaseUnreachable
from config.database.tables import runs
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, settled
from tests.raising import raises


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask SQL often; how long the pauses are is not what these tests are about."""
    monkeypatch.setattr(readers, "GAP_S", 0.02)
    monkeypatch.setattr(readers, "IDLE_S", 0.04)
    monkeypatch.setattr(readers, "POLL_S", 0.02)
    monkeypatch.setattr(readers, "LIVE_READ_S", 0.02)


# --- cursors


@pytest.mark.parametrize(("text", "cursor"), [(None, 0), ("", 0), ("0", 0), ("007", 7), ("9" * 19, int("9" * 19))])
def test_a_cursor_is_a_number(text, cursor):
    assert parse_cursor(text) == cursor


@pytest.mark.parametrize("text", ["-1", "1.5", "abc", " 1", "１２", "²", "1" * 20, "1e3", "\x00", "0x1"])
def test_what_is_no_cursor_of_ours_is_refused(text):
    with raises(CURSOR_INVALID):
        parse_cursor(text)


# --- merging


def stored(seq: int) -> Line:
    return to_line(encode(StatusPayload(seq=seq, status="x"), "run_1", "thr_1"))


def withdrawn(seq: int, *ranges: list[int]) -> Line:
    return to_line(encode(WithdrawnPayload(seq=seq, ranges=ranges), "run_1", "thr_1"))


@given(st.integers(0, 30), st.sets(st.integers(2, 29)), st.randoms(use_true_random=False), st.integers(1, 5))
def test_any_order_with_repetitions_comes_out_in_order_once(cursor: int, holes: set[int], rnd: random.Random, at_once):
    complete = [stored(n) for n in range(1, 30) if n not in holes]
    complete.append(withdrawn(30, *ranges_of(holes)))
    offered = [line for line in complete if line.seq > cursor] + rnd.choices(complete, k=10)
    rnd.shuffle(offered)
    merge = Merge(cursor)

    delivered = [line for i in range(0, len(offered), at_once) for line in merge.offer(offered[i : i + at_once])]

    assert delivered == [line for line in complete if line.seq > cursor]
    assert not merge.has_gap


@given(st.sets(st.integers(1, 20), min_size=1), st.sets(st.integers(1, 20)), st.randoms(use_true_random=False))
def test_nothing_passes_a_number_that_is_neither_there_nor_declared(there: set[int], declared: set[int], rnd):
    lines, declared = [stored(n) for n in there], declared - there
    rnd.shuffle(lines)
    merge = Merge(0)
    merge.offer([withdrawn(50, *ranges_of(declared))])

    delivered = [line.seq for line in lines for line in merge.offer([line])]

    expected = []
    for n in range(1, 51):
        if n in there:
            expected.append(n)
        elif n == 50 or n not in declared:
            break
    assert delivered == expected or delivered == [*expected, 50]
    assert merge.last == (delivered[-1] if delivered else 0)


def test_a_declaration_counts_also_when_it_comes_long_after():
    merge = Merge(0)

    assert merge.offer([stored(1), stored(5)]) == [stored(1)]
    assert merge.has_gap
    assert merge.offer([withdrawn(9, [2, 2], [4, 4], [6, 8])]) == []
    assert [line.seq for line in merge.offer([stored(3)])] == [3, 5, 9]


# --- reading


async def collect(harness: JournalHarness, accepted, cursor: int = 0) -> list[Line]:
    async with asyncio.timeout(20):
        return await harness.read_all(accepted, cursor)


def test_a_run_is_read_from_before_its_claim_to_its_end(each_log_harness: JournalHarness):
    harness = each_log_harness
    accepted = harness.accept()

    async def play() -> list[Line]:
        reading = asyncio.ensure_future(collect(harness, accepted))
        await settled()
        owner = await harness.loop.write(harness.own, accepted.run_id)
        await owner.say("a", "b")
        await settled()
        await owner.say("c")
        await owner.message()
        await owner.end()
        return await reading

    lines = harness.do(play())

    assert_whole(lines)
    assert [line.type for line in lines] == ["status"] * 2 + ["response"] * 3 + ["message", "end"]
    assert lines == harness.lines(accepted.run_id)


def test_deltas_are_delivered_before_sql_has_them(each_log_harness: JournalHarness):
    harness = each_log_harness
    owner = harness.own()

    async def play() -> list[str]:
        owner.notify_of_claim()
        line_types: list[str] = []
        await owner.say("early")
        async for batch in harness.reader(owner.lease).batches():
            line_types += [line.type for line in batch]
            if "response" in line_types:
                break
        return line_types

    assert harness.do(play()) == ["status", "status", "response"]
    assert harness.kinds(owner.lease.run_id) == ["status", "status"]


def test_an_event_that_is_committed_within_a_message_hides_none_of_the_messages_deltas(
    each_log_harness: JournalHarness,
):
    harness = each_log_harness
    owner = harness.own()
    harness.do(owner.say("one ", "two "))
    harness.do(owner.writer.commit(Commit(events=[StatusPayload(status="running", reason="noted")])))
    harness.do(owner.say("three"))
    stored = harness.lines(owner.lease.run_id)
    where = harness.hot_log, harness.run_row(owner.lease.run_id).tenant, owner.lease.run_id

    async def first_lines() -> list[Line]:
        await settled()
        async for batch in harness.reader(owner.lease).batches():
            return batch
        return []

    page = harness.do(readers.with_live(*where, 0, stored, has_more=False))
    attached = harness.do(first_lines())

    for lines in (page, attached):
        assert [line.type for line in lines] == ["status", "status", "response", "response", "status", "response"]
        assert [line.seq for line in lines] == [1, 2, 3, 4, 5, 6]
    harness.do(owner.message())


def test_readers_that_drop_and_come_back_miss_and_repeat_nothing(each_log_harness: JournalHarness):
    harness = each_log_harness
    owner = harness.own()

    async def drop_often(lines: list[Line]) -> None:
        while not (lines and lines[-1].is_end):
            batches = harness.reader(owner.lease, lines[-1].seq if lines else 0).batches()
            lines += await anext(batches)
            await batches.aclose()

    async def play() -> list[list[Line]]:
        owner.notify_of_claim()
        line_lists: list[list[Line]] = [[], [], []]
        reading = [asyncio.ensure_future(drop_often(lines)) for lines in line_lists]
        for number in range(6):
            await owner.say(*"text", message_id=f"msg_{number}")
            await asyncio.sleep(0.001)
            await owner.message(message_id=f"msg_{number}")
        await owner.end()
        async with asyncio.timeout(20):
            await asyncio.gather(*reading)
        return line_lists

    for lines in harness.do(play()):
        assert lines == harness.lines(owner.lease.run_id)


def test_an_ended_run_is_read_from_sql_and_after_its_end_there_is_nothing(small_harness: JournalHarness):
    owner = small_harness.own()
    small_harness.do(owner.say("a"))
    small_harness.do(owner.message())
    small_harness.do(owner.end())

    async def play() -> list[list[Line]]:
        return [await collect(small_harness, owner.lease, cursor) for cursor in (0, 3, 4)]

    whole, middle, last = small_harness.do(play())

    assert [line.seq for line in whole] == [1, 2, 3, 4, 5]
    assert [[line.seq for line in lines] for lines in (middle, last)] == [[4, 5], [5]]


def test_what_the_hot_log_lost_comes_from_sql_also_while_more_keeps_coming(small_harness: JournalHarness):
    """A gap is asked about after a while, however busy the stream behind it is."""
    owner = small_harness.own()
    hot, reader = small_harness.hot_log, small_harness.reader(owner.lease)
    assert isinstance(hot, MemoryHotLog)

    async def talk() -> None:
        while True:
            await owner.say("x")
            if len(owner.delivered) > 40:  # the reader asked SQL long ago, and found nothing
                owner.writer.seal_soon()
            await asyncio.sleep(0.002)

    async def play() -> list[int]:
        owner.notify_of_claim()
        await owner.say("lost", "too")
        hot._runs[owner.lease.run_id].lines.clear()
        talking, seqs = asyncio.ensure_future(talk()), []
        async with asyncio.timeout(20):
            async for batch in reader.batches():
                seqs += [line.seq for line in batch]
                if seqs[-1] > 6:
                    break
        talking.cancel()
        return seqs

    seqs = small_harness.do(play())

    assert seqs == list(range(1, seqs[-1] + 1))


def test_a_hole_is_passed_though_what_declares_it_is_pages_away(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log, "PAGE", 3)
    owner = small_harness.own()

    async def play() -> list[Line]:
        await owner.say("lost")
        for _ in range(10):
            await owner.writer.commit(Commit(events=[StatusPayload(status="running")]))
        await owner.writer.withdraw("msg_1", EndPayload(status="failed"))
        await small_harness.hot_log.detach(owner.lease.run_id)
        return await collect(small_harness, owner.lease)

    lines = small_harness.do(play())

    assert_whole(lines)
    assert len(lines) == 14


def test_an_undelivered_end_is_found(small_harness: JournalHarness):
    owner = small_harness.own()

    async def play() -> list[Line]:
        owner.notify_of_claim()
        reading = asyncio.ensure_future(collect(small_harness, owner.lease))
        await settled()
        owner.hot_log = MemoryHotLog()
        await owner.end()
        return await reading

    assert [line.type for line in small_harness.do(play())] == ["status", "status", "end"]


def test_a_database_that_is_away_for_a_moment_is_asked_again(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    owner = small_harness.own()
    small_harness.do(owner.end())
    queries, log_page = [], log.log_page

    def fail_twice(*where):
        queries.append(where)
        if len(queries) < 3:
            raise DatabaseUnreachable("gone")
        return log_page(*where)

    monkeypatch.setattr(readers, "log_page", fail_twice)

    assert_whole(small_harness.do(collect(small_harness, owner.lease)))
    assert len(queries) >= 3


def test_a_reader_that_leaves_unsubscribes(small_harness: JournalHarness):
    owner = small_harness.own()
    hot = small_harness.hot_log
    assert isinstance(hot, MemoryHotLog)

    async def play() -> None:
        batches = small_harness.reader(owner.lease).batches()
        await anext(batches)
        assert hot._listeners
        await batches.aclose()

    small_harness.do(play())

    assert not hot._listeners


def test_a_run_that_ended_without_an_event_would_be_waited_for(small_harness: JournalHarness):
    """The end is an event, not a state: a reader follows the log and nothing else."""
    owner = small_harness.own()
    with small_harness.database.write() as connection:
        connection.execute(update(runs).values(status="failed"))

    async def play() -> bool:
        reading = asyncio.ensure_future(collect(small_harness, owner.lease))
        done, _ = await asyncio.wait([reading], timeout=0.1)
        reading.cancel()
        return bool(done)

    assert small_harness.do(play()) is False


class StuckHotLog(MemoryHotLog):
    """Answers when a test lets it, as a Redis that is stuck, and delivers nothing, as one without a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def read_after(self, tenant: str, run_id: str, cursor: int) -> list[Line]:
        await self.may_answer.wait()
        return await super().read_after(tenant, run_id, cursor)

    async def follow(self, tenant: str, run_id: str, listener: Listener) -> None:
        """Nothing is received."""


def test_a_hot_log_that_is_stuck_holds_nothing_up_that_sql_has(small_harness: JournalHarness):
    harness = JournalHarness(small_harness.database, small_harness.loop, StuckHotLog())
    owner = harness.own()

    async def play() -> list[Line]:
        reading = asyncio.ensure_future(collect(harness, owner.lease))
        await owner.say("a", "b")
        await owner.message("ab")
        await owner.end()
        return await reading

    lines = harness.do(play())

    assert_whole(lines)
    assert lines == harness.lines(owner.lease.run_id)


def test_what_a_stuck_hot_log_answers_late_is_taken(small_harness: JournalHarness):
    hot_log = StuckHotLog()
    harness = JournalHarness(small_harness.database, small_harness.loop, hot_log)
    owner = harness.own()

    async def play() -> list[str]:
        line_types: list[str] = []
        owner.notify_of_claim()
        await owner.say("only here")
        async for batch in harness.reader(owner.lease).batches():
            line_types += [line.type for line in batch]
            hot_log.may_answer.set()
            if "response" in line_types:
                break
        return line_types

    assert harness.do(play()) == ["status", "status", "response"]


def test_a_reader_that_found_missed_live_events_in_sql_queries_more_often(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(readers, "IDLE_S", 0.2)
    monkeypatch.setattr(readers, "POLL_S", 0.05)
    hot_log = StuckHotLog()
    hot_log.may_answer.set()
    harness = JournalHarness(small_harness.database, small_harness.loop, hot_log)
    owner = harness.own()
    waited_s: list[float] = []

    async def play() -> None:
        reader = harness.reader(owner.lease)
        wait = reader._wait

        async def noting(timeout_s: float) -> None:
            waited_s.append(timeout_s)
            await wait(timeout_s)

        reader._wait = noting  # type: ignore[method-assign]  # to see how long it means to wait
        reading = asyncio.ensure_future(collect_from(reader))
        while not waited_s:
            await asyncio.sleep(0)
        await owner.message("undelivered")
        while waited_s[-1] != 0.05:
            await asyncio.sleep(0.01)
        reader._on_lines([(await collect_page(harness, owner))[0]])  # something arrives after all
        while waited_s[-1] != 0.2:
            await asyncio.sleep(0.01)
        await owner.end()
        await reading

    harness.do(play())

    assert waited_s[0] == 0.2


async def collect_from(reader: readers.Reader) -> list[Line]:
    async with asyncio.timeout(20):
        return [line async for batch in reader.batches() for line in batch]


async def collect_page(harness: JournalHarness, owner: Owner) -> list[Line]:
    return await harness.loop.read(harness.lines, owner.lease.run_id)
