"""The commit that ends or releases a run notifies its readers, also where no observer streams the run's events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import aclosing

import pytest

from agents.governance.guardrails.guardrails import Guardrails
from bus.journal.journal import Journal
from bus.journal.live import reader as readers
from bus.journal.live.reader import Reader
from bus.journal.log.commit import Commit
from bus.journal.log.line import Line, stored_line, to_line
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.loop import ProcessLoop
from bus.payloads import EndPayload, StatusPayload, encode
from config.database.engine import Database
from config.settings import Settings
from tests.bus.journal_harness import JournalHarness, Owner, new_run

Work = Callable[[Owner], Coroutine[None, None, object]]


@pytest.fixture(autouse=True)
def never_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader queries SQL for a reason, or not at all."""
    for name in ("GAP_S", "IDLE_S", "POLL_S"):
        monkeypatch.setattr(readers, name, 3600.0)


async def waiting(reader: Reader) -> None:
    """Return when the reader has read all there is."""
    async with asyncio.timeout(20):
        while reader._waiter is None:
            await asyncio.sleep(0)


async def read_beside(harness: JournalHarness, work: Work, *, is_streamed: bool = False) -> list[Line]:
    """Return what a reader that waits gets next when the run's owner does ``work``."""
    lease = harness.own().lease
    owner = Owner(harness, lease, is_streamed=is_streamed)
    reader = harness.reader(lease)
    async with aclosing(reader.batches()) as batches, asyncio.timeout(20):
        await anext(batches)
        following = asyncio.ensure_future(anext(batches))
        await waiting(reader)
        await work(owner)
        return await following


async def end(owner: Owner) -> None:
    await owner.message()
    await owner.end()


async def ask(owner: Owner) -> None:
    waits = StatusPayload(status="waiting", reason=Reason.APPROVAL)
    release = Release(status="waiting", reason=Reason.APPROVAL)
    await owner.writer.commit(Commit(events=[waits], release=release))


@pytest.mark.parametrize(("work", "last"), [(end, "end"), (ask, "status")])
def test_the_commit_that_ends_or_releases_a_run_notifies_its_reader(
    each_log_harness: JournalHarness, work: Work, last: str
):
    lines = each_log_harness.do(read_beside(each_log_harness, work))

    assert lines[-1].type == last


def test_an_end_that_arrives_behind_a_gap_is_read_in_sql_with_what_came_before(each_log_harness: JournalHarness):
    async def end_without_owner(owner: Owner) -> None:
        """End it as the journal does where a run has no owner, which streams the end whatever the observers."""
        await owner.message()
        (payload,) = await owner.end()
        line = encode(payload, owner.lease.run_id, owner.lease.thread_id)
        owner.hot_log.append(owner.lease.run_id, payload.seq, line)

    each_log_harness.hot_log.hint_stored = lambda run_id, upto: None  # type: ignore[method-assign]  # only the end

    lines = each_log_harness.do(read_beside(each_log_harness, end_without_owner))

    assert [line.type for line in lines] == ["message", "end"]


def test_a_hint_that_comes_while_sql_is_read_is_a_reason_to_read_it_again(small_harness: JournalHarness):
    owner = Owner(small_harness, small_harness.own().lease, is_streamed=False)
    reader = small_harness.reader(owner.lease)
    read_page = reader._read_page

    def read_and_miss_the_end(cursor: int) -> list[Line]:
        lines = read_page(cursor)
        if cursor == 2 and not owner.writer.is_closed:
            small_harness.do(owner.end())  # after the page was read
        return lines

    reader._read_page = read_and_miss_the_end  # type: ignore[method-assign]  # to end the run at that moment

    lines = small_harness.do(collected(reader))

    assert [line.type for line in lines] == ["status", "status", "end"]


async def collected(reader: Reader) -> list[Line]:
    async with asyncio.timeout(20):
        return [line async for batch in reader.batches() for line in batch]


def test_an_old_hint_is_no_reason_to_query_sql(small_harness: JournalHarness):
    async def play() -> list[bool]:
        lease = small_harness.own().lease
        reader, last = small_harness.reader(lease), lease.next_seq - 1
        async with aclosing(reader.batches()) as batches:
            assert (await anext(batches))[-1].seq == last
            reads = []
            for upto in (last - 1, last, last + 1):
                reader._must_read = False
                reader._on_lines([to_line(stored_line(upto))])
                reads.append(reader._must_read)
            return reads

    assert small_harness.do(play()) == [False, False, True]


def test_the_end_notifies_another_process(
    sqlite: Database, sqlite_url: str, redis_settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    is_waiting = threading.Event()

    class NotedReader(Reader):
        async def _wait(self, timeout_s: float) -> None:
            is_waiting.set()
            await super()._wait(timeout_s)

    monkeypatch.setattr("bus.journal.actors.readers.Reader", NotedReader)
    settings = redis_settings.model_copy(update={"database_url": sqlite_url})
    here, there = (
        Journal(settings, publish=lambda message: None, guard=Guardrails, loop=ProcessLoop()) for _ in range(2)
    )
    accepted = here.clients.accept(new_run(observers=()))
    waiter = here.loop.submit(here.readers.wait("default", accepted.run_id, accepted.thread_id))
    assert is_waiting.wait(20)

    async def end_it() -> None:
        lease = await there.owner.claim(accepted.run_id)
        assert lease is not None
        writer = there.owner.writer(lease, lambda payload: None)
        there.owner.begin_writing(lease, writer)
        await writer.commit(Commit(events=[EndPayload(status="succeeded")]))
        await there.owner.disown(lease)

    there.loop.run(end_it(), 20)
    line = waiter.result(20)
    for journal in (here, there):
        journal.close()

    assert line.is_end
