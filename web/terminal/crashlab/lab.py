"""The lab: one run that is never killed, then the same run killed at each place that one passed."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from config.settings import Settings
from web.terminal.crashlab import ledger, lives
from web.terminal.crashlab.effects import Effects
from web.terminal.crashlab.found import Found
from web.terminal.crashlab.ledger import RETURNED, Entry
from web.terminal.crashlab.lives import WATCH, Lived, Play, call_name
from web.terminal.crashlab.nursery import Life, Nursery
from web.terminal.crashlab.places import Passed, Place, places_of
from web.terminal.crashlab.rules import breaches, differences

RAISED = 1
"""The status of a child whose work raised."""
FIRST_S = 600.0
"""Seconds the run that is never killed may take."""
PATIENCE_S = 60.0
"""Seconds a life may take beyond ten times what that one took."""
Database = Callable[[Path], str]
"""Makes a database with its schema for one case, in a folder of its own or elsewhere, and returns its URL."""


class LabFailed(Exception):
    """The run that is never killed could not be made, so there is nothing to compare with; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is tried."""

    agent_id: str
    objective: str
    is_detached: bool = False
    stop_at: str | None = None
    """A person stops the run when its answer says this; then only its end and the effects are compared."""
    is_same_each_time: bool = False
    """Whether the model gives the same answers each time, so that whole conversations can be compared."""
    trust_overrides: bool = False
    """Whether the agent's file is believed where it says less of a tool's effect than the tool itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Undisturbed:
    """The run that was never killed."""

    found: Found
    places: Sequence[Place]
    effects: Counter[str]
    returned: dict[str, Any]
    took_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One kill and what came of it."""

    place: Place
    was_killed: bool
    """False where this time the run did not come by."""
    found: Found | None
    effects: Counter[str]
    wrong: Sequence[str] = field(default=())
    """Empty: everything holds."""

    @property
    def asked(self) -> list[str]:
        """What a person was asked, and said."""
        return [decision for _, decision in self.found.answers] if self.found is not None else []


class Lab:
    """Plays one subject; every run has a database, a state folder and a ledger of its own."""

    def __init__(
        self, subject: Subject, settings: Settings, folder: Path, database: Database, first: Undisturbed | None = None
    ) -> None:
        """``first``: the run that was never killed, where another lab has made it."""
        self._subject = subject
        self._settings = settings
        self._folder = folder
        self._database = database
        self.nursery = Nursery(folder / "child.log")
        self._count = 0
        self._first = first

    @property
    def undisturbed(self) -> Undisturbed:
        """The run that is never killed, made when first asked for.

        Raises:
            LabFailed: it did not come to an end, or breaks a rule by itself.
        """
        if self._first is None:
            self._first = self._undisturbed()
        return self._first

    def _undisturbed(self) -> Undisturbed:
        play, began_s = self._play({}), time.monotonic()
        passed: list[Passed] = []
        found: Found | None = None
        for part in self._parts:
            life = self.nursery.live(partial(part, play, WATCH), FIRST_S)
            if life.end != "returned":
                raise LabFailed(f"the run that is never killed {_how(life)}\n{life.said}")
            lived: Lived = life.result
            passed += lived.passed
            found = lived.found
        entries = ledger.read(play.ledger)
        self._clear(play)
        its = self._effects(found, entries)
        wrong = [*breaches(found), *its.breaches()]
        if wrong or found is None:
            raise LabFailed("the run that is never killed is wrong by itself: " + "; ".join(wrong))
        return Undisturbed(
            found=found, places=places_of(passed), effects=its.counted(),
            returned={call_name(e.tool, e.arguments): e.result for e in entries if e.mark == RETURNED},
            took_s=time.monotonic() - began_s,
        )  # fmt: skip

    def places_after(self, place: Place) -> Sequence[Place]:
        """Return the places that whoever goes on passes, after a kill at ``place``."""
        play = self._play(self.undisturbed.returned)
        life = self.begin(play, place, self._patience_s)
        if life.end == "killed":
            life = self.go_on(play, self._patience_s, WATCH)
        self._clear(play)
        return places_of(life.result.passed) if life.end == "returned" else ()

    def kill(self, place: Place, then: Place | None = None) -> Case:
        """Return what came of a run whose process was killed at ``place``, and the one that went on at ``then``."""
        play = self._play(self.undisturbed.returned)
        life = self.begin(play, place, self._patience_s)
        was_killed = life.end == "killed"
        if was_killed and then is not None:
            life = self.go_on(play, self._patience_s, then.points)
        if life.end == "killed":
            life = self.go_on(play, self._patience_s)
        entries = ledger.read(play.ledger)
        self._clear(play)
        if life.end != "returned":
            told = f"the process {'that went on with it ' if was_killed else ''}{_how(life)}\n{life.said}"
            return Case(place=place, was_killed=was_killed, found=None, effects=Counter(), wrong=[told])
        return self._judged(place, was_killed, life.result, entries)

    def begin(self, play: Play, place: Place, patience_s: float) -> Life:
        """Return the life that is killed."""
        life = Life(end="returned")
        for part in self._parts:
            life = self.nursery.live(partial(part, play, place.points), patience_s)
            if life.end != "returned":
                break
        return life

    def go_on(self, play: Play, patience_s: float, points: str = "") -> Life:
        """Return the life of whoever finds the run."""
        return self.nursery.live(partial(lives.live, play, points), patience_s)

    @property
    def _patience_s(self) -> float:
        return PATIENCE_S + 10 * self.undisturbed.took_s

    def _judged(self, place: Place, was_killed: bool, lived: Lived, entries: Sequence[Entry]) -> Case:
        subject, first, found = self._subject, self.undisturbed, lived.found
        its = self._effects(found, entries, lived if was_killed else None)
        wrong, took_effect = [*breaches(found), *its.breaches()], its.counted()
        if found is not None and found.is_over and subject.is_same_each_time:
            if found.run["status"] != first.found.run["status"]:
                wrong.append(f"it ended {found.run['status']} instead of {first.found.run['status']}")
            elif subject.stop_at is None:
                wrong += differences(found, first.found)
            if took_effect != first.effects:
                wrong.append(f"its effects are {dict(took_effect)} instead of {dict(first.effects)}")
        return Case(place=place, was_killed=was_killed, found=found, effects=took_effect, wrong=wrong)

    def _effects(self, found: Found | None, entries: Sequence[Entry], lived: Lived | None = None) -> Effects:
        return Effects(found, entries, trust_overrides=self._subject.trust_overrides, lived=lived)

    @property
    def _parts(self) -> Sequence[Callable[[Play, str], Lived]]:
        """Return the processes a run passes through when nothing happens to it."""
        return (lives.accept, lives.live) if self._subject.is_detached else (lives.live,)

    def _play(self, returned: dict[str, Any]) -> Play:
        self._count += 1
        name = f"case-{self._count}"
        state = self._folder / name
        state.mkdir()
        its = self._settings.model_copy(update={"state_dir": state, "database_url": self._database(state)})
        return Play(
            agent_id=self._subject.agent_id, objective=self._subject.objective, thread_id=name, settings=its,
            ledger=state / "ledger.jsonl", is_detached=self._subject.is_detached, stop_at=self._subject.stop_at,
            returned=returned,
        )  # fmt: skip

    @staticmethod
    def _clear(play: Play) -> None:
        shutil.rmtree(play.settings.state, ignore_errors=True)


def _how(life: Life) -> str:
    if life.end == "hung":
        return "did not end in time; it is here:"
    if life.end == "killed":
        return "was killed by somebody else"
    if life.status == RAISED:
        return "ended with an error:"
    how = f"with status {life.status}" if life.status > 0 else f"by {signal.Signals(-life.status).name}"
    return (
        f"ended its process {how} in the middle: one of its tools did that. Only a run that comes through can be "
        "killed on purpose; mend the tool, or try a sentence for which it is not called. Printed last:"
    )
