"""What happened outside and when, held against what is written down: what only timestamps can tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import Connection, select

from bus.journal.readers import RunRecord
from cli.crashlab.effects import Effects
from cli.crashlab.invariants import Facts, claims_of
from config.database.tables import controls
from config.ids import canonical_digest
from tests.soak.load import Answered, Started
from tests.soak.shop import Entry
from tests.soak.talk import Asked

SOON_MS = 1000
"""What was under way when a stop was seen may still arrive for so long."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What arrived at the shop and at the model, and the rows it belongs to."""

    connection: Connection
    records: Mapping[str, RunRecord]
    entries: Sequence[Entry]
    asked: Sequence[Asked]
    started: Sequence[Started]

    @cached_property
    def steps(self) -> dict[str, Facts]:
        """Every step, by its idempotency key."""
        return {step["idempotency_key"]: step for record in self.records.values() for step in record.steps}

    @property
    def approvals(self) -> list[Facts]:
        """Every question."""
        return [row for record in self.records.values() for row in record.approvals]

    @cached_property
    def entries_of(self) -> dict[str, list[Entry]]:
        """What arrived under a key."""
        by_key = defaultdict(list)
        for entry in self.entries:
            by_key[entry.key].append(entry)
        return by_key

    @cached_property
    def asked_of(self) -> dict[str, list[Asked]]:
        """When the model was asked for a run."""
        run_ids = {start.sentence: start.run_id for start in self.started}
        by_run = defaultdict(list)
        for request in self.asked:
            if request.sentence in run_ids:
                by_run[run_ids[request.sentence]].append(request)
        return by_run


def unfounded(outside: Outside) -> Iterator[str]:
    """Everything that arrived has a step, which was for exactly this; no unsafe call arrived too often."""
    for run_id, record in outside.records.items():
        its = [entry for entry in outside.entries if entry.run_id == run_id]
        for breach in Effects([record], [entry.in_ledger for entry in its]).breaches():
            yield f"{run_id}: {breach}"
    for entry in outside.entries:
        step = outside.steps.get(entry.key)
        digest = canonical_digest({"value": entry.value})
        if step is not None and (step["name"], step["arguments_digest"]) != (entry.tool, digest):
            yield f"{entry.tool} {entry.value} arrived under the key of another call: {step['name']}"


def keyed_twice(outside: Outside) -> Iterator[str]:
    """No call has two keys."""
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in outside.entries:
        keys[entry.call].add(entry.key)
    for (name, value), its in keys.items():
        if len(its) > 1:
            yield f"{name} {value} arrived under {len(its)} keys"


def recomputed(outside: Outside) -> Iterator[str]:
    """Nothing arrives for a step once its result is written down."""
    rounds: dict[str, int] = Counter()
    for step in sorted(outside.steps.values(), key=lambda row: (row["run_id"], row["number"])):
        if step["kind"] == "tool":
            at_ms = [entry.at_ms for entry in outside.entries_of.get(step["idempotency_key"], ())]
        else:
            its = outside.asked_of.get(step["run_id"], ())
            at_ms = [request.at_ms for request in its if request.round == rounds[step["run_id"]]]
            rounds[step["run_id"]] += 1
        late = [at for at in at_ms if at > (step["ended_ms"] or at)]
        if step["status"] == "done" and late:
            after_ms = late[0] - step["ended_ms"]
            yield f"{step['kind']} {step['name']} of {step['run_id']} was done, and again {after_ms} ms later"


def ungated(outside: Outside) -> Iterator[str]:
    """What is asked about does not happen before it is allowed."""
    keys = {step["id"]: key for key, step in outside.steps.items()}
    for row in outside.approvals:
        may = row["decision"] == "run_again"
        at_ms = [entry.at_ms for entry in outside.entries_of.get(keys[row["step_id"]], ())]
        if any(at > row["created_ms"] and not (may and at >= row["decided_ms"]) for at in at_ms):
            yield f"{row['name']} of {row['run_id']} was called after it was asked about: {row['decision']}"


def decided_twice(outside: Outside, answered: Sequence[Answered]) -> Iterator[str]:
    """However many answered, one decision counts."""
    decisions = {row["id"]: row["decision"] for row in outside.approvals}
    for answer in answered:
        if answer.is_taken and decisions.get(answer.approval_id) != answer.decision:
            yield f"{answer.approval_id}: {answer.decision} was taken, and {decisions.get(answer.approval_id)} counts"


def after_the_stop(outside: Outside) -> Iterator[str]:
    """Once a stop was seen, or a run has ended, nothing of it begins or arrives any more.

    A stop was certainly seen by an owner who came after it was asked for, whatever happened to the one before.
    """
    stops = select(controls.c.run_id, controls.c.created_ms).where(controls.c.kind == "stop")
    stopped = {row.run_id: row.created_ms for row in outside.connection.execute(stops)}
    begun: dict[str, list[int]] = defaultdict(list)
    for step in outside.steps.values():
        begun[step["run_id"]].append(step["started_ms"])
    for entry in outside.entries:
        begun[entry.run_id].append(entry.at_ms)
    for run_id, record in outside.records.items():
        stop_ms, ended_ms = stopped.get(run_id), record.run["ended_ms"]
        seen = [claim.at_ms for claim in claims_of(record) if stop_ms is not None and claim.at_ms > stop_ms]
        over_ms = min([*seen, *([ended_ms] if ended_ms is not None else [])], default=None)
        its = [*begun[run_id], *(request.at_ms for request in outside.asked_of.get(run_id, ()))]
        if over_ms is not None and max(its, default=0) > over_ms + SOON_MS:
            yield f"something of {run_id} began {max(its) - over_ms} ms after its stop was seen or it had ended"
