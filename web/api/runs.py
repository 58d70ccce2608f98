"""Runs: start, list, show, remove and cancel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flask import Blueprint, Response, url_for
from pydantic import ConfigDict, Field

from agents.errors import INPUT_EMPTY, INPUT_INVALID, INPUT_TOO_LARGE
from agents.governance.guardrails.errors import INPUT_BLOCKED
from bus.identity.errors import FORBIDDEN, GRANT_REFUSED
from bus.journal.clients import CONTROLS
from bus.journal.errors import (
    CONTROL_REFUSED,
    IDEMPOTENCY_CONFLICT,
    RUN_OPEN,
    TOO_MANY_CONTROLS,
    VERSION_UNKNOWN,
    RunUnknown,
)
from bus.journal.forks.errors import RUN_NOT_REPEATABLE, STEP_UNKNOWN
from bus.payloads import TERMINAL
from config.definitions.agent import Priority
from config.definitions.behaviour import ON_DISCONNECT
from config.errors import BadRequest
from web.api.answers import STARTING, accepted, answer, end_of, run_with_questions, start_run, start_workflow
from web.auth.authentication import current_principal, require_still_valid
from web.calls.call import call
from web.calls.fields import Input, Maybe
from web.calls.parameters import (
    MAX_WAIT_S,
    Conditional,
    Preferring,
    Repeatable,
    RunListPlace,
    Whole,
    applied,
    run_place_text,
    sized,
)
from web.calls.run_filters import RunFilters
from web.fleet import with_starting
from web.process import current_process
from web.schemas.paths import AgentName, GrantText, RunId, Sentence, ThreadName, WorkflowName
from web.schemas.run import AcceptedRun, ControlledRun, EndEvent, Run, RunPage

if TYPE_CHECKING:
    from bus.journal.clients import CommitResult, Control

runs = Blueprint("runs", __name__)

MOST_VERSIONS = 999_999_999
OPTIONS = ("thread_id", "detached", "grant", "metadata", "if_busy", "on_disconnect", "priority")
OF_AGENTS = ("if_busy", "on_disconnect", "version")
"""Fields that only starts of agents have."""
MAX_METADATA_BYTES = 16 * 1024
KINDS: Mapping[str, Any] = {
    "agent": {"required": ["agent"], "properties": {"workflow": False, "input": {"type": "string"}}},
    "workflow": {
        "required": ["workflow"],
        "properties": {"agent": False, "input": {"type": "object"}} | dict.fromkeys(OF_AGENTS, False),
    },
}
"""Which fields go together, as JSON Schema."""
WorkflowInput = Annotated[dict[str, Any], Field(examples=[{"text": "My parcel has not arrived."}])]


class StartRun(Input):
    """A message for an agent, or the input of a workflow."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [*KINDS.values()]})

    agent: Maybe[AgentName] = None
    """The id of the agent; in place of ``workflow``."""
    workflow: Maybe[WorkflowName] = None
    """The id of the workflow; in place of ``agent``."""
    input: Annotated[Sentence | WorkflowInput, Field(examples=["What is 17 * 23?"])]
    """Of an agent the message, a sentence or a page; of a workflow an object that fits its input schema."""
    thread_id: Maybe[ThreadName] = None
    """Your own name for the conversation; it is created when it is new. Absent: a new one."""
    detached: bool = True
    """False: wait for the run's end."""
    wait_s: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 30
    """How long to wait with ``"detached": false``, in seconds; the run continues afterwards."""
    metadata: Maybe[Annotated[dict[str, Any], sized(MAX_METADATA_BYTES)]] = None
    """Stored with the run; up to 16 KiB."""
    grant: Maybe[GrantText] = None
    """A privilege grant for this agent or workflow and you; the run uses it up."""
    if_busy: Maybe[Literal["enqueue", "reject", "interrupt", "rollback", "merge", "steer"]] = None
    """Of an agent: what becomes of the message where the conversation has an open run; absent: what its definition
    says."""
    on_disconnect: Maybe[Annotated[str, Field(json_schema_extra={"pattern": ON_DISCONNECT})]] = None
    """Of an agent: what becomes of the run after so many seconds without viewers (``stop:30``, ``pause:30``), or
    ``continue``; absent: what its definition says."""
    priority: Maybe[Priority] = None
    """Before which queued runs of the same tenant and queue it begins; absent: what the definition says."""

    version: Maybe[Annotated[int, Whole(1, MOST_VERSIONS)]] = None
    """Of an agent: the version that the run gets in place of the one that serves; for operators and administrators."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of the start, once the fields go together.

        Raises:
            BadRequest: there are an agent and a workflow, neither, or a field of the other kind.
        """
        if (self.agent is None) == (self.workflow is None):
            raise BadRequest(
                "name what to start: either 'agent' with a message, or 'workflow' with an object as input."
            )
        if isinstance(self.input, str) != (self.workflow is None):
            form = "text, as the message for an agent" if self.workflow is None else "an object, as for a workflow"
            raise BadRequest(f"'input' has to be {form}.")
        for name in OF_AGENTS if self.workflow is not None else ():
            if getattr(self, name) is not None:
                raise BadRequest(f"'{name}' is of agents; leave it out where you start a workflow.")
        options = OPTIONS if self.workflow is None else tuple(name for name in OPTIONS if name not in OF_AGENTS)
        return {name: getattr(self, name) for name in options}


class StartHeaders(Repeatable, Preferring):
    """The headers of a start."""


@runs.post("/v1/runs")
@call(
    {202: AcceptedRun, 200: EndEvent},
    problems=(*STARTING, GRANT_REFUSED, INPUT_INVALID, FORBIDDEN, VERSION_UNKNOWN),
)
def start(body: StartRun, headers: StartHeaders) -> Response:
    """Accept a run of an agent or a workflow: 202 with its addresses, or 200 with its end if the caller waits for it.

    The caller waits with ``"detached": false`` in the body, or with ``Prefer: wait=N``.
    """
    options = body.options
    if isinstance(body.input, str):
        handle = start_run(body.input, body.agent, body, headers, version=body.version, **options)
    else:
        handle = start_workflow(body.input, str(body.workflow), body, headers, **options)
    links: dict[str, str] = {}
    wait_s: float = headers.wait_s if body.detached else body.wait_s
    if wait_s:
        end, has_waited = end_of(handle, wait_s)
        links = applied(headers.wait_s if body.detached and has_waited else 0)
        require_still_valid()
        if end is not None:
            links |= {"Location": url_for("runs.one", run_id=handle.run_id)}
            return Response(end.data, 200, links, content_type="application/json")
    return accepted(handle, has_waited=bool(wait_s), **links)


class WhichRuns(RunFilters):
    """Which runs to list, and in which order."""

    sort: Literal["newest", "oldest", "longest", "dearest"] = "newest"
    """``newest`` and ``oldest`` by the acceptance. ``longest``: ended runs by the time from their acceptance to their
    end; with an open ``status`` those that are open for the longest time. ``dearest``: ended runs of known cost."""
    limit: Annotated[int, Whole(1, 200)] = 50
    """Most runs of a page."""
    before: RunListPlace = None
    """``next`` of the page before, with the same ``sort``."""


@runs.get("/v1/runs")
@call({200: RunPage})
def many(query: WhichRuns) -> Response:
    """List runs, the newest first; a page ends at its limit or where the runs' outputs reach a megabyte."""
    process, place = current_process(), query.before
    if place is not None and place.order != query.sort:
        raise BadRequest(f"`before` is a place in a list with sort={place.order}; send that `sort` with it.")
    filters = query.filters(process.settings.queue)
    with process.large_work():
        summaries, following = process.journal.readers.runs.page(
            current_principal(), order=query.sort, limit=query.limit, before=place, **filters
        )
        return answer({"runs": summaries} | ({"next": run_place_text(following)} if following is not None else {}))


class HowMuch(Input):
    """What to return of a run."""

    why: Annotated[int, Whole(0, 1)] = 0
    """1: with a sentence about what an open run waits for."""


class RunHeaders(Conditional, Preferring):
    """The headers of a look at a run."""


@runs.get("/v1/runs/<run_id>")
@call({200: Run, 304: None}, problems=(RunUnknown,))
def one(run_id: RunId, query: HowMuch, headers: RunHeaders) -> Response:
    """Return one run with its open questions.

    With ``Prefer: wait=N`` an open run is returned when it has ended, or after N seconds.
    """
    if headers.wait_s:
        _wait_for_end(run_id, headers.wait_s)
    with run_with_questions(run_id) as run:
        return _tagged(run | _why(run_id, query.why), headers)


def _wait_for_end(run_id: str, wait_s: int) -> None:
    process = current_process()
    thread_id, status, _ = process.journal.readers.runs.bounds(current_principal(), run_id)
    if status not in TERMINAL:
        tenant = current_principal().tenant
        process.wait(tenant, wait_s, lambda: process.journal.readers.wait(tenant, run_id, thread_id))
        require_still_valid()


def _tagged(run: dict[str, Any], headers: RunHeaders) -> Response:
    answered = headers.answer(run)
    answered.headers.update(applied(headers.wait_s))
    return answered


def _why(run_id: str, is_wanted: int) -> dict[str, str]:
    explained = current_process().journal.readers.runs.explain(current_principal(), run_id=run_id) if is_wanted else []
    return {"why": with_starting(explained[0], current_process().settings.state).sentence} if explained else {}


@runs.delete("/v1/runs/<run_id>")
@call({204: None}, problems=(RunUnknown, RUN_OPEN))
def remove(run_id: RunId) -> Response:
    """Remove an ended run, its log and its steps; its thread keeps the messages."""
    current_process().journal.readers.runs.remove(current_principal(), [run_id])
    return Response(status=204)


class _Repeat(Input):
    """How a run is repeated."""

    mode: Literal["recorded", "live"] = "recorded"
    """``live``: calls that were recorded are made again, as far as the policy and persons allow it."""


class RetryRun(_Repeat):
    """How a run is retried."""

    failed_items: bool = False
    """Of a workflow: whether only the failed items of FOR_EACH are made again, with what follows from them; otherwise
    all failed nodes are."""


class RerunRun(_Repeat):
    """From where a run is repeated."""

    from_step: Annotated[int, Whole(1, 2**31 - 1), Field(examples=[2])]
    """The number of the first step that is made anew; those before it are copied."""


AGAIN = (*STARTING, INPUT_INVALID, RunUnknown, RUN_NOT_REPEATABLE, FORBIDDEN)


@runs.post("/v1/runs/<run_id>/rerun")
@call({202: AcceptedRun}, problems=(*AGAIN, STEP_UNKNOWN))
def rerun(run_id: RunId, body: RerunRun, headers: Repeatable) -> Response:
    """Repeat a run of yours from a step on, as a new run in a fork of its thread: 202 with its addresses."""
    return _repeated(body, headers, run_id=run_id, kind="rerun", from_step=body.from_step, mode=body.mode)


@runs.post("/v1/runs/<run_id>/retry")
@call({202: AcceptedRun}, problems=AGAIN)
def retry(run_id: RunId, body: RetryRun, headers: Repeatable) -> Response:
    """Retry a run of yours that did not succeed, as the next run of its thread: 202 with its addresses."""
    fields: dict[str, Any] = {"run_id": run_id, "mode": body.mode, "items_only": body.failed_items}
    return _repeated(body, headers, kind="retry", **fields)


def _repeated(body: Input, headers: Repeatable, **fields: Any) -> Response:
    from bus.journal.clients import Origin  # brings the journal, which the first request opens

    runner, idempotency = current_process().runner, headers.idempotency(body)
    return accepted(
        runner.repeat(Origin(**fields), detached=True, principal=current_principal(), idempotency=idempotency)
    )


class NoFields(Input):
    """Nothing; the body may be left out."""


class ControlRun(Input):
    """When a control is to be done; the body may be left out."""

    expected_status: Maybe[Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled", "dead"]] = None
    """The only status of the run in which it is to be done: 409 in another one, and refused as ``stale`` where the run
    leaves it before its worker has read the control."""


BARE = [verb for verb, command in CONTROLS.items() if not command.takes_data]
REFUSALS = (RunUnknown, CONTROL_REFUSED, TOO_MANY_CONTROLS, IDEMPOTENCY_CONFLICT)


@runs.post(f"/v1/runs/<run_id>/<any({', '.join(BARE)}):verb>")
@call({200: ControlledRun, 202: ControlledRun}, problems=REFUSALS)
def control(run_id: RunId, verb: str, body: ControlRun, headers: Repeatable) -> Response:
    """Request what the verb says, as ``cancel``: 200 if it is done, 202 if the run's owner still has to do it.

    ``cancel`` and ``pause`` may be repeated.
    """
    command = CONTROLS[verb]
    written = _control(run_id, command, body, headers)
    return controlled(written, 200 if command.is_done(written.status) else 202)


def _control(
    run_id: str, command: Control, body: ControlRun, headers: Repeatable, data: dict[str, Any] | None = None
) -> CommitResult:
    principal, expected = current_principal(), body.expected_status
    key = headers.idempotency(body)
    return current_process().journal.clients.control(
        *(principal, run_id, command), by=principal.id, idempotency=key, data=data, expected_status=expected
    )


class SteerRun(ControlRun):
    """A message for an open run."""

    content: Sentence
    """The text: the run's model gets it between two steps."""


@runs.post("/v1/runs/<run_id>/steer")
@call({202: ControlledRun}, problems=(*REFUSALS, INPUT_BLOCKED, INPUT_EMPTY, INPUT_TOO_LARGE))
def steer(run_id: RunId, body: SteerRun, headers: Repeatable) -> Response:
    """Give an open run a message: 202, and `control` events of the run say when its model gets it."""
    principal, key, expected = current_principal(), headers.idempotency(body), body.expected_status
    steer_run = current_process().runner.steer
    written = steer_run(run_id, body.content, principal=principal, idempotency=key, expected_status=expected)
    return controlled(written, 202)


class SetRun(ControlRun):
    """What to change about an open run; what is left out stays."""

    max_iterations: Maybe[Annotated[int, Whole(1, 100_000)]] = None
    """Most rounds with tools, with those that it has had: as many as its agent's definition and its parent allow, or
    fewer."""
    priority: Maybe[Priority] = None
    """Before which queued runs of its tenant and queue it begins."""


@runs.post("/v1/runs/<run_id>/set")
@call({200: ControlledRun, 202: ControlledRun}, problems=REFUSALS)
def set_limits(run_id: RunId, body: SetRun, headers: Repeatable) -> Response:
    """Change limits or the priority of an open run: 200 if it is done, 202 if the run's owner still has to."""
    limits = {"max_iterations": body.max_iterations, "priority": body.priority}
    data = {name: value for name, value in limits.items() if value is not None}
    written = _control(run_id, CONTROLS["set"], body, headers, data)
    return controlled(written, 202 if written.control_id and not written.events else 200)


def controlled(written: CommitResult, status: int) -> Response:
    """Return the answer to a control: the run's state, and the request's id and number."""
    facts = {"run_id": written.run_id, "thread_id": written.thread_id, "status": written.status}
    request = {"control_id": written.control_id, "number": written.number}
    return answer(facts | {name: value for name, value in request.items() if value is not None}, status)
