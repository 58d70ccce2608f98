"""What the children do: accept a run, work it off, go on with one whose owner died, answer what it asks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import bindparam, select

from agents.handle import RunHandle
from agents.runner import Runner
from bus.journal.approvals import Decision
from bus.messages import RunAgentMessage
from bus.payloads import TERMINAL, ResponsePayload
from config.failpoints import set_failpoints, watch_failpoints
from config.settings import Settings, settings
from config.tables import approvals, runs, steps
from handlers.run_agent import run_agent
from web.terminal.crashlab import ledger
from web.terminal.crashlab.found import Found, find
from web.terminal.crashlab.places import Passed, Recorder

PAUSE_S = 0.05
"""Between two looks at a run whose dead owner nobody can see to be dead; its lease has to run out."""
TOLD_S = 3.0
"""How long a wake-up of the asynchronous route may take to be published."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Play:
    """One run, wherever its lives are lived."""

    agent_id: str
    objective: str
    thread_id: str
    """Its own thread, by which every life finds the run."""
    settings: Settings
    ledger: Path
    is_detached: bool = False
    stop_at: str | None = None
    """A person stops the run when its answer says this."""
    returned: Mapping[str, Any] = field(default_factory=dict)
    """What calls returned in the run that was never killed, by ``call_name``: as much as a person can find out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lived:
    """What a life that was not killed hands back."""

    found: Found | None
    passed: Sequence[Passed] = ()
    """The places it passed, where it was watched."""
    recorded: frozenset[str] = frozenset()
    """The idempotency keys of steps that had ended before this life."""
    arrived_before: int = 0
    """Lines of the ledger that were there before this life."""


WATCH = "watch"


def accept(play: Play, points: str) -> Lived:
    """Accept the run for the fleet and leave it."""
    runner, recorder = _open(play, points)
    handle = runner.run(play.objective, play.agent_id, thread_id=play.thread_id, detached=True)
    handle.settle(TOLD_S)
    return _lived(runner, play, recorder)


def live(play: Play, points: str) -> Lived:
    """Bring the run to its end: start it if nobody did, go on with it if somebody died of it, answer what it asks."""
    runner, recorder = _open(play, points)
    found, arrived = _lived(runner, play, None).found, len(ledger.read(play.ledger))
    recorded = (
        frozenset(s["idempotency_key"] for s in found.steps if s["ended_ms"] is not None) if found else frozenset()
    )
    handle: RunHandle | None = None
    while (run := _row(runner, play)) is None or run.status not in TERMINAL:
        if run is None:
            handle = runner.run(play.objective, play.agent_id, thread_id=play.thread_id, detached=play.is_detached)
            _stop_in_time(play, handle)
            _work_off(play, runner, handle)
            continue
        if handle is None:
            handle = runner.handle(run.id)
            _stop_in_time(play, handle)
        if run.status == "queued":
            run_agent(_message(run).to_wire())  # what a worker's thread does with a wake-up
        elif run.status == "waiting":
            if not _answer(play, runner, handle):
                break  # it waits for something no person can say
        elif not runner.journal.reaper.look():
            time.sleep(PAUSE_S)
    return replace(_lived(runner, play, recorder), recorded=recorded, arrived_before=arrived)


def _work_off(play: Play, runner: Runner, handle: RunHandle) -> None:
    """Wait until this process is done with its run, and answer what the run asks meanwhile."""
    while True:
        with suppress(TimeoutError):
            return runner.settle(PAUSE_S)
        run = _row(runner, play)
        if run.status == "waiting" and not _answer(play, runner, handle):
            return  # it waits for something no person can say


def attend(play: Play) -> Lived:
    """Answer what the run asks until it has ended; workers elsewhere do the work."""
    runner, _ = _open(play, "")
    while (run := _row(runner, play)) is None or run.status not in TERMINAL:
        if run is not None and run.status == "waiting":
            _answer(play, runner, runner.handle(run.id))
        time.sleep(PAUSE_S)
    return _lived(runner, play, None)


# --- a process --------------------------------------------------------------------------------------


def _open(play: Play, points: str) -> tuple[Runner, Recorder | None]:
    os.environ.update(environment(play.settings), **{ledger.VARIABLE: str(play.ledger)})
    settings.cache_clear()
    runner = Runner.open(play.settings)
    if points != WATCH:
        set_failpoints(points)
        return runner, None
    recorder = Recorder(play.settings.database, play.thread_id)
    watch_failpoints(recorder)
    return runner, recorder


def environment(its: Settings) -> dict[str, str]:
    """Return these settings as a process reads them."""
    given = its.model_dump(exclude_unset=True, mode="json")
    return {f"CALLBOARD_{name.upper()}": "" if value is None else str(value) for name, value in given.items()}


def _lived(runner: Runner, play: Play, recorder: Recorder | None) -> Lived:
    with runner.journal.read() as connection:
        found = find(connection, play.thread_id)
    return Lived(found=found, passed=recorder.passed if recorder is not None else ())


def _row(runner: Runner, play: Play) -> Any:
    with runner.journal.read() as connection:
        return connection.execute(select(runs).where(runs.c.thread_id == play.thread_id)).first()


def _message(row: Any) -> RunAgentMessage:
    return RunAgentMessage(
        run_id=row.id, agent_id=row.agent_id, thread_id=row.thread_id, detached=row.detached,
        definition_digest=row.definition_digest,
    )  # fmt: skip


# --- the person -------------------------------------------------------------------------------------


def _stop_in_time(play: Play, handle: RunHandle) -> None:
    """Have somebody watch the run who stops it when it says what they wait for."""
    if play.stop_at is not None:
        threading.Thread(target=_stop, args=(play.stop_at, handle), name="person", daemon=True).start()


def _stop(word: str, handle: RunHandle) -> None:
    for event in handle.events():
        if isinstance(event, ResponsePayload) and word in event.content:
            handle.cancel(by="somebody")
            return


def _answer(play: Play, runner: Runner, handle: RunHandle) -> bool:
    """Say what a person says who looked at the other side, and return whether anything was asked."""
    asked = handle.approvals()
    with runner.journal.read() as connection:
        keys = {row.id: row.idempotency_key for row in connection.execute(_ASKED, {"its_run": handle.run_id})}
    entries = ledger.read(play.ledger)
    for question in asked:
        key = keys[question["approval_id"]]
        arrived = [entry for entry in entries if entry.key == key]
        handle.decide(question["approval_id"], _decision(play, question, arrived), by="crash lab")
    return bool(asked)


def _decision(play: Play, question: Mapping[str, Any], arrived: Sequence[ledger.Entry]) -> Decision:
    offered = question["decisions"]
    if "run_again" not in offered:
        return Decision(decision=offered[0])
    if not arrived:
        return Decision(decision="run_again")
    known = play.returned.get(call_name(question["name"], question["arguments"]))
    result = next((entry.result for entry in arrived if entry.mark == ledger.RETURNED), known)
    return Decision(decision="take_as_done", result=result)


def call_name(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return what two equal calls have in common."""
    return f"{tool} {orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()}"


_ASKED = (
    select(approvals.c.id, steps.c.idempotency_key)
    .join(steps, steps.c.id == approvals.c.step_id)
    .where(approvals.c.run_id == bindparam("its_run"))
)
