"""Whichever commit a run's owner is lost at, the run ends as if nothing had happened, and its effects happen once.

To lose the owner means here what it means to the journal: it writes nothing any more, its lease expires, and another
owner claims. What a real SIGKILL adds is tested by the crash lab and the journeys.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select

import bus.journal.actors.owner
import bus.journal.log.writer
from agents.catalogue import wrap_tools
from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.testing import AgentKit, Call, Turn
from bus.journal.approvals import Decision
from bus.journal.clients import CONTROLS
from bus.journal.errors import StaleOwner
from bus.journal.readers import RunRecord, read_record
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import TERMINAL, ResponsePayload
from cli.crashlab import ledger, person
from cli.crashlab.effects import Effects
from cli.crashlab.invariants import differences, not_recovered
from cli.crashlab.person import filled_in
from config.database.tables import runs
from handlers.run_agent import run_agent
from tests.bus.journal_harness import lose_owner
from tests.reference_runs import HELPER, REFERENCE_RUNS, ReferenceRun

pytestmark = pytest.mark.parity  # a hundred runs: more than `check` has time for
ALONE = [name for name, run in REFERENCE_RUNS.items() if run.reply is None and not run.then]


class Lives:
    """Plays a run of reference whose owner is lost at the k-th passing of a failpoint."""

    def __init__(self, kit: AgentKit, run: ReferenceRun, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kit.agent("reference-0")
        kit.agent(HELPER)
        kit.agent(**(yaml.safe_load(run.definition("tests.soak.tools")) or {}))
        kit.model.respond = self._respond
        self.passed: list[str] = []
        self.effects: Effects
        self._kit, self._run, self._folder, self._patch = kit, run, folder, monkeypatch
        self._journal = kit.runner.journal
        self._lose_at: int | None = None
        for module in (bus.journal.log.writer, bus.journal.actors.owner):
            monkeypatch.setattr(module, "failpoint", self._pass)
        monkeypatch.setattr(person, "READ_S", 0.5)  # where the owner is lost, a call waits for it in vain

    def _pass(self, stage: str) -> None:
        self.passed.append(stage)
        if len(self.passed) == self._lose_at:
            raise StaleOwner("this run", 0)

    def _respond(self, call: ModelCall) -> Turn:
        turn = self._run.respond({"messages": call.messages})
        calls = [Call(name=tool_call.name, arguments=tool_call.arguments) for tool_call in turn.calls]
        return Turn(text=turn.text, calls=calls, stall_after=turn.stall_after)

    def play(self, lose_at: int | None = None) -> RunRecord:
        """Return the record of a run whose owner was lost at the ``lose_at``-th place it passed; None: never."""
        self.passed, self._lose_at = [], lose_at
        file = self._folder / f"ledger-{lose_at}"
        self._patch.setenv(ledger.VARIABLE, str(file))
        handle = self._begin()
        if self._run.act_at:
            threading.Thread(target=self._stop, args=(handle,), daemon=True).start()
        while self._row(handle).status not in TERMINAL:
            self._continue(handle, file)
        with self._journal.database.read() as connection:
            record = read_record(connection, handle.thread_id)
        assert record is not None
        self.effects = Effects([record], ledger.read(file))
        return record

    def _begin(self) -> RunHandle:
        if self._run.called is None:
            return self._kit.run(detached=True)
        return self._kit.runner.call_tool(*self._run.called, agent_id="tester", detached=True)

    def _continue(self, run: RunHandle, file: Path) -> None:
        row = self._row(run)
        if row.status == "running":
            lose_owner(self._journal.database, run.run_id)
        elif row.status == "waiting" and row.reason == "child":
            for child in self._journal.readers.runs.messages_of_children(run.run_id):
                self._continue(self._kit.runner.handle(child.run_id), file)
        elif row.status == "waiting" and row.reason == "paused":
            run.control(CONTROLS["resume"])
        elif row.status == "waiting":
            self._answer(run, file)
        else:
            with suppress(StaleOwner):
                run_agent(RunAgentMessage.of_run(row).to_wire())

    @staticmethod
    def _answer(run: RunHandle, file: Path) -> None:
        """Answer as a person who looked at the target system, and who changes what is asked before a call."""
        returned = {entry.call_id: entry.result for entry in ledger.read(file) if entry.mark == ledger.RETURNED}
        for approval in run.approvals():
            if approval["scopes"]:
                run.decide(approval["approval_id"], Decision(decision="approve", scope=approval["scopes"][0]))
                continue
            if approval["kind"] == "call":
                run.decide(approval["approval_id"], Decision(decision="approve", arguments={"value": "another"}))
                continue
            if "answer" in approval["decisions"]:
                run.decide(
                    approval["approval_id"], Decision(decision="answer", result=filled_in(approval["input_schema"]))
                )
                continue
            call_id = approval["call_id"]
            done = Decision(decision="take_as_done", result=returned.get(call_id))
            run.decide(approval["approval_id"], done if call_id in returned else Decision(decision="run_again"))

    def _stop(self, run: RunHandle) -> None:
        for event in run.events():
            if isinstance(event, ResponsePayload) and str(self._run.act_at) in event.content:
                run.cancel()
                return

    def _row(self, run: RunHandle) -> Any:
        with self._journal.database.read() as connection:
            return connection.execute(select(runs).where(runs.c.id == run.run_id)).one()


@pytest.fixture
def watched_tools() -> Iterator[None]:
    wrap_tools(ledger.watched)
    yield
    wrap_tools(None)


@pytest.mark.usefixtures("watched_tools")
@pytest.mark.parametrize("name", ALONE)
def test_a_run_survives_the_loss_of_its_owner_at_every_commit(
    name: str, kit: AgentKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Lives(kit, REFERENCE_RUNS[name], tmp_path, monkeypatch)
    undisturbed = lives.play()
    places, effects, is_stopped = list(lives.passed), lives.effects.counted(), REFERENCE_RUNS[name].act_at is not None

    assert undisturbed.run["status"] == ("cancelled" if is_stopped else "succeeded")
    for k in range(1, len(places) + 1):
        played = lives.play(k)
        where = f"owner lost at {places[k - 1]}, place {k} of {len(places)}"
        assert [*not_recovered(played), *lives.effects.breaches()] == [], where
        assert played.run["status"] == undisturbed.run["status"], where
        assert is_stopped or differences(played, undisturbed) == [], where
        assert lives.effects.counted() == effects, where
