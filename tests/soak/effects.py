"""What happened outside, held against what is written down: I6 to I9 and I12 to I14."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from sqlalchemy import Connection, Row, select

from bus.journal.accept import canonical_digest
from config.tables import approvals, controls, events, runs, steps
from tests.soak.load import Answered, Started
from tests.soak.owners import Claim
from tests.soak.shop import Entry
from tests.soak.talk import Asked

SOON_MS = 1000
"""What was under way when a stop was seen may still arrive for so long."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What arrived at the shop and at the model, and the rows it belongs to."""

    connection: Connection
    entries: Sequence[Entry]
    asked: Sequence[Asked]
    started: Sequence[Started]

    @cached_property
    def steps(self) -> dict[str, Row[Any]]:
        """Every step, by its idempotency key."""
        return {row.idempotency_key: row for row in self.connection.execute(select(steps))}

    @cached_property
    def approvals(self) -> Sequence[Row[Any]]:
        """Every question."""
        return self.connection.execute(select(approvals)).all()

    @cached_property
    def entries_of(self) -> dict[str, list[Entry]]:
        """What arrived under a key."""
        found = defaultdict(list)
        for entry in self.entries:
            found[entry.key].append(entry)
        return found

    @cached_property
    def asked_of(self) -> dict[str, list[Asked]]:
        """When the model was asked for a run."""
        run_ids = {one.sentence: one.run_id for one in self.started}
        found = defaultdict(list)
        for asked in self.asked:
            if asked.sentence in run_ids:
                found[run_ids[asked.sentence]].append(asked)
        return found


def unfounded(outside: Outside) -> Iterator[str]:
    """I6, I13: everything that arrived has a step, which was for exactly this."""
    for entry in outside.entries:
        step = outside.steps.get(entry.key)
        if step is None:
            yield f"I6 {entry.tool} {entry.value} arrived without a step"
        elif (step.name, step.arguments_digest) != (entry.tool, canonical_digest({"value": entry.value})):
            yield f"I13 {entry.tool} {entry.value} arrived under the key of another call, {step.name} of {step.run_id}"


def repeated(outside: Outside) -> Iterator[str]:
    """I7, I8: an unsafe call arrives once and once more for each "run it again"; no call has two keys."""
    again = Counter(row.step_id for row in outside.approvals if row.decision == "run_again" and row.used_ms)
    for key, arrived in outside.entries_of.items():
        step = outside.steps.get(key)
        allowed = 1 + (again[step.id] if step is not None else 0)
        if arrived[0].tool == "pay" and len(arrived) > allowed:
            yield f"I7 an unsafe call of {arrived[0].run_id} arrived {len(arrived)} times, {allowed} allowed"
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in outside.entries:
        keys[entry.call].add(entry.key)
    for (name, value), its in keys.items():
        if len(its) > 1:
            yield f"I8 {name} {value} arrived under {len(its)} keys"


def recomputed(outside: Outside) -> Iterator[str]:
    """I9: a step has one result, and nothing arrives for it once that is written down."""
    told = select(events.c.step_id, events.c.type).where(events.c.type.in_(("tool_result", "message")))
    for (step_id, kind), times in Counter(
        (row.step_id, row.type) for row in outside.connection.execute(told) if row.step_id
    ).items():
        if times > 1:
            yield f"I9 step {step_id} has {times} results ({kind})"
    rounds: dict[str, int] = Counter()
    for step in sorted(outside.steps.values(), key=lambda row: (row.run_id, row.number)):
        if step.kind == "tool":
            at_ms = [entry.at_ms for entry in outside.entries_of.get(step.idempotency_key, ())]
        else:
            its = outside.asked_of.get(step.run_id, ())
            at_ms = [asked.at_ms for asked in its if asked.round == rounds[step.run_id]]
            rounds[step.run_id] += 1
        late = [at for at in at_ms if at > (step.ended_ms or at)]
        if step.status == "done" and late:
            yield f"I9 {step.kind} {step.name} of {step.run_id} was done, and again {late[0] - step.ended_ms} ms later"


def ungated(outside: Outside) -> Iterator[str]:
    """I12, I13: what is asked about does not happen before it is allowed, and is what was asked about."""
    by_id = {row.id: row for row in outside.steps.values()}
    for row in outside.approvals:
        step = by_id[row.step_id]
        if not row.digest == canonical_digest(orjson.loads(row.arguments_json)) == step.arguments_digest:
            yield f"I13 {row.id} of {row.run_id} asked about another call than its step makes"
        may = row.decision == "run_again"
        at_ms = [entry.at_ms for entry in outside.entries_of.get(step.idempotency_key, ())]
        if any(at > row.created_ms and not (may and at >= row.decided_ms) for at in at_ms):
            yield f"I12 {row.name} of {row.run_id} was called after it was asked about: {row.decision}"


def decided_twice(outside: Outside, answered: Sequence[Answered]) -> Iterator[str]:
    """I12: however many answered, one decision counts, is told once, and is used after it was made."""
    told: dict[str, list[str]] = defaultdict(list)
    query = select(events.c.data_json).where(events.c.type == "approval").order_by(events.c.run_id, events.c.seq)
    for data in outside.connection.execute(query).scalars():
        event = orjson.loads(data)
        told[event["approval_id"]].append(event.get("decision", "asked"))
    decisions = {}
    for row in outside.approvals:
        decisions[row.id] = row.decision
        if told[row.id] != ["asked", *([row.decision] if row.decision else [])]:
            yield f"I12 {row.id} of {row.run_id} was decided {row.decision}, and its log tells {told[row.id]}"
        if row.used_ms is not None and (row.decided_ms is None or row.used_ms < row.decided_ms):
            yield f"I12 {row.id} of {row.run_id} was used before it was decided"
    for one in answered:
        if one.is_taken and decisions.get(one.approval_id) != one.decision:
            yield f"I12 {one.approval_id}: {one.decision} was taken, and {decisions.get(one.approval_id)} counts"


def after_the_stop(outside: Outside, claims: Mapping[str, Sequence[Claim]]) -> Iterator[str]:
    """I14: once a stop was seen, or a run has ended, nothing of it begins or arrives any more.

    A stop was certainly seen by an owner who came after it was asked for, whatever happened to the one before.
    """
    stops = select(controls.c.run_id, controls.c.created_ms).where(controls.c.kind == "stop")
    stopped = {row.run_id: row.created_ms for row in outside.connection.execute(stops)}
    begun: dict[str, list[int]] = defaultdict(list)
    for step in outside.steps.values():
        begun[step.run_id].append(step.started_ms)
    for entry in outside.entries:
        begun[entry.run_id].append(entry.at_ms)
    for run in outside.connection.execute(select(runs.c.id, runs.c.ended_ms)):
        stop_ms = stopped.get(run.id)
        seen = [claim.at_ms for claim in claims.get(run.id, ()) if stop_ms is not None and claim.at_ms > stop_ms]
        over_ms = min([*seen, *([run.ended_ms] if run.ended_ms is not None else [])], default=None)
        its = [*begun[run.id], *(asked.at_ms for asked in outside.asked_of.get(run.id, ()))]
        if over_ms is not None and max(its, default=0) > over_ms + SOON_MS:
            yield f"I14 something of {run.id} began {max(its) - over_ms} ms after its stop was seen or it had ended"
