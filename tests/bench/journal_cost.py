"""What the journal's own transactions of a run cost, beside the very same rows written bare.

    PYTHONPATH=. .venv/bin/python -m tests.bench.journal_cost [--rounds 3] [--quick] [--json]

The run is that of two tools one after the other: seven commits. Bare means SQLAlchemy's Core on the same engine, with
statements built once and rows made beforehand: the rows that are new behind each of the journal's commits are
inserted, and of those that changed the columns that did are updated by their key. Once with as many commits as the
journal makes, and once with a single one, which has nothing to say of a run that is interrupted.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Executable, Table, bindparam, event, insert, select, update

from config.database.tables import events, messages, outbox, runs, steps, threads
from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    from config.database.engine import Database
    from tests.bus.journal_harness import JournalHarness

TABLES = (threads, runs, messages, events, steps, outbox)
"""In the order in which their rows need each other."""
NUMBERED = {"threads": "key", "events": "position", "outbox": "id"}
"""Keys the database gives; of these only a thread's is referred to."""
UNSYNCED = "SQLite without the disk"
"""With ``synchronous=OFF``: what statements cost, which the disk otherwise hides."""
PIECES = 20
ANSWER = "It is three hundred and ninety-one."
Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


def measure(effort: Effort) -> Report:
    """Return the cost on SQLite and on Postgres."""
    from tests.backends import postgres_tool

    runs_a_round = effort.pick(200, 20)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="cbbench") as name:
        for what in ("SQLite", UNSYNCED):
            url = f"sqlite:///{Path(name) / what.replace(' ', '_')}.db"
            figures += _on(what, url, effort.rounds, runs_a_round, Path(name))
        if postgres_tool("initdb") is not None:
            from tests.backends import PostgresCluster

            with PostgresCluster() as cluster:
                figures += _on("Postgres", cluster.new_database(), effort.rounds, runs_a_round, Path(name))
    return Report(name="journal_cost", title="The journal's own writes: a run with two tools", figures=figures)


def _on(what: str, url: str, rounds: int, count: int, folder: Path) -> list[Figure]:
    journal, as_often, at_once = list[float](), list[float](), list[float]()
    with _open(url, folder, is_synced=what != UNSYNCED) as (harness, clock):
        bare = Bare(harness.database, _template(harness, clock))
        ways: list[tuple[Callable[[], object], list[float]]] = [
            (lambda: _play(harness), []),
            (bare.write_as_often, []),
            (bare.write_at_once, []),
        ]
        for number in range(-1, rounds):  # the first one warms up
            for _, times in ways:
                times.clear()
            for turn in range(count if number >= 0 else 20):
                for work, times in ways if turn % 2 else reversed(ways):
                    clock.taken_s = 0.0
                    work()
                    times.append(clock.taken_s)
            if number < 0:
                continue
            for (_, times), into in zip(ways, (journal, as_often, at_once), strict=True):
                into.append(statistics.median(times) * 1e6)
            say(f"{what}, round {number + 1}: journal {journal[-1]:.0f} µs, bare {as_often[-1]:.0f} µs")
    commits = len(bare.template)
    return [
        Figure(
            name=f"{what}: all transactions of a run",
            unit="µs",
            rounds=journal,
            references=as_often,
            bar=Bar(compares="ratio", limit=1.5) if what != UNSYNCED else None,
            note=f"beside its rows bare in {commits} commits too",
        ),
        Figure(
            name=f"{what}: the same, beside its rows bare in one commit",
            unit="µs",
            rounds=journal,
            references=at_once,
            note=f"which is what {commits} commits cost, and what makes each step last",
        ),
    ]


# --- the journal ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Clock:
    """How long the transactions took that were written since it was set to nothing."""

    taken_s: float = 0.0
    on_commit: Callable[[], None] = field(default=lambda: None)
    """Called behind each of them."""

    def watch(self, database: Database) -> None:
        """Time every writing transaction of a database from here on."""
        write = database.write

        @contextlib.contextmanager
        def timed() -> Iterator[Any]:
            began_s = time.perf_counter()
            with write() as connection:
                yield connection
            self.taken_s += time.perf_counter() - began_s
            self.on_commit()

        object.__setattr__(database, "write", timed)


@contextlib.contextmanager
def _open(url: str, folder: Path, *, is_synced: bool) -> Iterator[tuple[JournalHarness, Clock]]:
    from bus.loop import ProcessLoop
    from config.database.engine import open_database
    from config.database.migrate import migrate
    from tests.bus.journal_harness import JournalHarness

    migrate(Settings(state_dir=folder / "state", database_url=url))
    database, clock = open_database(url), Clock()
    if not is_synced:
        event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    clock.watch(database)
    try:
        yield JournalHarness(database, ProcessLoop()), clock
    finally:
        database.close()


def _play(harness: JournalHarness) -> str:
    """Have the journal write a whole run, as an agent would, and return its id."""
    from bus.journal.ownership.leases import claim_on
    from bus.journal.records.steps import start_steps
    from tests.bus.journal_harness import Owner

    run_id = harness.accept("How much is 17 * 23?").run_id
    first = _model_step(1)
    with harness.database.write() as connection:
        lease = claim_on(connection, harness.database, run_id, "own_bench", 60)
        assert lease is not None
        start_steps(connection, lease.run_id, lease.fence, [first])
    harness.do(_work(Owner(harness, lease), first.id))
    return run_id


async def _work(owner: Any, step_id: str) -> None:
    from bus.journal.owner import Commit
    from bus.payloads import EndPayload

    for number in (1, 2):
        call_step, call = _call(number)
        ended, message, item = await _answer(owner, number, step_id)
        await owner.writer.commit(Commit(events=[message, call], ended=[ended], started=[call_step], history=[item]))
        following = _model_step(number + 1)
        event, ended, item = _result(call_step.id, number)
        await owner.writer.commit(Commit(events=[event], ended=[ended], started=[following], history=[item]))
        step_id = following.id
    ended, message, item = await _answer(owner, 3, step_id)
    end = EndPayload(status="succeeded", output=ANSWER, steps=5, duration_ms=1000, usage={"input_tokens": 100})
    await owner.writer.commit(Commit(events=[message, end], ended=[ended], history=[item]))


async def _answer(owner: Any, number: int, step_id: str) -> tuple[Any, Any, Any]:
    from bus.journal.owner import HistoryItem, StepEnded
    from bus.payloads import MessagePayload, ResponsePayload

    message_id = f"msg_{number}"
    for piece in range(PIECES):
        owner.writer.delta(ResponsePayload, {"content": f"{piece} ", "message_id": message_id, "step_id": step_id})
    ended = StepEnded(id=step_id, status="done", result={"message_id": message_id}, usage={"input_tokens": 100})
    message = MessagePayload(role="assistant", content=ANSWER, message_id=message_id, step_id=step_id)
    return ended, message, HistoryItem(id=message_id, role="assistant", data={"content": ANSWER})


def _model_step(number: int) -> Any:
    from bus.journal.owner import StepStarted
    from config.ids import new_id

    return StepStarted(
        id=new_id("step"),
        kind="model",
        name="openai/gpt-5-mini",
        arguments_digest=f"{number}" * 64,
        idempotency_key=new_id("key"),
    )


def _call(number: int) -> tuple[Any, Any]:
    from bus.journal.owner import StepStarted
    from bus.payloads import ToolPayload
    from config.ids import new_id

    step = StepStarted(
        id=new_id("step"),
        kind="tool",
        name="calculator",
        call_id=f"call_{number}",
        effect="pure",
        arguments_digest="d" * 64,
        idempotency_key=new_id("key"),
    )
    event = ToolPayload(
        call_id=f"call_{number}",
        name="calculator",
        arguments={"expression": "17*23"},
        effect="pure",
        content='calculator(expression="17*23")',
        message_id=f"msg_{number}",
        step_id=step.id,
    )
    return step, event


def _result(step_id: str, number: int) -> tuple[Any, Any, Any]:
    from bus.journal.owner import HistoryItem, StepEnded
    from bus.payloads import ToolResultPayload

    data = {"call_id": f"call_{number}", "name": "calculator", "outcome": "done", "result": 391}
    event = ToolResultPayload(
        call_id=f"call_{number}",
        name="calculator",
        outcome="done",
        result=391,
        duration_ms=1,
        message_id=f"msg_{number}",
        step_id=step_id,
    )
    return (
        event,
        StepEnded(id=step_id, status="done", result=391),
        HistoryItem(id=f"res_{number}", role="tool", data=data),
    )


# --- the same rows, bare --------------------------------------------------------------------------

Change = tuple[Table, str, dict[str, Any]]
"""A table, ``insert`` or ``update``, and the row or what changed in it with its key."""


def _template(harness: JournalHarness, clock: Clock) -> list[list[Change]]:
    """Return what each commit of a run changed, row by row."""
    _play(harness)  # keeps the definition, and whatever else is written once
    seen: list[Rows] = [_snapshot(harness)]
    clock.on_commit = lambda: seen.append(_snapshot(harness))
    _play(harness)
    clock.on_commit = lambda: None
    return [_between(before, after) for before, after in pairwise(seen)]


def _snapshot(harness: JournalHarness) -> Rows:
    rows: Rows = {}
    with harness.database.read() as connection:
        for table in TABLES:
            mappings = connection.execute(select(table)).mappings()
            rows[table.name] = {tuple(row[c.name] for c in table.primary_key): dict(row) for row in mappings}
    return rows


def _between(before: Rows, after: Rows) -> list[Change]:
    changes: list[Change] = []
    for table in TABLES:
        for key, row in after[table.name].items():
            old = before[table.name].get(key)
            if old is None:
                changes.append((table, "insert", row))
            elif old != row:
                key_ = {c.name: row[c.name] for c in table.primary_key}
                changes.append((table, "update", key_ | {name: row[name] for name in row if row[name] != old[name]}))
    return changes


class Bare:
    """Writes the rows of the template again, under other names."""

    def __init__(self, database: Database, template: list[list[Change]]) -> None:
        self.template = template
        self._database = database
        self._count = 0
        self._statements: dict[tuple[str, str, tuple[str, ...]], Executable] = {}
        rows = [row for changes in template for table, _, row in changes if table in (threads, runs, steps)]
        self._names = {row["id"] for row in rows if "id" in row}
        self._thread_key = next(row["key"] for row in rows if "key" in row)

    def write_as_often(self) -> None:
        """Write them with a commit where the journal has one."""
        for commit in self._prepared():
            self._write(commit)

    def write_at_once(self) -> None:
        """Write them with a single commit: each row as it is in the end."""
        whole: dict[tuple[str, Any], tuple[Table, dict[str, Any]]] = {}
        for commit in self._renamed():
            for table, _, row in commit:
                key = (table.name, tuple(row.get(c.name) for c in table.primary_key) if table is not outbox else 0)
                key = key if table is not events else (table.name, (row["run_id"], row["seq"]))
                whole[key] = (table, whole.get(key, (table, {}))[1] | row)
        self._write(self._grouped([(table, "insert", row) for table, row in whole.values()]))

    def _prepared(self) -> list[list[tuple[Executable, list[dict[str, Any]]]]]:
        return [self._grouped(commit) for commit in self._renamed()]

    def _renamed(self) -> list[list[Change]]:
        self._count += 1
        return [[(table, verb, self._rename(table, row)) for table, verb, row in c] for c in self.template]

    def _rename(self, table: Table, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row as it is of another run."""
        ours = {k: f"{v[:-8]}{self._count:08d}" if v in self._names else v for k, v in row.items()}
        for name in ("key", "thread_key"):
            if name in ours:
                ours[name] = -self._count  # never one the database gives
        if table in (events, outbox):
            ours.pop(NUMBERED[table.name])
        return ours

    def _grouped(self, changes: Sequence[Change]) -> list[tuple[Executable, list[dict[str, Any]]]]:
        """Return statements with their rows; rows of one form share an execution."""
        grouped: dict[tuple[str, str, tuple[str, ...]], list[dict[str, Any]]] = {}
        for table, verb, row in changes:
            form = (table.name, verb, tuple(row))
            if form not in self._statements:
                self._statements[form] = _statement(table, verb, row)
            keys = {c.name for c in table.primary_key} if verb == "update" else set[str]()
            grouped.setdefault(form, []).append({f"its_{k}" if k in keys else k: v for k, v in row.items()})
        return [(self._statements[form], rows) for form, rows in grouped.items()]

    def _write(self, commit: Sequence[tuple[Executable, list[dict[str, Any]]]]) -> None:
        with self._database.write() as connection:
            for statement, rows in commit:
                connection.execute(statement, rows if len(rows) > 1 else rows[0])


def _statement(table: Table, verb: str, row: Mapping[str, Any]) -> Executable:
    if verb == "insert":
        return insert(table).inline()
    keys = list(table.primary_key)
    changed: dict[str, Any] = {name: bindparam(name) for name in row if name not in {c.name for c in keys}}
    return update(table).where(*(c == bindparam(f"its_{c.name}") for c in keys)).values(**changed)


if __name__ == "__main__":
    run(measure, __doc__)
