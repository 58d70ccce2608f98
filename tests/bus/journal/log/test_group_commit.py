"""Group commit: many writes share a commit, each succeeds or fails alone, and callers are notified after it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, update

from bus.journal.errors import StaleOwner
from bus.journal.log import group_commit
from bus.journal.log import writer as writers
from bus.journal.log.commit import Commit
from bus.journal.log.group_commit import LARGEST, GroupCommit
from bus.payloads import EndPayload
from config.database.engine import Database
from config.database.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnreachable
from config.database.tables import runs
from config.errors import BadRequest
from config.failpoints import FailpointHit
from tests.bus.faulty_commits import Fault, FaultyCommits
from tests.bus.journal_harness import JournalHarness, Owner

SIZE = 20


class Held:
    """A group commit whose thread is kept busy until it is released, so that everything after waits for it together."""

    def __init__(self, database: Database) -> None:
        self.commits = GroupCommit(database)
        self._may_go = threading.Event()
        is_busy = threading.Event()

        def keep_busy(_connection: Connection) -> None:
            is_busy.set()
            assert self._may_go.wait(20)

        self._first = self.commits.submit("run_0", keep_busy)
        assert is_busy.wait(20)

    def release(self) -> None:
        self._may_go.set()
        self._first.result(20)


@pytest.fixture
def run_ids(harness: JournalHarness) -> list[str]:
    """Runs that were accepted before the writer is kept busy."""
    return [harness.accept("Hello").run_id for _ in range(SIZE)]


@pytest.fixture
def held(harness: JournalHarness, run_ids: list[str]) -> Iterator[Held]:
    hold = Held(harness.database)
    yield hold
    hold.release()
    hold.commits.close()


@pytest.fixture
def committed(harness: JournalHarness) -> Iterator[list[str]]:
    """A list that grows with each commit of the database."""
    commit_log: list[str] = []

    def note(_connection: Connection) -> None:
        commit_log.append("commit")

    event.listen(harness.database.engine, "commit", note)
    yield commit_log
    event.remove(harness.database.engine, "commit", note)


def title(run_id: str, text: str) -> Callable[[Connection], str]:
    def work(connection: Connection) -> str:
        connection.execute(update(runs).where(runs.c.id == run_id).values(title=text))
        return text

    return work


def fail(run_id: str, error: Exception) -> Callable[[Connection], str]:
    """Return work that writes and then raises."""

    def work(connection: Connection) -> str:
        title(run_id, "undone")(connection)
        raise error

    return work


def titles(harness: JournalHarness) -> dict[str, str]:
    return {row.id: row.title for row in harness.rows(select(runs.c.id, runs.c.title))}


def test_what_waits_shares_one_commit(
    harness: JournalHarness, run_ids: list[str], held: Held, committed: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "LONGEST_S", 60.0)
    written = [held.commits.submit(run_id, title(run_id, "written")) for run_id in run_ids]
    held.release()

    assert [future.result(20) for future in written] == ["written"] * SIZE
    assert len(committed) == 2, "the one that was on its way, and one for all the others"
    assert set(titles(harness).values()) == {"written"}


def test_a_write_that_is_alone_waits_for_no_company(harness: JournalHarness, committed: list[str]):
    commits, run_id = GroupCommit(harness.database), harness.accept().run_id
    committed.clear()

    for number in range(3):
        commits.submit(run_id, title(run_id, str(number))).result(20)

    assert len(committed) == 3


@pytest.mark.parametrize("error", [StaleOwner("run_x", 1), BadRequest("not this one"), ValueError("a mistake")])
def test_a_write_that_fails_undoes_no_other(harness: JournalHarness, run_ids: list[str], held: Held, error: Exception):
    first, failed, last = (
        held.commits.submit(run_id, fail(run_id, error) if number == 1 else title(run_id, "written"))
        for number, run_id in enumerate(run_ids[:3])
    )
    held.release()

    assert (first.result(20), last.result(20)) == ("written", "written")
    with pytest.raises(type(error)):
        failed.result(20)
    assert [titles(harness)[run_id] for run_id in run_ids[:3]] == ["written", "Hello", "written"]


def test_an_error_of_the_database_in_one_write_undoes_no_other(run_ids: list[str], held: Held):
    def break_a_rule(connection: Connection) -> None:
        connection.execute(update(runs).where(runs.c.id == run_ids[1]).values(status=None))

    written = [held.commits.submit(run_ids[n], title(run_ids[n], "written")) for n in (0, 2)]
    broken = held.commits.submit(run_ids[1], break_a_rule)
    held.release()

    assert [future.result(20) for future in written] == ["written"] * 2
    assert broken.exception(20) is not None


@pytest.mark.parametrize("error", [DatabaseUnreachable("gone"), DatabaseDamaged("torn")])
def test_a_commit_that_fails_is_raised_for_all_and_retried_for_none(
    harness: JournalHarness, run_ids: list[str], held: Held, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """Whether it counted is unknown: only the callers can find out, each by its own row."""
    calls: list[str] = []

    def work(run_id: str) -> Callable[[Connection], str]:
        def count(connection: Connection) -> str:
            calls.append(run_id)
            return title(run_id, "written")(connection)

        return count

    written = [held.commits.submit(run_id, work(run_id)) for run_id in run_ids]
    monkeypatch.setattr(harness.database.engine.dialect, "do_commit", lambda _connection: _raise(error))
    held._may_go.set()

    assert [type(future.exception(20)) for future in written] == [type(error)] * SIZE
    assert len(calls) == SIZE
    monkeypatch.undo()
    assert set(titles(harness).values()) == {"Hello"}
    held._first = Future()
    held._first.set_result(None)


@pytest.mark.postgres
def test_a_row_that_another_process_has_locked_holds_up_no_other_run(postgres_harness: JournalHarness):
    """As a web process does that was stopped in the middle of a transaction."""
    database = postgres_harness.database
    run_ids = [postgres_harness.accept("Hello").run_id for _ in range(5)]
    commits = GroupCommit(database, 2)
    with database.write() as other:
        title(run_ids[2], "locked")(other)
        written = [commits.submit(run_id, title(run_id, "written")) for run_id in run_ids]
        assert [future.result(20) for n, future in enumerate(written) if n != 2] == ["written"] * 4
        assert not written[2].done()

    assert written[2].result(20) == "written"
    commits.close()
    assert set(titles(postgres_harness).values()) == {"written"}


def test_no_future_is_done_before_the_commit(
    harness: JournalHarness, run_ids: list[str], held: Held, monkeypatch: pytest.MonkeyPatch
):
    written = [held.commits.submit(run_id, title(run_id, "written")) for run_id in run_ids]
    seen: list[bool] = []
    commit = harness.database.engine.dialect.do_commit

    def look(connection: Any) -> None:
        seen.append(any(write.done() for write in written))
        commit(connection)

    monkeypatch.setattr(group_commit, "LONGEST_S", 60.0)  # one group, also on a machine with other work
    monkeypatch.setattr(harness.database.engine.dialect, "do_commit", look)
    held.release()
    for future in written:
        future.result(20)

    assert seen
    assert not any(seen)


def test_what_is_done_behind_the_commit_concerns_its_own_write_alone(
    harness: JournalHarness, run_ids: list[str], held: Held
):
    """As a failpoint that raises."""
    hit = held.commits.submit(run_ids[0], title(run_ids[0], "a"), then=lambda: _raise(FailpointHit("commit")))
    other = held.commits.submit(run_ids[1], title(run_ids[1], "b"))
    held.release()

    assert isinstance(hit.exception(20), FailpointHit)
    assert other.result(20) == "b"
    assert [titles(harness)[run_id] for run_id in run_ids[:2]] == ["a", "b"]


def test_a_group_has_a_largest_size_and_nothing_is_left_behind(harness: JournalHarness, held: Held):
    order: list[int] = []

    def note(number: int) -> Callable[[Connection], None]:
        return lambda _connection: order.append(number)

    written = [held.commits.submit("run", note(number)) for number in range(2 * LARGEST + 1)]
    held.release()
    for future in written:
        future.result(20)

    assert order == list(range(2 * LARGEST + 1)), "writes of one run keep their order"


def test_an_urgent_write_goes_before_all_that_wait(harness: JournalHarness, held: Held):
    order: list[str] = []
    for _ in range(2 * LARGEST):
        last = held.commits.submit("run_b", lambda _: order.append("work"))
    held.commits.submit("run_a", lambda _: order.append("urgent"), is_urgent=True)
    held.release()
    last.result(20)

    assert order[0] == "urgent"


def test_the_delay_is_the_age_of_the_oldest_write_and_nothing_when_all_are_done(harness: JournalHarness):
    held = Held(harness.database)
    assert held.commits.delay_s > 0
    waiting = held.commits.submit("run", lambda _: None)
    held.release()
    waiting.result(20)
    for _ in range(1000):
        if held.commits.delay_s == 0:
            break
        threading.Event().wait(0.005)

    assert held.commits.delay_s == 0


def test_the_end_waits_for_all_threads_together(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    """Eight of them may wait for a Postgres that is frozen."""
    monkeypatch.setattr(group_commit, "CLOSE_S", 0.1)
    commits, may_go = GroupCommit(sqlite, 4), threading.Event()
    monkeypatch.setattr(sqlite, "write", lambda: may_go.wait(20) and sqlite.engine.begin())
    for _ in range(4):
        commits.submit("run", lambda _: None)
    waits_s: list[float] = []
    join = threading.Thread.join

    def noted(thread: threading.Thread, timeout: float | None = None) -> None:
        waits_s.append(timeout or 0.0)
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", noted)
    commits.close()

    assert len(waits_s) > 1
    assert sum(waits_s) <= 0.1 + 1e-6, "the first wait is all of it"
    may_go.set()


# --- the writers of runs


def owners(harness: JournalHarness, count: int) -> list[Owner]:
    return [harness.own() for _ in range(count)]


def test_runs_that_commit_at_the_same_time_share_commits_and_have_whole_logs(
    harness: JournalHarness, committed: list[str]
):
    group = owners(harness, SIZE)
    committed.clear()

    async def play() -> None:
        await asyncio.gather(*(owner.message() for owner in group))
        await asyncio.gather(*(owner.end() for owner in group))

    harness.do(play())

    assert all(harness.kinds(owner.lease.run_id)[-2:] == ["message", "end"] for owner in group)
    assert all(owner.delivered_seqs == [3, 4] for owner in group)
    if harness.database.is_sqlite:
        assert len(committed) < SIZE, f"{2 * SIZE} changes"


def test_a_stale_owner_in_a_group_is_refused_alone(harness: JournalHarness):
    group = owners(harness, 5)
    stale = group[2]
    harness.expire_lease(stale.lease.run_id)
    harness.claim(stale.lease.run_id, "own_2")

    async def play() -> list[Any]:
        return await asyncio.gather(*(owner.message() for owner in group), return_exceptions=True)

    outcomes = harness.do(play())

    assert isinstance(outcomes[2], StaleOwner)
    assert [len(events) for n, events in enumerate(outcomes) if n != 2] == [1] * 4
    assert stale.delivered == []
    assert stale.writer.is_stale


@pytest.mark.parametrize("fault", ["busy", "reply_lost"])
def test_a_group_whose_commit_fails_is_written_once(
    harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, fault: Fault
):
    if not harness.database.is_sqlite:
        pytest.skip("the faults are SQLite's own")
    faults = [fault]
    FaultyCommits(harness.database, monkeypatch, lambda: faults.pop() if faults else None)
    group = owners(harness, 5)

    async def play() -> None:
        await asyncio.gather(*(owner.message() for owner in group))

    harness.do(play())

    for owner in group:
        assert harness.kinds(owner.lease.run_id) == ["status", "status", "message"]
        assert harness.run_row(owner.lease.run_id).commits == 1


def test_each_run_passes_its_own_failpoints_in_a_group(harness: JournalHarness, monkeypatch: pytest.MonkeyPatch):
    passed: list[str] = []
    monkeypatch.setattr(writers, "failpoint", passed.append)
    group = owners(harness, 5)

    async def play() -> None:
        await asyncio.gather(*(owner.message() for owner in group))

    harness.do(play())

    assert (passed.count("commit-before"), passed.count("commit")) == (5, 5)


@pytest.mark.parity
def test_a_commit_of_its_own_that_is_refused_is_one_line_in_the_log(
    harness: JournalHarness, caplog: pytest.LogCaptureFixture
):
    """Its caller was cancelled meanwhile, so that its error reaches no caller."""
    owner = harness.own()
    harness.expire_lease(owner.lease.run_id)
    harness.claim(owner.lease.run_id, "own_2")

    async def play() -> None:
        commit = asyncio.create_task(owner.writer.commit(Commit(events=[EndPayload(status="succeeded")])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        while any("RunWriter._commit" in repr(task.get_coro()) for task in asyncio.all_tasks()):
            await asyncio.sleep(0.001)

    harness.do(play())
    harness.do(_collect())

    records = [record for record in caplog.records if owner.lease.run_id in record.getMessage()]
    assert [record for record in caplog.records if record.exc_info] == []
    assert len(records) <= 3, "that its owner was lost, that it was taken over, and that a commit was refused"


def test_a_locked_database_is_raised_for_all(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    commits = GroupCommit(sqlite)
    monkeypatch.setattr(sqlite, "write", lambda: _raise(DatabaseBusy("locked")))

    assert isinstance(commits.submit("run", lambda _: None).exception(20), DatabaseBusy)


async def _collect() -> None:
    import gc

    gc.collect()
    await asyncio.sleep(0)


def _raise(error: Exception) -> None:
    raise error


def test_a_thread_that_waits_writes_by_itself_while_it_is_alone(harness: JournalHarness, committed: list[str]):
    commits, run_id = GroupCommit(harness.database), harness.accept().run_id
    committed.clear()

    thread = commits.run(run_id, lambda _connection: threading.current_thread())

    assert thread is threading.current_thread()
    assert committed == ["commit"]
    assert commits.delay_s == 0


def test_a_thread_that_waits_joins_the_group_of_the_others(
    harness: JournalHarness, run_ids: list[str], held: Held, committed: list[str]
):
    waiting = [held.commits.submit(run_id, title(run_id, "written")) for run_id in run_ids[1:]]
    done: list[str] = []
    joining = threading.Thread(
        target=lambda: done.append(held.commits.run(run_ids[0], title(run_ids[0], "joined"))), daemon=True
    )
    joining.start()
    held.release()
    joining.join(20)

    assert done == ["joined"]
    assert [future.result(20) for future in waiting] == ["written"] * (SIZE - 1)
    assert titles(harness)[run_ids[0]] == "joined"


def test_the_error_of_a_thread_that_writes_by_itself_undoes_its_write(harness: JournalHarness, run_ids: list[str]):
    commits = GroupCommit(harness.database)

    with pytest.raises(BadRequest):
        commits.run(run_ids[0], fail(run_ids[0], BadRequest("not this one")))

    assert titles(harness)[run_ids[0]] == "Hello"
    assert commits.delay_s == 0
