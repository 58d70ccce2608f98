"""The work of the child processes: accept a run, execute it, resume it after a crash, answer its approvals."""

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

from agents.handle import RunHandle
from agents.runner import Runner
from bus.journal.approvals import Decision
from bus.journal.readers import RunRecord, read_record, run_of_thread, steps_of
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import TERMINAL, ResponsePayload
from cli.crashlab import ledger
from cli.crashlab.places import Passed, Recorder
from cli.output.form import FormField, fields_of
from config.failpoints import set_failpoints, watch_failpoints
from config.settings import Settings, settings
from handlers.run_agent import run_agent

PAUSE_S = 0.05
"""Between two polls of a run whose owner's lease has to expire."""
PUBLISH_S = 3.0
"""How long publishing a detached run's message may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The run that a lab repeats."""

    agent_id: str
    objective: str
    call: tuple[str, Mapping[str, Any]] | None = None
    """The name and the arguments of the tool that a run of kind ``tool`` calls; None: it is an agent's."""
    is_detached: bool = False
    stop_at: str | None = None
    """The run is cancelled when its answer contains this; then only its end and the effects are compared."""
    is_same_each_time: bool = False
    """Whether the model's answers are deterministic, so that whole conversations can be compared."""
    trust_overrides: bool = False
    """Whether the agent's file may declare a tool safer than the tool does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One repetition, whichever processes execute it."""

    subject: Subject
    thread_id: str
    """The trial's own thread, by which every process finds the run."""
    settings: Settings
    ledger: Path
    returned: Mapping[str, Any] = field(default_factory=dict)
    """Results of the undisturbed run's calls by ``call_name``, used to answer approvals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptResult:
    """What a process that was not killed hands back."""

    record: RunRecord | None
    passed: Sequence[Passed] = ()
    """The places it passed, if it was watched."""
    recorded: frozenset[str] = frozenset()
    """The idempotency keys of steps that had ended before it started."""
    arrived_before: int = 0
    """Lines of the ledger before it started."""


WATCH = "watch"


def accept(trial: Trial, points: str) -> AttemptResult:
    """Accept the run as detached, and leave it to another process."""
    runner, recorder = _open(trial, points)
    _begin(trial, runner).settle(PUBLISH_S)
    return _result(runner, trial, recorder)


def bring_to_end(trial: Trial, points: str) -> AttemptResult:
    """Start the run, or resume it if another process died, answer its approvals, and return after its end."""
    runner, recorder = _open(trial, points)
    record, arrived = _record(runner, trial), len(ledger.read(trial.ledger))
    steps = record.steps if record is not None else ()
    recorded = frozenset(step["idempotency_key"] for step in steps if step["ended_ms"] is not None)
    handle = runner.handle(record.run["id"]) if record is not None else _begin(trial, runner)
    _stop_in_time(trial, handle)
    if record is None:
        _work_off(trial, runner, handle)
    while (run := _row(runner, trial)).status not in TERMINAL:
        if run.status == "queued":
            run_agent(RunAgentMessage.of_run(run).to_wire())  # as a worker's thread handles the message
        elif run.status == "waiting" and run.reason == "child":
            _work_on_children(runner, run.id)
        elif run.status == "waiting":
            if not _answer(trial, runner, handle):
                break  # it does not wait for an approval
        elif not runner.journal.owner.reaper.look():
            time.sleep(PAUSE_S)
    return replace(_result(runner, trial, recorder), recorded=recorded, arrived_before=arrived)


def _begin(trial: Trial, runner: Runner) -> RunHandle:
    subject, thread_id = trial.subject, trial.thread_id
    if subject.call is not None:
        agent_id, is_detached = subject.agent_id, subject.is_detached
        return runner.call_tool(*subject.call, agent_id=agent_id, thread_id=thread_id, detached=is_detached)
    return runner.run(subject.objective, subject.agent_id, thread_id=thread_id, detached=subject.is_detached)


def _work_off(trial: Trial, runner: Runner, handle: RunHandle) -> None:
    """Wait until this process has finished its run, and answer its approvals meanwhile."""
    while True:
        with suppress(TimeoutError):
            return runner.settle(PAUSE_S)
        run = _row(runner, trial)
        if run.status == "waiting" and run.reason != "child" and not _answer(trial, runner, handle):
            return  # it does not wait for an approval


def _work_on_children(runner: Runner, run_id: str) -> None:
    """Execute the children of a run as workers would, and requeue those whose process died."""
    for message in runner.journal.readers.runs.messages_of_children(run_id):
        run_agent(message.to_wire())
        _work_on_children(runner, message.run_id)
    if not runner.journal.owner.reaper.look():
        time.sleep(PAUSE_S)


def answer_questions(trial: Trial) -> AttemptResult:
    """Answer the run's approvals until it has ended; worker processes execute it."""
    runner, _ = _open(trial, "")
    while (run := _row(runner, trial)) is None or run.status not in TERMINAL:
        if run is not None and run.status == "waiting":
            _answer(trial, runner, runner.handle(run.id))
        time.sleep(PAUSE_S)
    return _result(runner, trial)


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
    return AttemptResult(record=_record(runner, trial), passed=recorder.passed if recorder is not None else ())


def _record(runner: Runner, trial: Trial) -> RunRecord | None:
    with runner.journal.database.read() as connection:
        return read_record(connection, trial.thread_id)


def _row(runner: Runner, trial: Trial) -> Any:
    with runner.journal.database.read() as connection:
        return run_of_thread(connection, trial.thread_id)


# --- the person -------------------------------------------------------------------------------------


def _stop_in_time(trial: Trial, handle: RunHandle) -> None:
    """Cancel the run in a thread when its answer contains ``stop_at``."""
    word = trial.subject.stop_at
    if word is None:
        return

    def stop() -> None:
        for event in handle.events():
            if isinstance(event, ResponsePayload) and word in event.content:
                handle.cancel(by="crash lab")
                return

    threading.Thread(target=stop, name="person", daemon=True).start()


def _answer(trial: Trial, runner: Runner, handle: RunHandle) -> bool:
    """Answer every open approval as a person who checked the target system would; return whether there was one."""
    questions = handle.approvals()
    with runner.journal.database.read() as connection:
        keys = {step["call_id"]: step["idempotency_key"] for step in steps_of(connection, handle.run_id)}
    entries = ledger.read(trial.ledger)
    for question in questions:
        key = keys[question["call_id"]]
        arrived = [entry for entry in entries if entry.key == key]
        handle.decide(question["approval_id"], _decision(trial, question, arrived), by="crash lab")
    return bool(questions)


def _decision(trial: Trial, question: Mapping[str, Any], arrived: Sequence[ledger.Entry]) -> Decision:
    offered = question["decisions"]
    if "answer" in offered:
        return Decision(decision="answer", result=filled_in(question["input_schema"]))
    if "run_again" not in offered:
        return Decision(decision=offered[0], scope=next(iter(question["scopes"]), None))
    if not arrived:
        return Decision(decision="run_again")
    returned = trial.returned.get(call_name(question["name"], question["arguments"]))
    result = next((entry.result for entry in arrived if entry.mark == ledger.RETURNED), returned)
    return Decision(decision="take_as_done", result=result)


def filled_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer to a form that has its required fields, each with a plain value of its kind."""
    required = form.get("required", ())
    return {field.name: _plain(field) for field in fields_of(form) if field.name in required}


def _plain(field: FormField) -> Any:
    least = field.schema.get("minimum", 1)
    by_kind = {"string": "an answer", "integer": least, "number": least, "boolean": True, "array": [], "object": {}}
    if field.choices and not field.is_list:
        return field.choices[0]
    return by_kind.get(str(field.schema.get("type")), "an answer")


def call_name(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the tool's name and arguments as one string, the same for equal calls."""
    return f"{tool} {orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()}"
