"""The places where a run's process can be killed, found by watching the run once, and the choice among them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import click

from agents.workflows.saga import SAGA
from bus.journal.readers import read_controls, runs_of_thread, steps_of
from bus.payloads import TERMINAL
from config.database.engine import open_database
from config.definitions.workflows.graph import COMPENSATION

States = Mapping[str, tuple[str, str]]
"""Id -> display name and state."""
COMMITS = ("accept", "claim", "commit", "unowned", "summary")
"""The places that are passed right after a commit."""
UNDOING, ITEM = "the compensation ", "an item"


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """One passed place, and the state of the thread's runs there."""

    place: str
    runs: Mapping[str, str]
    """The status of each run by its id, by their turns; empty if none was accepted yet."""
    steps: States
    controls: States = field(default_factory=dict)
    """What clients requested of the runs; the state is empty until one is answered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a process is killed: the n-th pass of a failpoint."""

    name: str
    number: int
    """Counted from 1 in each process."""
    where: str
    """Description for people."""
    process: int = 0
    """Which of the processes that an undisturbed run needs."""

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"

    @property
    def points(self) -> str:
        """The value of the FAILPOINTS variable."""
        return f"{self.name}=kill@{self.number}"


class Choice(NamedTuple):
    """Which places a run is killed at."""

    at: Sequence[str]
    """By name, such as commit@3; empty: all, or a sample."""
    sample: int | None
    seed: int

    def of(self, places: Sequence[Place]) -> Sequence[Place]:
        if self.at:
            if unknown := set(self.at) - {str(crash_point) for crash_point in places}:
                names = ", ".join(map(str, places))
                raise click.UsageError(f"the run does not pass {', '.join(sorted(unknown))}; it passes {names}.")
            return [crash_point for crash_point in places if str(crash_point) in self.at]
        if self.sample is None or self.sample >= len(places):
            return places
        picked = random.Random(self.seed).sample(range(len(places)), self.sample)  # no secret
        return [places[number] for number in sorted(picked)]

    def summary(self, places: Sequence[Place]) -> str:
        chosen = len(self.of(places))
        seed = f", --seed {self.seed}" if self.sample is not None and not self.at else ""
        return f"{len(places)} places" if chosen == len(places) else f"{chosen} of {len(places)} places{seed}"


class Recorder:
    """Records each place this process passes, with the run's state in SQL."""

    def __init__(self, database_url: str, thread_id: str) -> None:
        self.passed: list[Passed] = []
        self._database = open_database(database_url, pool_size=1)
        self._thread_id = thread_id
        self._lock = threading.Lock()

    def __call__(self, point_name: str) -> None:
        with self._lock, self._database.read() as connection:
            rows = runs_of_thread(connection, self._thread_id)
            steps = [step for row in rows for step in steps_of(connection, row.id)]
            controls = [control for row in rows for control in read_controls(connection, row.id)]
            its: dict[str, Any] = {"runs": {row.id: row.status for row in rows}}
            its["steps"] = {step["id"]: (_called(step), step["status"]) for step in steps}
            its["controls"] = {str(row["id"]): (row["kind"], row["state"] or "") for row in controls}
            self.passed.append(Passed(place=point_name, **its))


def _called(step: Mapping[str, Any]) -> str:
    node = step["node"] or ""
    if node == SAGA:
        return "the undoing"
    if node.endswith(COMPENSATION):
        return f"{UNDOING}`{step['name']}`"
    if step["kind"] == "tool":
        return f"`{step['name']}`"
    return {"node": "a list", "item": ITEM, "wait": "a wait"}.get(step["kind"], "the model call")


Numbered = tuple[int, Passed, int]
"""The number of a process, the place that it passed, and how often it had passed that by then."""


def places_of(*processes: Sequence[Passed]) -> list[Place]:
    """Return the places that processes passed one after another, in order, each with its number and description."""
    numbered: list[Numbered] = []
    for process, passed in enumerate(processes):
        counted: Counter[str] = Counter()
        for passage in passed:
            counted[passage.place] += 1
            numbered.append((process, passage, counted[passage.place]))
    changes = _changes(numbered)
    return [Place(name=its[1].place, number=its[2], where=_where(its, changes), process=its[0]) for its in numbered]


def _changes(numbered: Sequence[Numbered]) -> dict[tuple[int, str, int], str]:
    """Return what each commit changed, and each wake-up, by process, place and number."""
    changes = {}
    before = None
    for process, passage, number in numbered:
        before = before or passage
        if passage.place == "publish":
            changes[process, passage.place, number] = "the wake-up"
        elif passage.place in COMMITS:
            changes[process, passage.place, number] = f"the commit that {_listed([*_changed(before, passage)])}"
            before = passage
    return changes


def _listed(changed: Sequence[str]) -> str:
    if len(changed) > 1:
        return f"{', '.join(changed[:-1])} and {changed[-1]}"
    return changed[0] if changed else "added to the log"


def _changed(before: Passed, after: Passed) -> Iterator[str]:
    was_started = {step_id for step_id, (_, state) in before.steps.items() if state == "started"}
    is_started = {step_id for step_id, (_, state) in after.steps.items() if state == "started"}
    if after.place == "accept":
        yield "accepted the run" if len(after.runs) > len(before.runs) else "accepted a message"
    if after.place in WORDS:
        yield WORDS[after.place]
    if ended := [what for step_id, (what, _) in after.steps.items() if step_id in was_started - is_started]:
        yield f"ended {', '.join(ended)}"
    if began := [what for step_id, (what, _) in after.steps.items() if step_id in is_started - was_started]:
        yield f"started {', '.join(began)}"
    if any(what == ITEM for step_id, (what, _) in after.steps.items() if step_id not in before.steps):
        yield f"kept {ITEM}"
    left = [status for run_id, status in after.runs.items() if before.runs.get(run_id, status) != status]
    if after.place != "claim":
        yield from (f"left the run {status}" for status in left)
    if not TERMINAL.intersection(left):  # an end answers all controls
        yield from _requests(before.controls, after.controls)


WORDS = {"claim": "claimed the run", "summary": "kept a summary"}


def _requests(before: States, after: States) -> Iterator[str]:
    """Yield what became of controls, apart from their acceptance with the request."""
    for control_id, (kind, state) in after.items():
        if control_id not in before:
            yield f"{'requested' if state in ('', 'accepted') else state} a {kind}"
        elif before[control_id][1] != state:
            yield f"{state} a {kind}"


def _where(its: Numbered, changes: Mapping[tuple[int, str, int], str]) -> str:
    process, passage, number = its
    if passage.place in ("tool", "tool-after"):
        started = [what for what, state in passage.steps.values() if state == "started"]
        open_calls = [what for what in started if what.startswith(("`", UNDOING))]
        name = open_calls[0] if len(open_calls) == 1 else f"one of {', '.join(open_calls)}"
        name = name if open_calls else "a tool"  # of a child run
        return f"{'before' if passage.place == 'tool' else 'after'} {name} was called"
    base = passage.place.removesuffix("-before")
    return f"{'after' if base == passage.place else 'just before'} {changes.get((process, base, number), base)}"
