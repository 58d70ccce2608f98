"""The places where a run's process can be killed, found by watching the run once, with descriptions."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bus.journal import run_of_thread, steps_of
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


class Recorder:
    """Records each place this process passes, with the run's state in SQL."""

    def __init__(self, database_url: str, thread_id: str) -> None:
        self.passed: list[Passed] = []
        self._database = open_database(database_url, pool_size=1)
        self._thread_id = thread_id
        self._lock = threading.Lock()

    def __call__(self, place: str) -> None:
        with self._lock, self._database.read() as connection:
            run = run_of_thread(connection, self._thread_id)
            steps = steps_of(connection, run.id) if run is not None else ()
            step_states = {
                step["id"]: (f"`{step['name']}`" if step["kind"] == "tool" else "the model call", step["status"])
                for step in steps
            }
            self.passed.append(Passed(place=place, status=run.status if run is not None else "", steps=step_states))


def places_of(passed: Sequence[Passed]) -> list[Place]:
    """Return the passed places in order, each with its number and description."""
    counted: dict[str, int] = {}
    places = []
    words = _words(passed)
    for one in passed:
        number = counted[one.place] = counted.get(one.place, 0) + 1
        base = one.place.removesuffix("-before")
        what = words.get((base, number), base)
        where = f"just before {what}" if one.place.endswith("-before") else f"after {what}"
        places.append(Place(name=one.place, number=number, where=_of_a_call(one) or where))
    return places


def _words(passed: Sequence[Passed]) -> dict[tuple[str, int], str]:
    """Return what each commit changed, by place and number."""
    words: dict[tuple[str, int], str] = {}
    counted: dict[str, int] = {}
    first = passed[0] if passed else None
    before, status = (first.steps, first.status) if first is not None else ({}, "")
    for one in passed:
        if one.place in ("accept", "claim", "commit", "unowned"):
            number = counted[one.place] = counted.get(one.place, 0) + 1
            words[one.place, number] = _commit_text(one, before, status)
            before, status = one.steps, one.status
        elif one.place == "publish":
            number = counted[one.place] = counted.get(one.place, 0) + 1
            words[one.place, number] = "the wake-up"
    return words


def _commit_text(one: Passed, before: Steps, status: str) -> str:
    began = [
        what for step_id, (what, state) in one.steps.items() if state == "started" and _state(before, step_id) != state
    ]
    ended = [what for step_id, (what, state) in one.steps.items() if _state(before, step_id) == "started" != state]
    parts = []
    if one.place == "accept":
        parts.append("accepted the run")
    if one.place == "claim":
        parts.append("claimed the run")
    if ended:
        parts.append(f"ended {', '.join(ended)}")
    if began:
        parts.append(f"started {', '.join(began)}")
    if one.place != "claim" and status and one.status != status:
        parts.append(f"left the run {one.status}")
    return f"the commit that {' and '.join(parts) or 'added to the log'}"


def _of_a_call(one: Passed) -> str:
    if one.place not in ("tool", "tool-after"):
        return ""
    open_calls = [what for what, state in one.steps.values() if state == "started" and what.startswith("`")]
    name = open_calls[0] if len(open_calls) == 1 else f"one of {', '.join(open_calls)}"
    return f"{'before' if one.place == 'tool' else 'after'} {name} was called"


def _state(before: Steps, step_id: str) -> str:
    return before.get(step_id, ("", ""))[1]
