"""Workflows: those that can be started, how each is drawn, signals for their runs; and the steps of any run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from flask import Blueprint, Response
from pydantic import Field

from agents.errors import INPUT_TOO_LARGE, SIGNAL_INVALID, SIGNAL_UNKNOWN, WORKFLOW_MISSED, AgentUnknown
from agents.governance.guardrails.errors import INPUT_BLOCKED
from bus.identity.access import may_start
from bus.identity.errors import FORBIDDEN
from bus.journal.errors import VERSION_UNKNOWN, RunUnknown
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import pinned_definition
from web.api.agents import BROKEN, BrokenAgent, problems_of
from web.api.answers import answer
from web.api.runs import REFUSALS, controlled
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, AnyJson, Input, Maybe
from web.calls.parameters import Repeatable, StepAfter, Whole
from web.process import current_process
from web.schemas.paths import RunId, SignalName, WorkflowId
from web.schemas.run import ControlledRun

if TYPE_CHECKING:
    from config.definitions.workflows.fields import WorkflowDefinition

workflows, steps = Blueprint("workflows", __name__), Blueprint("steps", __name__)


class WorkflowSummary(Answer):
    """A workflow that can be started."""

    id: str
    name: str
    description: str
    input: dict[str, Any]
    """What a run is started with, as JSON Schema."""
    version: Maybe[int] = None
    """The version that serves in place of what its file says; absent: what its file says serves."""
    problem: Maybe[str] = None
    """Where its file cannot be used, and the last version that could serves: that, as a sentence."""


class WorkflowNode(Answer):
    """A node, as the workflow's file has it."""

    id: str
    type: str
    name: Maybe[str] = None
    """For people; absent: the id."""
    config: Maybe[dict[str, Any]] = None
    """By its type; without the prompts of models, `prompt` and `system`."""
    on_error: Maybe[Literal["fail", "continue", "branch"]] = None
    """When it fails: the run fails, which is usual; the run continues; or its edges with `error` are followed."""
    retry: Maybe[int] = None
    """How often it is tried again; absent: as its tool or model says."""
    timeout_s: Maybe[float] = None
    compensate: Maybe[dict[str, Any]] = None
    """The call that undoes it, where the run fails later."""


class WorkflowEdge(Answer):
    """An edge."""

    source: str
    target: str
    source_handle: Maybe[str] = None
    """By which outcome of the source it is followed: `branch-0`, `default`, `parallel-0`, `foreach-body`, `error`."""


class WorkflowSignal(Answer):
    """A signal that a workflow waits for."""

    name: str
    """Inside of a FOR_EACH, signals are called by this name and the index of the item: `paid-17`."""
    node: Maybe[str] = None
    """The node that waits for it; absent where the workflow is a blueprint."""
    data_schema: Maybe[dict[str, Any]] = None
    """What its data have to fit, as JSON Schema; absent: anything."""


class WorkflowShown(WorkflowSummary):
    """A workflow with its drawing."""

    output: Maybe[dict[str, Any]] = None
    """What a run's output fits, as JSON Schema; absent: anything."""
    variables: dict[str, Any]
    """Constants for templates and conditions."""
    nodes: list[WorkflowNode]
    edges: list[WorkflowEdge]
    signals: list[WorkflowSignal]
    blueprint: Maybe[str] = None
    """In place of nodes and edges: the class that has its logic, `package.module:Class`."""
    digest: str
    """SHA-256 of its definition, which a run has as `definition`."""


class WorkflowList(Answer):
    """The workflows that can be started, and the definitions that cannot be used."""

    workflows: list[WorkflowSummary]
    problems: list[BrokenAgent]


@workflows.get("/v1/workflows")
@call({200: WorkflowList})
def many() -> Response:
    """List the workflows that the caller may start, by name; administrators of ``default`` also see problems.

    No tool is imported.
    """
    principal, registry = current_principal(), current_process().runner.registry
    startable = [
        summary(definition)
        for definition in registry.seen_by(principal)
        if definition.is_workflow and definition.listed and may_start(principal, definition)
    ]
    problems = problems_of(registry, of_workflows=True) if registry.shows_problems(principal) else []
    startable.sort(key=lambda workflow: workflow["name"].casefold())
    return answer({"workflows": startable, "problems": problems})


class WhichDefinition(Input):
    """Which definition of the workflow is returned."""

    digest: Maybe[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = None
    """That with which a run was accepted, its ``definition``; absent: the one that serves now."""


@workflows.get("/v1/workflows/<workflow_id>")
@call({200: WorkflowShown}, problems=(AgentUnknown, DefinitionInvalid, WORKFLOW_MISSED, VERSION_UNKNOWN))
def one(workflow_id: WorkflowId, query: WhichDefinition) -> Response:
    """Return one workflow with its nodes and edges, as new runs get it, or as a run of it has it."""
    from config.definitions.workflows.shown import drawing  # most processes show no workflow

    definition = _recorded(workflow_id, query.digest) if query.digest else _serving(workflow_id)
    return answer(summary(definition) | drawing(definition))


def _serving(workflow_id: str) -> WorkflowDefinition:
    """Return the workflow as new runs get it.

    Raises:
        AgentUnknown, DefinitionInvalid: see ``AgentRegistry.get_for``.
        WORKFLOW_MISSED: the id is an agent's.
    """
    return _workflow(current_process().runner.registry.get_for(current_principal(), workflow_id))


def _recorded(workflow_id: str, digest: str) -> WorkflowDefinition:
    """Return the workflow as a run that the caller sees was accepted with it.

    Raises:
        VERSION_UNKNOWN: there is no such run.
    """
    content_json = current_process().journal.readers.runs.definition(current_principal(), workflow_id, digest)
    if content_json is None:
        raise VERSION_UNKNOWN(f"no run of '{workflow_id[:80]}' that you see has the definition {digest[:12]}.")
    return _workflow(pinned_definition(workflow_id, digest, content_json))


def _workflow(definition: Any) -> WorkflowDefinition:
    from config.definitions.workflows.fields import WorkflowDefinition

    if not isinstance(definition, WorkflowDefinition):
        raise WORKFLOW_MISSED(problem=f"'{definition.id}' is an agent; `GET /v1/agents/{definition.id}` returns it.")
    return definition


def summary(definition: Any) -> dict[str, Any]:
    """Return what a list shows of a workflow."""
    return {
        "id": definition.id,
        "name": definition.name,
        "description": definition.description,
        "input": dict(definition.input_schema),
        **({"version": definition.version} if definition.version is not None else {}),
        **({"problem": BROKEN.format(version=definition.version)} if definition.problem else {}),
    }


SIGNALLED = (*REFUSALS, FORBIDDEN, SIGNAL_UNKNOWN, SIGNAL_INVALID, INPUT_BLOCKED, INPUT_TOO_LARGE)


class SignalData(AnyJson):
    """The data of the signal: any JSON; without a body null."""


@workflows.post("/v1/runs/<run_id>/signals/<name>")
@call({202: ControlledRun}, problems=SIGNALLED)
def signal(run_id: RunId, name: SignalName, body: SignalData, headers: Repeatable) -> Response:
    """Give an open workflow a signal: 202, and `control` events of the run say when a node has taken it.

    Each name is given once. It may come before its node waits for it, and the node takes it then.
    """
    principal, key = current_principal(), headers.idempotency(body)
    written = current_process().runner.signal(run_id, name, body.value, principal=principal, idempotency=key)
    return controlled(written, 202)


# --- the steps of runs


class Step(Answer):
    """A step of a run: a call of a model or a tool, or a node of a workflow."""

    id: str
    number: int
    """Its number in its run, from 1, in the order in which steps began."""
    kind: str
    """``model``, ``tool``; ``sample``: a model call that a tool's server asks for; ``guard``: a function checks the
    input. Of a workflow also ``node``: computed; ``item``: one of a FOR_EACH; ``wait``: for a signal or a time."""
    name: str
    """The model, the tool, or the type of the node; of an item its FOR_EACH."""
    node: Maybe[str] = None
    """Of a workflow: the node's path, ``items/17/charge``; of an item ``items/17``."""
    call_id: Maybe[str] = None
    """Of a tool's call: by which its events name it."""
    status: str
    """``planned``, ``started``, ``waiting``; ``done``, ``failed``, ``refused``, ``cancelled`` or ``unknown``."""
    effect: Maybe[str] = None
    """Of a tool's call: its effect class; absent where it was not made."""
    attempt: int
    """How often it was tried."""
    input: Maybe[Any] = None
    """Of a workflow: what the node was given."""
    result: Maybe[Any] = None
    """Where it is done: what it returned."""
    error: Maybe[str] = None
    """Where it has not succeeded: why, as a sentence."""
    started_at: str
    ended_at: Maybe[str] = None
    duration_ms: Maybe[int] = None
    usage: Maybe[dict[str, int]] = None
    """Tokens by kind."""
    cost_usd: Maybe[float] = None
    spans: Maybe[list[dict[str, Any]]] = None
    """With ``spans=1``: the HTTP requests, statements and file operations of the call, the first 200 of them."""


class StepPage(Answer):
    """Steps of a run in their order; a page ends at its limit or where the results reach a megabyte."""

    steps: list[Step]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


NodePath = Annotated[str, Field(max_length=400)]


class WhichSteps(Input):
    """Which steps to list."""

    node: Maybe[NodePath] = None
    """Only those of the node with this path: ``charge``, or inside of a FOR_EACH ``items/17/charge``."""
    under: Maybe[NodePath] = None
    """Only the items of the FOR_EACH with this path that are at their end, those that have failed first."""
    spans: Annotated[int, Whole(0, 1)] = 0
    """1: with the operations of each call."""
    limit: Annotated[int, Whole(1, 200)] = 50
    """Most steps of a page."""
    after: StepAfter = None
    """``next`` of the page before."""


@steps.get("/v1/runs/<run_id>/steps", endpoint="many")
@call({200: StepPage}, problems=(RunUnknown,))
def many_steps(run_id: RunId, query: WhichSteps) -> Response:
    """List a run's steps in the order in which they began: all, those of one node, or the items of a FOR_EACH."""
    process = current_process()
    which: dict[str, Any] = {"node": query.node or None, "under": query.under or None, "after": query.after}
    which["with_spans"] = bool(query.spans)
    with process.large_work():
        rows, next_place = process.journal.readers.runs.steps(current_principal(), run_id, limit=query.limit, **which)
        place = {"next": f"{next_place.group}.{next_place.number}"} if next_place is not None else {}
        return answer({"steps": rows, **place})
