"""A log of many runs, and observers that tail it, on each database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bus.journal.tailing import Member, ObserverCursors, ObserverState, observer_states
from bus.payloads import Payload
from config.database.engine import Database, open_database
from config.settings import Settings
from observers.base import AgentObserver
from observers.tailing import tailer as tailing
from observers.tailing.tailed import EventSelection, Tailed
from observers.tailing.tailer import Tailer
from tests.tailed_log import TailedLog
from tests.template import upgrade_by_copy


class Sink(AgentObserver):
    """Keeps what it gets where all instances see it, and does with each event what the test says."""

    name = "sink"
    taken: ClassVar[dict[str, list[int]]]
    payloads: ClassVar[list[Payload]]
    act: ClassVar[Callable[[Any, Any, Any], object]]

    def on_response(self, agent: Any, payload: Payload, context: Any) -> None:
        type(self).act(agent, payload, context)
        self.taken[context.run_id].append(payload.seq)
        self.payloads.append(payload)


def _new_sink() -> type[Sink]:
    class TestSink(Sink):
        taken: ClassVar = defaultdict(list)
        payloads: ClassVar = []
        act: ClassVar = lambda *_: None  # a test sets another one

    return TestSink


class Room:
    """One observer, with as many members as a test wants."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.database = settings, database
        self.log, self.cursors = TailedLog(database), ObserverCursors(database)
        self.kind = _new_sink()
        names = {"name": "sink", "class_path": "tests:Sink", "delivery": "reliable", "start": "beginning"}
        limits = {"threads": 1, "retry_for_s": 3600.0, "timeout_s": 60.0, "poll_s": 0.01}
        self.tailed = Tailed(kind=self.kind, selection=EventSelection(), **names, **limits)  # type: ignore[arg-type]

    def member(self, name: str = "own_1", **changes: Any) -> Tailer:
        """Return a thread's work for the observer, registered, which a test steps through."""
        self.tailed = tailed = replace(self.tailed, **changes)
        parts = tailed.class_path, tailed.delivery, tailed.selection.as_json(), tailed.start
        self.cursors.register(tailed.name, *parts)
        member = Member(id=name, host="here", pid=1, version="1")
        return Tailer(tailed, self.settings, self.database, member)

    def drain(self, *members: Tailer, steps: int = 200) -> None:
        """Step until no member finds anything."""
        for _ in range(steps):
            if not any([member.step() for member in members]):
                return
        raise AssertionError("the members never came to an end")

    @property
    def taken(self) -> dict[str, list[int]]:
        return self.kind.taken

    @property
    def state(self) -> ObserverState:
        with self.database.read() as connection:
            return next(state for state in observer_states(connection) if state.name == "sink")


@pytest.fixture
def room(each_database_url: str, tmp_path: Path, usual_settings: Settings, monkeypatch) -> Iterator[Room]:
    """An observer whose members look at who feeds what before each step."""
    monkeypatch.setattr(tailing, "CLAIM_S", 0.0)
    with closing(open_database(each_database_url)) as database:
        upgrade_by_copy(database)
        yield Room(usual_settings.model_copy(update={"state_dir": tmp_path}), database)
