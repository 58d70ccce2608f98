"""`POST /execute`: one call of one tool without an agent's turn, as the first orchestrator design has it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from flask import Blueprint, Response, url_for
from pydantic import Field

from agents.errors import (
    CALL_BLOCKED,
    CALL_REJECTED,
    GOLDEN_CONTEXT_MISSING,
    INPUT_TOO_LARGE,
    POLICY_REFUSED,
    ROLE_MISSING,
    TOOL_NOT_OFFERED,
    WORKFLOW_MISSED,
    AgentUnknown,
    ArgumentsInvalid,
)
from agents.governance.guardrails.errors import INPUT_BLOCKED
from agents.prompt import MAX_TOOL_NAME
from bus.identity.errors import AGENT_FORBIDDEN, GRANT_REFUSED, EnvelopeRefused
from bus.journal.errors import IDEMPOTENCY_CONFLICT, TOO_MANY_RUNS, RunUnknown
from bus.payloads import TERMINAL
from config.definitions.errors import DefinitionInvalid
from config.errors import ErrorKind
from config.tracing import correlate
from web.api.answers import answer, run_with_questions
from web.auth.authentication import current_principal, require_still_valid
from web.auth.envelopes import SIGNED_WITH, current_envelope, verify_envelope
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import MAX_WAIT_S, Repeatable
from web.dialects.seeds.orchestrator import CorrelationId, SeedConfig
from web.errors import Overloaded
from web.problems import problem
from web.process import current_process
from web.schemas.paths import GrantText


class Executed(Answer):
    """A call that has ended."""

    status: Literal["succeeded", "failed", "cancelled", "dead"]
    """``failed``: the tool was called and failed; ``cancelled``: the run was stopped."""
    execution_time_ms: float
    """Milliseconds from when a worker took the call until its end."""
    run_id: str
    """The run that made the call."""
    output: Maybe[Any] = None
    """The tool's result; absent where it has none."""
    code: Maybe[str] = None
    """Of the error, where it did not succeed."""
    error: Maybe[str] = None
    """The error, as a sentence."""
    correlation_id: Maybe[str] = None
    """The id that the request had."""


class StillExecuting(Answer):
    """A call that takes longer than the request waits, or that waits for a person."""

    status: Literal["queued", "running", "waiting"]
    execution_time_ms: float
    """0: the call has not ended."""
    run_id: str
    events_url: str
    """Where its events are."""
    code: Maybe[Literal["approval_required"]] = None
    """``approval_required``: a person has to approve the call, or to say what became of it, before it continues."""
    approval_id: Maybe[str] = None
    """The question to answer, with ``POST /v1/runs/{run_id}/approvals/{approval_id}``."""
    reason: Maybe[str] = None
    """Why a person is asked, as a sentence."""
    correlation_id: Maybe[str] = None
    """The id that the request had."""


execute = Blueprint("execute", __name__)

STARTING = (AgentUnknown, AGENT_FORBIDDEN, DefinitionInvalid, INPUT_BLOCKED, INPUT_TOO_LARGE, WORKFLOW_MISSED)
REFUSING: tuple[ErrorKind, ...] = (
    *(TOOL_NOT_OFFERED, ROLE_MISSING, GOLDEN_CONTEXT_MISSING, ArgumentsInvalid),
    *(CALL_BLOCKED, CALL_REJECTED, POLICY_REFUSED),
)
"""The errors of calls that were not made; the request is answered as if it had been refused at once."""
STATUS_OF = {kind.code: kind.status for kind in REFUSING}


class ExecuteTool(Input):
    """One call of one tool."""

    tool_name: Annotated[str, Field(pattern=rf"^[!-~]{{1,{MAX_TOOL_NAME}}}$", examples=["calculator"])]
    """The tool's name, as `GET /tools` lists it."""
    arguments: dict[str, Any] = Field(default_factory=dict, examples=[{"expression": "17 * 23"}])
    """What the tool's `input_schema` describes."""
    timeout: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 30
    """How long to wait for the result, in seconds; the call continues afterwards."""
    correlation_id: Maybe[CorrelationId] = None
    """Sent back in the answer, and kept with the run."""
    config: Maybe[SeedConfig] = None
    """The agent whose tool is called; absent: the default agent."""
    grant: Maybe[GrantText] = None
    """A privilege grant for this agent and you; the call uses it up."""


class ExecuteHeaders(Repeatable):
    """The headers of a call of a tool."""

    envelope: Maybe[str] = Field(None, alias="Callboard-Envelope")
    """A signed envelope of this request; required where the deployment says so."""


@execute.post("/execute")
@call(
    {200: Executed, 202: StillExecuting},
    problems=(*STARTING, *REFUSING, GRANT_REFUSED, EnvelopeRefused, IDEMPOTENCY_CONFLICT, TOO_MANY_RUNS, RunUnknown),
    sends={"X-Run-Id": "The id of the call's run.", "Location": "The call's run."},
    verifies=verify_envelope,
)
def run(body: ExecuteTool, headers: ExecuteHeaders) -> Response:
    """Call a tool and wait for its result; 202 if it takes longer, or a person has to approve it first.

    A call that is not made is refused with the problem that says why. One that was made and failed is 200 with the
    status `failed` and the code of its error. The call is a run: a repeated request with the same `Idempotency-Key`
    gets the first one's outcome, as it is now.
    """
    process, principal = current_process(), current_principal()
    echo = {"correlation_id": body.correlation_id} if body.correlation_id is not None else {}
    envelope = current_envelope()
    signed = {SIGNED_WITH: envelope.key_id} if envelope is not None else {}
    correlate(body.correlation_id)
    handle = process.runner.call_tool(
        body.tool_name,
        body.arguments,
        agent_id=body.config.agent_id if body.config is not None else None,
        grant=body.grant,
        principal=principal,
        metadata=(echo | signed) or None,
        idempotency=headers.idempotency(body),
    )
    _wait(handle.run_id, handle.thread_id, body.timeout)
    require_still_valid()
    with run_with_questions(handle.run_id) as run_data:
        if run_data["status"] not in TERMINAL:
            return _unfinished(run_data, echo)
        return _finished(run_data, echo)


def _wait(run_id: str, thread_id: str, wait_s: float) -> None:
    process, tenant = current_process(), current_principal().tenant
    try:
        process.wait(tenant, wait_s, lambda: process.journal.readers.wait_until_idle(tenant, run_id, thread_id))
    except Overloaded:
        return  # the call is accepted, and the caller needs the id of its run


def _unfinished(run_data: Mapping[str, Any], echo: Mapping[str, str]) -> Response:
    """Return 202: the call is under way, or waits for a person."""
    ids = {"run_id": run_data["run_id"], "events_url": url_for("events.of_run", run_id=run_data["run_id"])}
    body = {"status": run_data["status"], "execution_time_ms": _took_ms(run_data), **ids, **echo}
    if questions := run_data.get("approvals"):
        first = questions[0]
        body |= {"code": "approval_required", "approval_id": first["approval_id"], "reason": first["reason"]}
    return answer(body, 202, **_headers(run_data))


def _finished(run_data: Mapping[str, Any], echo: Mapping[str, str]) -> Response:
    """Return what became of the call: its outcome, or the problem of a call that was not made."""
    error = (
        current_process().journal.readers.runs.last_error(run_data["run_id"])
        if run_data["status"] == "failed"
        else None
    )
    if error is not None and error.code in STATUS_OF:
        status = STATUS_OF[error.code]
        facts: dict[str, Any] = {"run_id": run_data["run_id"], **echo}
        refused = problem(status, error.code, error.message, retryable=False, **facts)
        refused.headers.update(_headers(run_data))
        return refused
    details: dict[str, Any] = {"run_id": run_data["run_id"], **echo}
    if error is not None:
        details |= {"code": error.code, "error": error.message}
    elif run_data["status"] != "succeeded":
        details |= {"code": run_data.get("reason") or run_data["status"]}
    output = {"output": run_data["output"]} if run_data.get("output") is not None else {}
    body = {"status": run_data["status"], **output, "execution_time_ms": _took_ms(run_data), **details}
    return answer(body, 200, **_headers(run_data))


def _headers(run_data: Mapping[str, Any]) -> dict[str, str]:
    return {"X-Run-Id": run_data["run_id"], "Location": url_for("runs.one", run_id=run_data["run_id"])}


def _took_ms(run_data: Mapping[str, Any]) -> float:
    """Return the time from when a worker took the call until its end, in ms; 0 where it has not begun or ended."""
    began, ended = run_data.get("started_at"), run_data.get("ended_at")
    if began is None or ended is None:
        return 0.0
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds() * 1000
