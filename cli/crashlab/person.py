"""The person of a trial: sends the messages, answers approvals, resumes what is paused, and acts in mid-run.

A person whose process was killed repeats a request with its ``Idempotency-Key``, as a client does that got no answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agents.handle import RunHandle
from agents.runner import Runner
from bus.journal.approvals import Decision
from bus.journal.clients import CONTROLS, IdempotencyKey
from bus.journal.owner import Reason
from bus.journal.readers import read_controls, steps_of
from bus.payloads import ResponsePayload
from cli.crashlab import ledger
from cli.crashlab.trial import Trial
from cli.output.form import FormField, fields_of
from config.ids import canonical_digest

BY = "crash lab"
READ_S, POLL_S = 10.0, 0.005
"""Seconds until a run's owner has read a request, and between two looks at it."""


class Person:
    """Uses a trial's thread through this process's runner."""

    def __init__(self, trial: Trial, runner: Runner) -> None:
        self._trial = trial
        self._runner = runner

    # --- messages

    def begin(self) -> RunHandle:
        """Send the first message, or call the tool."""
        subject, thread_id = self._trial.subject, self._trial.thread_id
        agent_id, is_detached = subject.agent_id, subject.is_detached
        if subject.call is not None:
            return self._runner.call_tool(*subject.call, agent_id=agent_id, thread_id=thread_id, detached=is_detached)
        if subject.workflow_input is not None:
            its: dict[str, Any] = {"thread_id": thread_id, "detached": is_detached}
            return self._runner.run_workflow(agent_id, subject.workflow_input, **its)
        return self._runner.run(subject.objective, agent_id, thread_id=thread_id, detached=is_detached)

    def send_next(self, count: int) -> bool:
        """Send the message behind the first ``count`` ones, and return whether there was one."""
        following = [self._trial.subject.objective, *self._trial.subject.then][count:]
        if following:
            self._send(following[0], key=f"{self._trial.thread_id} {count}")
        return bool(following)

    def _send(self, content: str, key: str, **policy: Any) -> None:
        subject, thread_id = self._trial.subject, self._trial.thread_id
        body = {"agent": subject.agent_id, "input": content, "thread_id": thread_id, **policy}
        self._runner.run(
            *(content, subject.agent_id),
            thread_id=thread_id,
            detached=subject.is_detached,
            idempotency=idempotency(key, "/v1/runs", body),
            **policy,
        )

    # --- in mid-run

    def act_in_time(self, run: RunHandle) -> None:
        """Stop the run, or reply to it, in a thread when its answer contains ``act_at``."""
        word = self._trial.subject.act_at
        if word is None:
            return

        def act() -> None:
            for event in run.events():
                if isinstance(event, ResponsePayload) and word in event.content:
                    self._act(run)
                    return

        threading.Thread(target=act, name="person", daemon=True).start()

    def _act(self, run: RunHandle) -> None:
        reply = self._trial.subject.reply
        if reply is None:
            run.cancel(by=BY)
        else:
            self._send(reply.content, key=f"{self._trial.thread_id} reply", if_busy=reply.if_busy)
            wait_until_read(self._runner, run.run_id)
            reply.afterwards()

    # --- when it waits

    def answer(self, run: RunHandle, reason: str | None) -> bool:
        """Do what a waiting run waits for, and return whether it was for a person.

        Every open approval is answered as by a person who checked the target system.
        """
        if reason == "paused":
            run.control(CONTROLS["resume"], by=BY)
            return True
        if self._trial.subject.reply is not None:
            self._act(run)
            return True
        questions = run.approvals()
        if reason == Reason.SIGNAL and not questions:
            return self._signal(run)
        with self._runner.journal.database.read() as connection:
            keys = {step["call_id"]: step["idempotency_key"] for step in steps_of(connection, run.run_id)}
        entries = ledger.read(self._trial.ledger)
        for question in questions:
            key = keys[question["call_id"]]
            arrived = [entry for entry in entries if entry.key == key]
            run.decide(question["approval_id"], _decision(self._trial, question, arrived), by=BY)
        return bool(questions)

    def _signal(self, run: RunHandle) -> bool:
        """Give a workflow the signals that it waits for, or stop it; it may also wait for a time."""
        time.sleep(POLL_S)
        if not self._trial.subject.signals:
            run.cancel(by=BY)
        for name, data in self._trial.subject.signals.items():
            key = idempotency(f"{run.run_id} {name}", f"/v1/runs/{run.run_id}/signals/{name}", {"data": data})
            self._runner.signal(run.run_id, name, data, by=BY, idempotency=key)
        return True


def wait_until_read(runner: Runner, run_id: str) -> None:
    """Return when the log answers each control of a run, or says that it is accepted; at most after some seconds."""
    until_s = time.monotonic() + READ_S
    while time.monotonic() < until_s:
        with runner.journal.database.read() as connection:
            if all(row["state"] for row in read_controls(connection, run_id)):
                return
        time.sleep(POLL_S)


def idempotency(key: str, path: str, body: Mapping[str, Any]) -> IdempotencyKey:
    """Return the key of a request, as the web process makes it of the header."""
    return IdempotencyKey(key=key, method="POST", path=path, body_digest=canonical_digest(body))


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
