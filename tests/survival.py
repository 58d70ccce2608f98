"""Runs that lose their owner at a commit of our choice and go on: in this process, so that each commit can be tried.

To lose the owner means here what it means to the journal: nothing of it is written any more, its lease runs out,
and another owner claims. What a real SIGKILL adds is tried by the crash lab and the journeys.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import select, update

import bus.journal.journal
import bus.journal.writer
from agents.process import process
from agents.tools import current_call, tool
from bus.journal.approvals import Decision, pending
from bus.journal.reaper import reap
from bus.journal.runs import get_run
from bus.journal.steps import steps_of
from bus.journal.threads import list_messages
from bus.journal.who import Who
from bus.messages import RunAgentMessage
from bus.payloads import TERMINAL
from config.errors import StaleOwner
from config.tables import runs
from handlers.run_agent import RunAgentHandler
from tests.house import House

ME = Who()


# --- tools whose effects are written down outside of what is tested -------------------------------


@dataclass(slots=True)
class Ledger:
    """What the outside world has seen: one entry a call that arrived."""

    arrived: list[tuple[str, str, str]] = field(default_factory=list)
    """(tool, what it was called with, idempotency key)"""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, name: str, value: str) -> str:
        with self.lock:
            self.arrived.append((name, value, current_call().idempotency_key))
        return f"{name} {value} done"

    def effects(self) -> list[tuple[str, str]]:
        """Return what took effect: a keyed or idempotent call that arrived twice took effect once."""
        seen: dict[tuple[str, str, str], None] = {}
        unsafe = [entry for entry in self.arrived if entry[0] in ("pay", "order")]
        for entry in self.arrived:
            seen[entry] = None
        once = [entry for entry in seen if entry[0] not in ("pay", "order", "look_up")]
        return sorted((name, value) for name, value, _ in [*once, *unsafe])

    def has(self, key: str) -> bool:
        return any(entry[2] == key for entry in self.arrived)


ledger = Ledger()


@tool(effect="pure")
def look_up(value: str) -> str:
    """Look something up."""
    return ledger.note("look_up", value)


@tool(effect="idempotent")
def put(value: str) -> str:
    """Put something where it belongs."""
    return ledger.note("put", value)


@tool(effect="keyed")
def send(value: str) -> str:
    """Send something, once a key."""
    return ledger.note("send", value)


@tool(effect="unsafe")
def pay(value: str) -> str:
    """Pay, each time it is called."""
    return ledger.note("pay", value)


def was_ordered(key: str) -> str | None:
    """Return what the shop knows of an order."""
    return next((f"order {value} done" for name, value, its in ledger.arrived if its == key), None)


@tool(effect="checkable", check=was_ordered)
def order(value: str) -> str:
    """Order something; the shop can be asked whether it knows of it."""
    return ledger.note("order", value)


TOOLS = "tools: [{}]".format(", ".join(f"tests.survival:{name}" for name in ("look_up", "put", "send", "pay", "order")))


# --- losing owners --------------------------------------------------------------------------------


class Lives:
    """Plays runs whose owner is lost at the k-th passing of a place."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self._house = house
        self.passed: list[str] = []
        self._lose_at: int | None = None
        self._is_lost = threading.Event()
        self._lock = threading.Lock()
        for module in (bus.journal.writer, bus.journal.journal):
            monkeypatch.setattr(module, "failpoint", self._pass)

    def _pass(self, place: str) -> None:
        with self._lock:
            self.passed.append(place)
            is_due = self._lose_at is not None and len(self.passed) == self._lose_at
        if is_due:
            self._is_lost.set()
            raise StaleOwner("this run", 0)

    def play(self, lose_at: int | None, start: Callable[[], str] | None = None) -> Played:
        """Return what became of a run whose owner was lost at the ``lose_at``-th place it passed; None: never."""
        self.passed, self._lose_at = [], lose_at
        ledger.arrived.clear()
        run_id = start() if start is not None else self._house.run().run_id
        self._settle(run_id)
        for _ in range(8):
            if self._status(run_id) in TERMINAL:
                break
            self._go_on(run_id)
        return self._played(run_id)

    def _go_on(self, run_id: str) -> None:
        journal = self._house.runner.journal
        if self._status(run_id) == "waiting":  # the process that began it goes on with it
            self._answer(run_id)
            self._settle(run_id)
            return
        if self._status(run_id) == "running":
            with journal.database.write() as connection:
                connection.execute(update(runs).where(runs.c.id == run_id).values(lease_until=0))
            reap(journal.database, run_id)
        with journal.read() as connection:
            row = connection.execute(select(runs).where(runs.c.id == run_id)).one()
        message = RunAgentMessage(
            run_id=run_id, agent_id=row.agent_id, thread_id=row.thread_id, definition_digest=row.definition_digest
        )
        journal.loop.submit(RunAgentHandler(process()).handle(message)).add_done_callback(lambda done: done.exception())
        self._settle(run_id)

    def _settle(self, run_id: str) -> None:
        """Wait until nobody works on the run: it ended, it waits, or its owner was lost."""
        journal, until_s = self._house.runner.journal, time.monotonic() + 30
        while time.monotonic() < until_s:
            status = self._status(run_id)
            is_lost = self._is_lost.is_set() and not journal.keeper.busy
            if status in TERMINAL or status == "waiting" or is_lost:
                self._is_lost.clear()
                return
            time.sleep(0.01)
        raise AssertionError(f"the run is still {status}")

    def _answer(self, run_id: str) -> None:
        """Say what a person says who looked at the outside world."""
        journal = self._house.runner.journal
        with journal.read() as connection:
            asked = pending(connection, run_id)
            keys = {step["call_id"]: step["idempotency_key"] for step in steps_of(connection, run_id)}
        for question in asked:
            if ledger.has(keys[question["call_id"]]):
                done = f"{question['name']} {question['arguments']['value']} done"
                answer = Decision(decision="take_as_done", result=done)
            else:
                answer = Decision(decision="run_again")
            journal.decide(ME, run_id, question["approval_id"], answer, by="ann")

    def _status(self, run_id: str) -> str:
        with self._house.runner.journal.read() as connection:
            return str(get_run(connection, ME, run_id)["status"])

    def _played(self, run_id: str) -> Played:
        journal = self._house.runner.journal
        with journal.read() as connection:
            run = get_run(connection, ME, run_id)
            messages = list_messages(connection, ME, run["thread_id"])
            steps = steps_of(connection, run_id)
        lines = list(journal.follow_here(run_id, run["thread_id"], 0))
        return Played(run=run, messages=messages, steps=[dict(step) for step in steps], lines=lines,
                      effects=ledger.effects(), arrived=list(ledger.arrived))  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What a run came to."""

    run: dict[str, Any]
    messages: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    lines: list[Any]
    effects: list[tuple[str, str]]
    arrived: list[tuple[str, str, str]]

    @property
    def story(self) -> list[tuple[Any, ...]]:
        """The conversation without what differs from run to run."""
        told = []
        for message in self.messages:
            called = tuple(sorted(call["name"] for call in message.get("tool_calls", ())))
            told.append(
                (message["role"], message.get("content"), message.get("result"), message.get("outcome"), called)
            )
        return sorted(told, key=str)

    @property
    def end(self) -> tuple[Any, ...]:
        return self.run["status"], self.run.get("reason"), str(self.run.get("output"))
