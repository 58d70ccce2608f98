"""A parent or a child loses its owner at every commit: each call has one child in the end, and the same answer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import select

import bus.journal.actors.owner
import bus.journal.log.writer
from agents.models.call import ModelCall
from agents.testing import AgentKit, Call, Turn
from bus.journal.errors import StaleOwner
from bus.journal.readers import read_record
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import TERMINAL
from cli.crashlab.invariants import breaches
from config.database.tables import runs
from handlers.run_agent import run_agent
from tests.bus.journal_harness import lose_owner

pytestmark = pytest.mark.parity  # some hundred runs: more than `check` has time for
CALLS = [Call(name="helper", arguments={"message": str(number)}) for number in range(2)]


class Family:
    """A parent that asks two children, all executed here; the owner at the ``lose_at``-th commit is lost."""

    def __init__(self, kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
        kit.agent("helper")
        kit.model.respond = self._respond
        self._kit, self._database = kit, kit.runner.journal.database
        self.passed: list[str] = []
        self._lose_at: int | None = None
        for module in (bus.journal.log.writer, bus.journal.actors.owner):
            monkeypatch.setattr(module, "failpoint", self._pass)

    def _pass(self, stage: str) -> None:
        self.passed.append(stage)
        if len(self.passed) == self._lose_at:
            raise StaleOwner("this run", 0)

    @staticmethod
    def _respond(call: ModelCall) -> Turn:
        results = [str(message["content"]) for message in call.messages if message["role"] == "tool"]
        task = next(str(message["content"]) for message in call.messages if message["role"] == "user")
        if task != "Hello":
            return Turn(text=f"answer {task}")
        return Turn(text=", ".join(results)) if results else Turn(calls=CALLS)

    def play(self, lose_at: int | None) -> list[Any]:
        """Return the rows of the parent and of its children, once all have ended."""
        self.passed, self._lose_at = [], lose_at
        parent = self._kit.run(detached=True).run_id
        while open_rows := [row for row in self._rows(parent) if row.status not in TERMINAL]:
            for row in open_rows:
                self._continue(row)
        return self._rows(parent)

    def _continue(self, row: Any) -> None:
        if row.status == "running":
            lose_owner(self._database, row.id)
        elif row.status == "queued":
            with suppress(StaleOwner):
                run_agent(RunAgentMessage.of_run(row).to_wire())

    def _rows(self, parent: str) -> list[Any]:
        query = select(runs).where((runs.c.id == parent) | (runs.c.parent_id == parent)).order_by(runs.c.created_ms)
        with self._database.read() as connection:
            return list(connection.execute(query).all())

    def breaches(self, thread_id: str) -> list[str]:
        with self._database.read() as connection:
            record = read_record(connection, thread_id)
        assert record is not None
        return list(breaches(record))


def test_no_child_is_begun_twice_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with AgentKit(tools=["agent:helper"]) as kit:
        family = Family(kit, monkeypatch)
        family.play(None)
        places = len(family.passed)
        assert places > 15

        for place in range(1, places + 1):
            parent, *children = family.play(place)

            assert parent.output_json == '"answer 0, answer 1"', (place, family.passed)
            assert sorted(child.title for child in children) == ["0", "1"], place
            assert [row.status for row in (parent, *children)] == ["succeeded"] * 3
            assert [breach for row in (parent, *children) for breach in family.breaches(row.thread_id)] == []
