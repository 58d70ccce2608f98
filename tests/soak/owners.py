"""Who owned a run, one after another, as its log and its row tell it: I5 and I25."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson
from sqlalchemy import Connection, select

from config.tables import events, runs, steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One time a run got an owner."""

    run_id: str
    fence: int
    attempt: int
    """Which owner it calls itself, from 1."""
    position: int
    """Its place among the events of all runs, which is the order of the commits of one thread's runs."""
    at_ms: int


def claims_of(connection: Connection) -> dict[str, list[Claim]]:
    """Return the claims of every run, in the order of its log."""
    query = select(events).where(events.c.type == "status").order_by(events.c.run_id, events.c.seq)
    found: dict[str, list[Claim]] = defaultdict(list)
    for row in connection.execute(query):
        event = orjson.loads(row.data_json)
        if event["status"] == "running":
            at_ms = int(datetime.fromisoformat(event["at"]).timestamp() * 1000 + 0.5)
            found[row.run_id].append(
                Claim(run_id=row.run_id, fence=row.fence, attempt=event["attempt"], position=row.position, at_ms=at_ms)
            )
    return found


def shared_fences(connection: Connection, claims: Mapping[str, Sequence[Claim]]) -> Iterator[str]:
    """I5: each owner has a fence of its own, works under that one, and is lost at most once."""
    for run_id, its in claims.items():
        twice = [fence for fence, times in Counter(claim.fence for claim in its).items() if times > 1]
        if twice or any(claim.fence != claim.attempt for claim in its):
            yield f"I5 {run_id} had several owners under one fence: {[(c.fence, c.attempt) for c in its]}"
    known = {(claim.run_id, claim.fence) for its in claims.values() for claim in its}
    for step in connection.execute(select(steps.c.run_id, steps.c.number, steps.c.fence)):
        if (step.run_id, step.fence) not in known:
            yield f"I5 step {step.number} of {step.run_id} was begun under fence {step.fence}, which nobody had"
    for row in connection.execute(select(runs.c.id, runs.c.crashes, runs.c.crashes_json)):
        lost = [crash["attempt"] for crash in orjson.loads(row.crashes_json or "[]")]
        if len(set(lost)) != row.crashes or len(lost) != row.crashes:
            yield f"I5 {row.id} has {row.crashes} crashes, and lost its owners {lost}"


def owned_at_once(connection: Connection, claims: Mapping[str, Sequence[Claim]]) -> Iterator[str]:
    """I25: no run of a thread had an owner before every older one of that thread had ended."""
    ends = {
        row.run_id: row.position
        for row in connection.execute(select(events.c.run_id, events.c.position).where(events.c.type == "end"))
    }
    query = select(runs.c.id, runs.c.thread_key).order_by(runs.c.thread_key, runs.c.turn)
    latest: dict[int, tuple[int, str]] = {}  # of each thread: where the last end of its older runs stands
    for run_id, thread_key in connection.execute(query):
        end, older = latest.get(thread_key, (0, ""))
        if any(claim.position < end for claim in claims.get(run_id, ())):
            yield f"I25 {run_id} had an owner before {older} of the same thread had ended"
        if run_id in ends:
            latest[thread_key] = max(latest.get(thread_key, (0, "")), (ends[run_id], run_id))
