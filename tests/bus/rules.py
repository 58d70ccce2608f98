"""What must hold of runs at every moment, whatever was done to them: read from SQL, and from what was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import BindParameter, bindparam, select

from bus.journal.line import Line
from bus.journal.reaper import claimable
from bus.payloads import TERMINAL, Payload, encode
from config.tables import approvals, events, messages, outbox, runs, steps
from tests.bus.hands import Hands, Outside
from tests.bus.viewer import declared, final, is_piece, pieced
from tests.bus.world import World, assert_whole

# Built once: they are asked after each rule.
ITS: BindParameter[str] = bindparam("its_id")
OF_THREADS = runs.c.thread_id.in_([bindparam("first"), bindparam("second")])
RUN = select(runs).where(runs.c.id == ITS)
MINE = select(runs).where(OF_THREADS).order_by(runs.c.thread_key, runs.c.turn)
OPEN = (
    select(runs.c.id).where(runs.c.thread_key == bindparam("its_key"), runs.c.ended_ms.is_(None)).order_by(runs.c.turn)
)
ANNOUNCED = select(outbox.c.id).where(outbox.c.run_id == ITS)
FENCES = select(events.c.fence).where(events.c.run_id == ITS).order_by(events.c.first_seq)
STEPS = select(steps).where(steps.c.run_id == ITS)
HISTORY = (
    select(messages.c.data_json)
    .where(messages.c.run_id == ITS, messages.c.role.in_(["assistant", "tool"]))
    .order_by(messages.c.number)
)
ASKED = (
    select(approvals)
    .join(runs, runs.c.id == approvals.c.run_id)
    .where(OF_THREADS)
    .order_by(approvals.c.created_ms, approvals.c.id)
)


class Rules:
    """The rules over the runs of two threads."""

    def __init__(self, world: World, threads: Sequence[str], outside: Outside) -> None:
        self._world = world
        self._threads = {"first": threads[0], "second": threads[1]}
        self._outside = outside
        self._seen: dict[str, Any] = {}
        self._turns: list[Any] = []
        self._told: dict[tuple[str, int], bytes] = {}
        self._fences: set[tuple[str, int]] = set()

    # --- what there is

    def row(self, run_id: str) -> Any:
        (row,) = self._rows(RUN, its_id=run_id)
        return row

    def first_open(self, thread_key: int) -> str | None:
        """Return the thread's oldest run that has not ended."""
        rows = self._rows(OPEN, its_key=thread_key)
        return rows[0].id if rows else None

    def asked(self) -> list[Any]:
        """Return every question that was asked, in order."""
        return self._rows(ASKED, **self._threads)

    # --- what is told and given out

    def note_all_told(self, hands: Hands) -> None:
        for payload in hands.owner.told:
            self.note_told(hands.lease.run_id, hands.lease.thread_id, payload)
        hands.owner.told.clear()

    def note_told(self, run_id: str, thread_id: str, payload: Payload) -> None:
        """No number is given to two events, whoever gives it."""
        line = encode(payload, run_id, thread_id)
        assert self._told.setdefault((run_id, payload.seq), line) == line, "a number was given twice"

    def is_new_fence(self, run_id: str, fence: int) -> bool:
        """Return whether nobody had this fence before."""
        is_new = (run_id, fence) not in self._fences
        self._fences.add((run_id, fence))
        return is_new

    # --- what holds

    def check(self) -> None:
        """Look at whatever changed since the last time."""
        rows = self._rows(MINE, **self._threads)
        turns = [(row.id, row.status, row.lease_until) for row in rows]
        if self._turns != turns:
            self._turns = turns
            self._check_turns(rows)
        for row in rows:
            before = self._seen.get(row.id)
            if before != row:
                assert before is None or row.fence >= before.fence, "a fence fell"
                self._seen[row.id] = row
                self._check_log(row)

    def _check_turns(self, rows: Sequence[Any]) -> None:
        """A thread's oldest open run alone is owned; and whatever may begin is announced and found."""
        free = set()
        for key in {row.thread_key for row in rows}:
            open_runs = [row for row in rows if row.thread_key == key and row.status not in TERMINAL]
            assert {row.status for row in open_runs[1:]} <= {"queued"}, "two runs of a thread at once"
            free |= {row.id for row in open_runs[:1] if row.status == "queued" and not row.lease_until}
        with self._world.database.read() as connection:
            found = {row.id for row in claimable(connection, self._world.database, 1000)}
        unannounced = [run_id for run_id in free if not self._rows(ANNOUNCED, its_id=run_id)]
        assert unannounced == [], f"may begin, and nobody is told: {unannounced}"
        mine = found & {row.id for row in rows}
        assert mine == free, f"may begin: {free}; found by those who are not told: {mine}"

    def _check_log(self, row: Any) -> None:
        lines = self._world.lines(row.id, thread_id=row.thread_id)
        numbers = [line.seq for line in lines]
        fences = [event.fence for event in self._rows(FENCES, its_id=row.id)]
        assert numbers == sorted(set(numbers)), f"numbers fall: {numbers}"
        assert numbers[-1] <= row.reserved_to, "a number nobody reserved"
        assert fences == sorted(fences), f"fences fall along the log: {fences}"
        differ = [line for line in lines if self._told.get((row.id, line.seq), line.data) != line.data]
        assert differ == [], f"not as they were told: {differ}"
        self._check_settled(row, lines)
        self._check_history(row, lines)
        self._check_steps(row)
        if row.status in TERMINAL:
            self._check_ended(row, lines)
        else:
            assert not any(line.is_end for line in lines), f"an end of a run that is {row.status}"

    def _check_settled(self, row: Any, lines: Sequence[Line]) -> None:
        """Up to ``declared_to`` every number is final or was withdrawn."""
        whole = {_message_of(line) for line in lines if line.type == "message"}
        kept = {line.seq for line in lines if not is_piece(line) or _message_of(line) in whole} | declared(lines)
        unsettled = [number for number in range(1, row.declared_to + 1) if number not in kept]
        assert unsettled == [], f"neither final nor withdrawn, below {row.declared_to}: {unsettled}"

    def _check_history(self, row: Any, lines: Sequence[Line]) -> None:
        """The history rebuilt from the log is the stored one."""
        told = [orjson.loads(line.data) for line in lines if line.type in ("message", "tool_result")]
        stored = [orjson.loads(item.data_json) for item in self._rows(HISTORY, its_id=row.id)]
        fields = ("content", "reasoning", "tool_calls", "call_id", "name", "outcome", "result")
        rebuilt, kept = ([[one.get(field) for field in fields] for one in items] for items in (told, stored))
        assert rebuilt == kept, f"the log says {rebuilt}, the history {kept}"

    def _check_steps(self, row: Any) -> None:
        its_steps = self._rows(STEPS, its_id=row.id)
        assert len({step.idempotency_key for step in its_steps}) == len(its_steps), "a key of two steps"
        for step in its_steps:
            may = 1 + self._outside.again[step.id]
            assert step.effect != "unsafe" or self._outside.effects[step.id] <= may, "done twice by itself"
            assert row.status not in TERMINAL or step.ended_ms is not None, f"left open: {step.kind} {step.status}"

    def _check_ended(self, row: Any, lines: list[Line]) -> None:
        assert_whole(lines)
        end = orjson.loads(lines[-1].data)["status"], lines[-1].seq
        assert end == (row.status, row.reserved_to), f"the log ends {end}, the run {row.status}, {row.reserved_to}"
        assert pieced(lines) == final(lines), "the pieces are not the messages"
        assert (row.owner, row.ended_ms is None) == (None, False), "somebody owns what ended"

    def _rows(self, query: Any, **asked: Any) -> list[Any]:
        with self._world.database.read() as connection:
            return list(connection.execute(query, asked).all())


def _message_of(line: Line) -> str:
    return str(orjson.loads(line.data).get("message_id", ""))
