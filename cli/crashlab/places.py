"""The places where a run's process can be killed, found by watching the run once, and the choice among them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click

from bus.journal.readers import run_of_thread, steps_of
from config.database.engine import open_database

Steps = Mapping[str, tuple[str, str]]
"""A step's id -> its display name and its state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """One passed place, and the run's state there."""

    place: str
    status: str
    """The run's; empty if none was accepted yet."""
    steps: Steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a process is killed: the n-th pass of a failpoint."""

    name: str
    number: int
    """Counted from 1 in each process."""
    where: str
    """Description for people."""

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
            run = run_of_thread(connection, self._thread_id)
            steps = steps_of(connection, run.id) if run is not None else ()
            step_states = {
                step["id"]: (f"`{step['name']}`" if step["kind"] == "tool" else "the model call", step["status"])
                for step in steps
            }
            self.passed.append(
                Passed(place=point_name, status=run.status if run is not None else "", steps=step_states)
            )


def places_of(passed: Sequence[Passed]) -> list[Place]:
    """Return the passed places in order, each with its number and description."""
    counted: Counter[str] = Counter()
    numbered = []
    for passage in passed:
        counted[passage.place] += 1
        numbered.append((passage, counted[passage.place]))
    changes = _changes(numbered)
    return [
        Place(name=passage.place, number=number, where=_where(passage, number, changes)) for passage, number in numbered
    ]


def _changes(numbered: Sequence[tuple[Passed, int]]) -> dict[tuple[str, int], str]:
    """Return what each commit changed, and each wake-up, by place and number."""
    changes = {}
    before = None
    for passage, number in numbered:
        before = before or passage
        if passage.place == "publish":
            changes[passage.place, number] = "the wake-up"
        elif passage.place in ("accept", "claim", "commit", "unowned"):
            changes[passage.place, number] = (
                f"the commit that {' and '.join(_changed(before, passage)) or 'added to the log'}"
            )
            before = passage
    return changes


def _changed(before: Passed, after: Passed) -> Iterator[str]:
    was_started = {step_id for step_id, (_, state) in before.steps.items() if state == "started"}
    is_started = {step_id for step_id, (_, state) in after.steps.items() if state == "started"}
    if after.place == "accept":
        yield "accepted the run"
    if after.place == "claim":
        yield "claimed the run"
    if ended := [what for step_id, (what, _) in after.steps.items() if step_id in was_started - is_started]:
        yield f"ended {', '.join(ended)}"
    if began := [what for step_id, (what, _) in after.steps.items() if step_id in is_started - was_started]:
        yield f"started {', '.join(began)}"
    if after.place != "claim" and before.status and after.status != before.status:
        yield f"left the run {after.status}"


def _where(passage: Passed, number: int, changes: Mapping[tuple[str, int], str]) -> str:
    if passage.place in ("tool", "tool-after"):
        open_calls = [what for what, state in passage.steps.values() if state == "started" and what.startswith("`")]
        name = open_calls[0] if len(open_calls) == 1 else f"one of {', '.join(open_calls)}"
        return f"{'before' if passage.place == 'tool' else 'after'} {name} was called"
    base = passage.place.removesuffix("-before")
    return f"{'after' if base == passage.place else 'just before'} {changes.get((base, number), base)}"
