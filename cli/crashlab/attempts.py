"""The work of the child processes: accept a run, execute it, resume it after a crash, answer its approvals."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents.memory.compaction import compactions
from agents.runner import Runner
from bus.journal.readers import RunRecord, descendants_of, read_records, read_summaries, record_of, runs_of_thread
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import TERMINAL
from cli.crashlab import ledger
from cli.crashlab.person import Person
from cli.crashlab.places import Recorder
from cli.crashlab.trial import AttemptResult, Trial
from config.failpoints import set_failpoints, watch_failpoints
from config.settings import Settings, settings
from handlers.run_agent import run_agent

PAUSE_S = 0.05
"""Between two polls of a run whose owner's lease has to expire."""
PUBLISH_S = 3.0
"""How long publishing a detached run's message may take."""
WATCH = "watch"


def accept(trial: Trial, points: str) -> AttemptResult:
    """Accept the run as detached, and leave it to another process."""
    runner, recorder = _open(trial, points)
    Person(trial, runner).begin().settle(PUBLISH_S)
    return _result(runner, trial, recorder)


def bring_to_end(trial: Trial, points: str) -> AttemptResult:
    """Start the run, or resume it if another process died, answer its approvals, and return after its thread's end."""
    runner, recorder = _open(trial, points)
    person, arrived = Person(trial, runner), len(ledger.read(trial.ledger))
    records = _records(runner, trial)
    steps = [step for record in records for step in record.steps]
    recorded = frozenset(step["idempotency_key"] for step in steps if step["ended_ms"] is not None)
    first = runner.handle(records[0].run["id"]) if records else person.begin()
    person.act_in_time(first)
    if not records:
        _work_off(trial, runner, person)
    while (run := _open_run(runner, trial)) is not None or _continues(trial, runner, person):
        if run is not None and not _work_on(run, trial, runner, person):
            break  # it does not wait for a person
    return replace(_result(runner, trial, recorder), recorded=recorded, arrived_before=arrived)


def _work_on(run: Any, trial: Trial, runner: Runner, person: Person) -> bool:
    """Do what an open run needs now, as workers and a person would; return whether there was something."""
    if run.status == "queued":
        run_agent(RunAgentMessage.of_run(run).to_wire())  # as a worker's thread handles the message
    elif run.status == "waiting" and run.reason == "child":
        _work_on_children(run.id, runner, person)
    elif run.status == "waiting":
        runner.journal.owner.reaper.fire()
        return person.answer(runner.handle(run.id), run.reason)
    elif not runner.journal.owner.reaper.look():
        time.sleep(PAUSE_S)
    return True


def _continues(trial: Trial, runner: Runner, person: Person) -> bool:
    """Send the thread's next message, once the summary of what was said is made; return whether there is one."""
    runner.journal.loop.run(compactions().settled())
    has_next = person.send_next(len(_rows(runner, trial))) if trial.subject.then else False
    if has_next:
        _work_off(trial, runner, person)
    return has_next


def _work_off(trial: Trial, runner: Runner, person: Person) -> None:
    """Wait until this process has finished its runs, and answer their approvals meanwhile."""
    while True:
        with suppress(TimeoutError):
            return runner.settle(PAUSE_S)
        run = _open_run(runner, trial)
        is_waiting = run is not None and run.status == "waiting" and run.reason != "child"
        if is_waiting and not person.answer(runner.handle(run.id), run.reason):
            return  # it does not wait for a person


def _work_on_children(run_id: str, runner: Runner, person: Person) -> None:
    """Execute the children of a run as workers would, answer what they ask, and requeue those whose process died."""
    for message in runner.journal.readers.runs.messages_of_children(run_id):
        run_agent(message.to_wire())
        _work_on_children(message.run_id, runner, person)
    with runner.journal.database.read() as connection:
        children = descendants_of(connection, [run_id])
    _answer_all(children, runner, person)
    if not runner.journal.owner.reaper.look():
        time.sleep(PAUSE_S)


def answer_questions(trial: Trial) -> AttemptResult:
    """Send the messages, and answer approvals until the last run has ended; worker processes execute the runs."""
    runner, _ = _open(trial, "")
    person = Person(trial, runner)
    while True:
        rows = _rows(runner, trial)
        is_idle = bool(rows) and all(row.status in TERMINAL for row in rows)
        if is_idle and not person.send_next(len(rows)):
            break
        with runner.journal.database.read() as connection:
            children = descendants_of(connection, [row.id for row in rows])
        _answer_all((*rows, *children), runner, person)
        time.sleep(PAUSE_S)
    return _result(runner, trial)


def _answer_all(rows: Iterable[Any], runner: Runner, person: Person) -> None:
    for row in rows:
        if row.status == "waiting" and row.reason != "child":
            person.answer(runner.handle(row.id), row.reason)


# --- a process --------------------------------------------------------------------------------------


def _open(trial: Trial, points: str) -> tuple[Runner, Recorder | None]:
    os.environ.update(environment(trial.settings), **{ledger.VARIABLE: str(trial.ledger)})
    settings.cache_clear()
    runner = Runner.open(trial.settings)
    if points != WATCH:
        set_failpoints(points)
        return runner, None
    recorder = Recorder(trial.settings.database, trial.thread_id)
    watch_failpoints(recorder)
    return runner, recorder


def environment(trial_settings: Settings) -> dict[str, str]:
    values = trial_settings.model_dump(exclude_unset=True, mode="json")
    return {f"CALLBOARD_{name.upper()}": "" if value is None else str(value) for name, value in values.items()}


def _result(runner: Runner, trial: Trial, recorder: Recorder | None = None) -> AttemptResult:
    passed = recorder.passed if recorder is not None else ()
    with runner.journal.database.read() as connection:
        records, summaries = read_records(connection, trial.thread_id), read_summaries(connection, trial.thread_id)
        children = descendants_of(connection, [record.run["id"] for record in records])
        descendants = [record_of(connection, child) for child in children]
    return AttemptResult(records=records, descendants=descendants, summaries=summaries, passed=passed)


def _records(runner: Runner, trial: Trial) -> list[RunRecord]:
    with runner.journal.database.read() as connection:
        return read_records(connection, trial.thread_id)


def _rows(runner: Runner, trial: Trial) -> Any:
    with runner.journal.database.read() as connection:
        return runs_of_thread(connection, trial.thread_id)


def _open_run(runner: Runner, trial: Trial) -> Any:
    """Return the row of the run that the thread is at; None where all have ended."""
    return next((row for row in _rows(runner, trial) if row.status not in TERMINAL), None)
