"""What has to hold when the dust has settled: read from SQL, from the log, and from the ledger outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import func, select

from bus.journal.crashes import SUSPECT_AFTER
from bus.journal.events import read_after
from bus.journal.line import Line, withdrawn_ranges
from bus.payloads import TERMINAL
from config.database import Database
from config.tables import events, messages, outbox, runs, steps
from tests.soak.effects import Outside, after_the_stop, decided_twice, recomputed, repeated, unfounded, ungated
from tests.soak.load import Seen, Started, Watched
from tests.soak.owners import claims_of, owned_at_once, shared_fences
from tests.soak.shop import entries
from tests.soak.talk import Asked, output_of


def broken(database: Database, seen: Seen, asked: Sequence[Asked], ledger: Path) -> Iterator[str]:
    """Yield a sentence for everything that does not hold of what people saw, the model was asked, and arrived."""
    with database.read() as connection:
        rows = {row.id: row for row in connection.execute(select(runs))}
        for started in seen.started:
            if started.run_id not in rows:
                yield f"I1 {started.run_id} was answered and is not there"
        for row in rows.values():
            yield from _of_run(connection, row)
        yield from _of_text(rows, seen.started)
        if left := connection.execute(select(func.count()).select_from(outbox)).scalar_one():
            yield f"I16 {left} wake-ups are still in the outbox"
        claims = claims_of(connection)
        yield from shared_fences(connection, claims)
        yield from owned_at_once(connection, claims)
        outside = Outside(connection=connection, entries=list(entries(ledger)), asked=asked, started=seen.started)
        for look in (unfounded, repeated, recomputed, ungated):
            yield from look(outside)
        yield from decided_twice(outside, seen.answered)
        yield from after_the_stop(outside, claims)
        for watched in seen.watched:
            if watched.run_id in rows:
                yield from _of_viewer(watched, _lines(connection, rows[watched.run_id]))


def _lines(connection: Any, row: Any) -> list[Line]:
    lines: list[Line] = []
    while page := read_after(connection, row.id, row.thread_id, lines[-1].seq if lines else 0):
        lines += page
    return lines


def _of_run(connection: Any, row: Any) -> Iterator[str]:
    if row.status not in TERMINAL:
        yield f"finish {row.id} is {row.status} ({row.reason}), crashes {row.crashes}"
        return
    lines = _lines(connection, row)
    seqs = [line.seq for line in lines]
    ends = [line for line in lines if line.is_end]
    if [line.seq for line in ends] != seqs[-1:] or orjson.loads(ends[0].data)["status"] != row.status:
        yield f"I2 {row.id} has {len(ends)} ends, {row.status}"
    declared = {n for line in lines for first, last in withdrawn_ranges(line) for n in range(first, last + 1)}
    if seqs != sorted(set(seqs)) or [n for n in range(1, seqs[-1]) if n not in declared and n not in set(seqs)]:
        yield f"I3 the numbers of {row.id} repeat or have undeclared holes"
    along = select(events.c.fence).where(events.c.run_id == row.id).order_by(events.c.seq)
    fences = list(connection.execute(along).scalars())
    if fences != sorted(fences):
        yield f"I4 the fence falls along the log of {row.id}"
    its_steps = connection.execute(select(steps).where(steps.c.run_id == row.id)).all()
    if any(step.ended_ms is None for step in its_steps):
        yield f"steps of {row.id} never ended"
    if len({step.idempotency_key for step in its_steps}) != len(its_steps):
        yield f"I8 two steps of {row.id} have one key"
    its_messages = connection.execute(select(messages).where(messages.c.run_id == row.id)).all()
    calls = [c["call_id"] for m in its_messages for c in orjson.loads(m.data_json).get("tool_calls", ())]
    results = [orjson.loads(m.data_json)["call_id"] for m in its_messages if m.role == "tool"]
    if sorted(calls) != sorted(results):
        yield f"I10 calls and results of {row.id} differ: {len(calls)} and {len(results)}"


def _of_text(rows: dict[str, Any], all_started: Sequence[Started]) -> Iterator[str]:
    for started in all_started:
        row = rows.get(started.run_id)
        if row is None:
            continue
        if row.status == "succeeded" and orjson.loads(row.output_json) != output_of(started.sentence):
            yield f"the answer of {row.id} is not what the model said"
        was_stopped = row.status == "cancelled" and started.is_stopped
        is_expected = was_stopped or (row.status == "dead" and row.crashes > SUSPECT_AFTER)
        if row.status != "succeeded" and not is_expected:
            yield f"{row.id} ended {row.status} for no cause ({row.reason}); crashes {row.crashes}"


def _of_viewer(watched: Watched, lines: list[Line]) -> Iterator[str]:
    """I11: what a client pieced together equals the log, as far as it has read."""
    if not watched.events:
        return
    numbers = [event["seq"] for event in watched.events]
    if numbers != sorted(set(numbers)):
        yield f"I11 a viewer of {watched.run_id} saw numbers twice or out of order"
    last = numbers[-1]
    log = [orjson.loads(line.data) for line in lines if line.seq <= last]
    if _text(watched.events) != _text(log):
        yield f"I11 a viewer of {watched.run_id} holds another text than the log ({watched.connections} connections)"
    shown = [e["seq"] for e in watched.events if e["type"] not in ("response", "reasoning", "tool")]
    kept = [e["seq"] for e in log if e["type"] not in ("response", "reasoning", "tool")]
    if shown != kept:
        yield f"I11 a viewer of {watched.run_id} missed {sorted(set(kept) - set(shown))[:5]}"


def _text(log: list[dict[str, Any]]) -> str:
    gone = {n for e in log if e["type"] == "withdrawn" for first, last in e["ranges"] for n in range(first, last + 1)}
    return "".join(e["content"] for e in log if e["type"] == "response" and e["seq"] not in gone)
