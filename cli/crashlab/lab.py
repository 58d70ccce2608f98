"""The lab: one undisturbed run, then the same run killed at each place that the first one passed."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import click

from bus.journal.readers import RunRecord
from cli.crashlab import attempts, ledger
from cli.crashlab.attempts import WATCH
from cli.crashlab.effects import Effects
from cli.crashlab.fork_runner import ChildOutcome, ForkRunner
from cli.crashlab.invariants import differences, not_recovered, summary_breaches, thread_breaches
from cli.crashlab.ledger import RETURNED, Entry
from cli.crashlab.person import call_name
from cli.crashlab.places import Passed, Place, places_of
from cli.crashlab.trial import AttemptResult, Subject, Trial
from config.settings import Settings

Way = tuple[str, ...]
"""A call, as ``call_name`` writes it, and the way to a value in its result."""
VARIES = "<varies>"
MIN_CHARS = 4
"""A shorter value stands by chance in other texts, too; it is replaced only where it is a whole value."""


class Varying:
    """The places in the results of tools where two undisturbed runs differ."""

    def __init__(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        """``first``, ``second``: what each call of the two runs returned, by ``call_name``."""
        self._first, other = dict(_leaves(first.items())), dict(_leaves(second.items()))
        self._places = {path for path in self._first.keys() & other if self._first[path] != other[path]}

    def values(self, returned: Iterable[tuple[str, Any]]) -> list[str]:
        """Return what stands at these places in the first run, and in one whose calls returned this; longest first."""
        values = {str(self._first[path]) for path in self._places}
        values |= {str(value) for path, value in _leaves(returned) if path in self._places}
        return sorted(values - {""}, key=len, reverse=True)


def without(record: RunRecord, values: Iterable[str]) -> RunRecord:
    """Return the record with a mark in place of these values."""
    output, messages = (
        _marked(record.run.get("output"), values),
        [_marked(message, values) for message in record.messages],
    )
    return replace(record, run={**record.run, "output": output}, messages=messages)


def _leaves(results: Iterable[tuple[str, Any]]) -> Iterator[tuple[Way, Any]]:
    for call, result in results:
        for way, value in _inside(result):
            yield (call, *way), value


def _inside(data: Any) -> Iterator[tuple[Way, Any]]:
    if isinstance(data, dict | list):
        for name, value in data.items() if isinstance(data, dict) else enumerate(data):
            for way, leaf in _inside(value):
                yield (str(name), *way), leaf
    else:
        yield (), data


def _marked(data: Any, values: Iterable[str]) -> Any:
    if isinstance(data, dict):
        return {name: _marked(value, values) for name, value in data.items()}
    if isinstance(data, list):
        return [_marked(value, values) for value in data]
    if str(data) in values:
        return VARIES
    if isinstance(data, str):
        for value in values:
            data = data.replace(value, VARIES) if len(value) >= MIN_CHARS else data
    return data


RAISED = 1
"""Exit status of a child whose work raised."""
FIRST_S = 600.0
"""Seconds the undisturbed run may take."""
PATIENCE_S = 60.0
"""Seconds an attempt may take beyond ten times the undisturbed run."""
Database = Callable[[Path], str]
"""Creates a database with its schema for one case, in its folder or elsewhere, and returns its URL."""


class LabFailed(click.ClickException):
    """The undisturbed run failed, so there is nothing to compare with; the text is the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Undisturbed:
    """The run that was not killed, with those that follow it in its thread."""

    records: Sequence[RunRecord]
    places: Sequence[Place]
    effects: Counter[str]
    returned: dict[str, Any]
    took_s: float

    @property
    def record(self) -> RunRecord:
        """That of the first run."""
        return self.records[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One kill and its outcome."""

    place: Place
    was_killed: bool
    """False if the run did not pass the place this time."""
    records: Sequence[RunRecord]
    """Those of the thread's runs; empty if the resuming process failed."""
    effects: Counter[str]
    violations: Sequence[str] = field(default=())
    """The broken rules; empty if the run recovered."""

    @property
    def record(self) -> RunRecord | None:
        """That of the first run."""
        return next(iter(self.records), None)

    @property
    def asked(self) -> list[str]:
        """The decisions of the approvals."""
        return [row["decision"] or "nothing" for record in self.records for row in record.approvals]


class Lab:
    """Repeats one subject; every run has its own database, state folder and ledger."""

    def __init__(
        self, subject: Subject, settings: Settings, folder: Path, database: Database, first: Undisturbed | None = None
    ) -> None:
        """``first``: the undisturbed run of another lab, if there is one."""
        self._subject = subject
        self._settings = settings
        self._folder = folder
        self._database = database
        self.fork_runner = ForkRunner(folder / "child.log")
        self._count = 0
        if first is not None:
            self.undisturbed = first

    @cached_property
    def undisturbed(self) -> Undisturbed:
        """The undisturbed run, executed at first use.

        Raises:
            LabFailed: it did not end, or breaks a rule without a kill.
        """
        return self._run_undisturbed()

    @cached_property
    def _varying(self) -> Varying:
        """What differs by itself: at the first difference of a killed run, one more is executed undisturbed."""
        return Varying(self.undisturbed.returned, self._run_undisturbed().returned)

    def _run_undisturbed(self) -> Undisturbed:
        began_s = time.monotonic()
        passed: list[Sequence[Passed]] = []
        attempt = AttemptResult(records=())
        with self._trial({}) as trial:
            for part in self._parts:
                outcome = self.fork_runner.run(partial(part, trial, WATCH), FIRST_S)
                if outcome.end != "returned":
                    raise LabFailed(f"the undisturbed run {_ending(outcome)}\n{outcome.output}")
                attempt = outcome.result
                passed.append(attempt.passed)
            entries = ledger.read(trial.ledger)
        effects = Effects(
            [*attempt.records, *attempt.descendants], entries, trust_overrides=self._subject.trust_overrides
        )
        violations = [*_broken(attempt), *effects.breaches()]
        if violations:
            raise LabFailed("the undisturbed run breaks a rule: " + "; ".join(violations))
        return Undisturbed(
            records=attempt.records,
            places=places_of(*passed),
            effects=effects.counted(),
            returned={call_name(e.tool, e.arguments): e.result for e in entries if e.mark == RETURNED},
            took_s=time.monotonic() - began_s,
        )

    def places_after(self, crash_point: Place) -> Sequence[Place]:
        """Return the places that the resuming process passes after a kill at ``place``."""
        with self._trial(self.undisturbed.returned) as trial:
            outcome = self.begin(trial, crash_point)
            if outcome.end == "killed":
                outcome = self.resume(trial, WATCH)
        return places_of(outcome.result.passed) if outcome.end == "returned" else ()

    def kill(self, crash_point: Place, then: Place | None = None) -> Case:
        """Kill a run's process at ``place``, and the process that resumes it at ``then``; return the outcome."""
        with self._trial(self.undisturbed.returned) as trial:
            outcome = self.begin(trial, crash_point)
            was_killed = outcome.end == "killed"
            if was_killed and then is not None:
                outcome = self.resume(trial, then.points)
            if outcome.end == "killed":
                outcome = self.resume(trial)
            entries = ledger.read(trial.ledger)
        if outcome.end != "returned":
            violation = f"the {'resuming ' if was_killed else ''}process {_ending(outcome)}\n{outcome.output}"
            return Case(place=crash_point, was_killed=was_killed, records=(), effects=Counter(), violations=[violation])
        return self._case(crash_point, was_killed, outcome.result, entries)

    def begin(self, trial: Trial, crash_point: Place) -> ChildOutcome:
        """Return the outcome of the first processes, of which one is to be killed at ``place``."""
        outcome = ChildOutcome(end="returned")
        for process, part in enumerate(self._parts):
            points = crash_point.points if process == crash_point.process else ""
            outcome = self.fork_runner.run(partial(part, trial, points), self.patience_s)
            if outcome.end != "returned":
                break
        return outcome

    def resume(self, trial: Trial, points: str = "") -> ChildOutcome:
        """Return the outcome of the process that resumes the run."""
        return self.fork_runner.run(partial(attempts.bring_to_end, trial, points), self.patience_s)

    @property
    def patience_s(self) -> float:
        """Seconds an attempt may take."""
        return PATIENCE_S + 10 * self.undisturbed.took_s

    def _case(self, crash_point: Place, was_killed: bool, attempt: AttemptResult, entries: Sequence[Entry]) -> Case:
        subject, records = self._subject, attempt.records
        resumed = attempt if was_killed else None
        everything = [*records, *attempt.descendants]
        effects = Effects(everything, entries, trust_overrides=subject.trust_overrides, attempt=resumed)
        violations, took_effect = [*_broken(attempt), *effects.breaches()], effects.counted()
        if subject.is_same_each_time and all(record.is_over for record in records):
            violations += self._differences(records, entries)
            if took_effect != self.undisturbed.effects:
                violations.append(f"its effects are {dict(took_effect)} instead of {dict(self.undisturbed.effects)}")
        its: dict[str, Any] = {"was_killed": was_killed, "records": records, "effects": took_effect}
        return Case(place=crash_point, violations=violations, **its)

    def _differences(self, records: Sequence[RunRecord], entries: Sequence[Entry]) -> Iterator[str]:
        """Yield how the ends of a thread's runs differ from the undisturbed ones'.

        Of a run that a person stops, only the end is compared: what it had said by then may be more or less.
        """
        firsts = self.undisturbed.records
        if len(records) != len(firsts):
            yield f"its thread has {len(records)} runs instead of {len(firsts)}"
        for number, (record, first) in enumerate(zip(records, firsts, strict=False)):
            which = f"run {number + 1}: " if len(firsts) > 1 else ""
            if record.run["status"] != first.run["status"]:
                yield f"{which}it ended {record.run['status']} instead of {first.run['status']}"
            elif record.run["status"] != "cancelled":
                yield from (f"{which}{difference}" for difference in self._of_answers(record, first, entries))

    def _of_answers(self, record: RunRecord, first: RunRecord, entries: Sequence[Entry]) -> list[str]:
        """Return how a run's end differs from the undisturbed one's, besides in what tools return anew each time."""
        if not differences(record, first):
            return []
        returned = [(call_name(e.tool, e.arguments), e.result) for e in entries if e.mark == RETURNED]
        values = self._varying.values(returned)
        return differences(without(record, values), without(first, values))

    @property
    def _parts(self) -> Sequence[Callable[[Trial, str], AttemptResult]]:
        """The work of the processes that an undisturbed run needs, in order."""
        return (attempts.accept, attempts.bring_to_end) if self._subject.is_detached else (attempts.bring_to_end,)

    @contextmanager
    def _trial(self, returned: dict[str, Any]) -> Iterator[Trial]:
        """Yield a trial with a folder and a database of its own, and remove the folder."""
        self._count += 1
        name = f"case-{self._count}"
        state = self._folder / name
        state.mkdir()
        settings = self._settings.model_copy(update={"state_dir": state, "database_url": self._database(state)})
        trial_ledger = state / "ledger.jsonl"
        yield Trial(subject=self._subject, thread_id=name, settings=settings, ledger=trial_ledger, returned=returned)
        shutil.rmtree(state, ignore_errors=True)


def _broken(attempt: AttemptResult) -> Iterator[str]:
    """Yield what does not hold of a thread whose runs were resumed until their ends."""
    records = attempt.records
    if not records:
        yield from not_recovered(None)
    for record in (*records, *attempt.descendants):
        yield from not_recovered(record)
    yield from thread_breaches(records)
    yield from summary_breaches(attempt.summaries)


def _ending(outcome: ChildOutcome) -> str:
    if outcome.end == "hung":
        return "did not end in time; its stacks:"
    if outcome.end == "killed":
        return "was killed by another process"
    if outcome.status == RAISED:
        return "ended with an error:"
    how = f"with status {outcome.status}" if outcome.status >= 0 else f"by {signal.Signals(-outcome.status).name}"
    return (
        f"ended its process {how}, which one of its tools did. The lab needs a run that ends by itself: fix the tool, "
        "or use a text for which it is not called. Last output:"
    )
