"""Runs, in lists and alone; and their events, with a model for each type, made of its declaration in `bus/payloads`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_type_hints

from pydantic import Field, create_model
from typing_extensions import TypeAliasType

from bus.journal.readers import RunStatus
from bus.payloads import EVENT_TYPES, Payload
from config.definitions.agent import Priority
from config.effects import Classification
from config.identity.principal import Role
from web.calls.fields import NOT_NULL, Answer, Maybe
from web.schemas.approval import Approval


class GoldenContextShown(Answer):
    """For which application, environment and initiator a run works."""

    app_id: str
    """The application, as the deployment calls it."""
    environment: str
    """The environment, such as ``production``."""
    initiator_id: str
    """Whom it works for: its principal, unless its entry point named another one. It gives no right."""
    trace_id: str
    """32 hexadecimal digits, by which log records and answers are found."""
    cost_center: Maybe[str] = None
    """What it is charged to."""
    data_classification: Maybe[Classification] = None
    """How the data that it is about is classified."""


class SecurityContextShown(Answer):
    """Who asked for a run, and with what."""

    initiator_id: str
    """Whom it works for."""
    roles: list[Role]
    """The roles that it was started with; its calls are made with those of them that its principal still has."""
    token_ref: Maybe[str] = None
    """Which credential it was: its kind, and its id behind a colon. For principals with the role operator or admin
    only, and never the credential itself."""
    trace_id: str
    """32 hexadecimal digits."""


class CurrentStep(Answer):
    """The call or node that a run is at; of several at a time the last one."""

    kind: str
    """``model``, ``tool`` or another kind of a step."""
    name: str
    """Of the model or the tool; of a node its type."""
    node: Maybe[str] = None
    """Of a workflow: the path of the node."""
    started_at: Maybe[str] = None
    """Absent where it was begun again, or waited for a person first: when it began then is not recorded."""


class RunSummary(Answer):
    """A run without its large fields."""

    run_id: str
    thread_id: str
    kind: Literal["agent", "tool", "workflow"]
    """``agent``: an agent's turn. ``tool``: one call of one of the agent's tools, without a model. ``workflow``: the
    walk through a graph of nodes, or a blueprint."""
    agent: str
    """The id of its agent, or of its workflow."""
    definition: Maybe[str] = None
    """Of a workflow: SHA-256 of the definition that it was accepted with."""
    agent_name: str
    model: str
    """The model that it was accepted with; empty for a call of a tool."""
    title: str
    """The beginning of its input, on one line."""
    status: RunStatus
    reason: Maybe[str] = None
    """Why it is in this state; the code of its error where it failed."""
    detail: Maybe[str] = None
    """What a waiting run waits for, as a sentence."""
    error: Maybe[str] = None
    """The code of the error that ended it."""
    crashes: Maybe[list[dict[str, Any]]] = None
    """What was seen of each loss of its worker that counts as a crash."""
    queue: Maybe[str] = None
    """The queue that its agent names; absent: the deployment's."""
    priority: Priority
    """Before which queued runs of the same tenant and queue it begins."""
    grant_id: Maybe[str] = None
    """The privilege grant that it was started with."""
    rerun_of: Maybe[str] = None
    """The run that it repeats from a step on."""
    retry_of: Maybe[str] = None
    """The run that did not succeed, of which it is a retry."""
    from_step: Maybe[int] = None
    """With ``rerun_of``: the first step that was not copied."""
    mode: Maybe[Literal["recorded", "live"]] = None
    """With both: what becomes of calls that were recorded."""
    trace_id: Maybe[str] = None
    """The trace id of the request that started it, or its own; log records about the run have it."""
    correlation_id: Maybe[str] = None
    """The one that its client chose; without one the trace id."""
    detached: Maybe[bool] = None
    """True where workers execute it; the caller may wait all the same."""
    worker_id: Maybe[str] = None
    """The worker that works on it, as ``/v1/workers`` names it to this caller."""
    attempt: Maybe[int] = None
    """How many owners it has had."""
    steps: Maybe[int] = None
    """How many calls of models and tools it has made."""
    current_step: Maybe[CurrentStep] = None
    """Where it is, while it runs; absent between two steps, and where its last 32 steps have ended."""
    usage: Maybe[dict[str, int]] = None
    """Tokens by kind."""
    cost_usd: Maybe[float] = None
    """What its model calls cost; absent where that is not known."""
    parent_run_id: Maybe[str] = None
    """The run that delegated it; absent where no run did."""
    principal: str
    """Whom it belongs to."""
    private: Maybe[bool] = None
    """True where its agent's definition hides it from the other principals of the tenant."""
    created_at: str
    started_at: Maybe[str] = None
    ended_at: Maybe[str] = None
    duration_ms: Maybe[int] = None
    """Milliseconds from its acceptance to its end."""
    work_ms: Maybe[int] = None
    """Milliseconds for which workers owned it, up to its last commit; absent where an earlier release began it."""


class ListedRun(RunSummary):
    """A run in a list."""

    output: Maybe[Any] = None
    """Its answer: text, or JSON where its agent has an output schema."""
    metadata: Maybe[dict[str, Any]] = None
    """What was stored with it at its start."""


class ChildRunShown(Answer):
    """A run to which a call of another run was delegated."""

    run_id: str
    parent_run_id: str
    """The run that asked: the one that is shown, or one of its children."""
    call_id: Maybe[str] = None
    """The call of the parent whose result it is."""
    agent: str
    title: str
    """The beginning of what it was asked, on one line."""
    status: RunStatus
    reason: Maybe[str] = None
    """Why it is in this state; the code of its error where it failed."""
    approvals: Maybe[list[str]] = None
    """The ids of the questions it waits for; they are answered at this run, not at its parent."""
    created_at: str
    ended_at: Maybe[str] = None


class Run(ListedRun):
    """One run with its open questions and its child runs."""

    answered_by: Maybe[list[str]] = None
    """The models that answered, in the order in which they first did; absent where only ``model`` did."""
    context: Maybe[GoldenContextShown] = None
    """For which application and environment it works; absent where an earlier release started it."""
    security_context: Maybe[SecurityContextShown] = None
    """Who asked for it; absent where an earlier release started it."""
    approvals: Maybe[list[Approval]] = None
    """The questions it waits for."""
    children: Maybe[list[ChildRunShown]] = None
    """The runs to which its calls were delegated, and theirs below them."""
    repeated_by: Maybe[list[str]] = None
    """The runs that retry it, or repeat it from a step on: the first 20."""
    why: Maybe[str] = None
    """What an open run waits for, as a sentence; with ``why=1``."""


class RunPage(Answer):
    """A page of runs, the newest first."""

    runs: list[ListedRun]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class AcceptedRun(Answer):
    """A run that is committed and survives any crash."""

    run_id: str
    thread_id: str
    status: RunStatus
    events_url: str
    """Where its events are."""
    delivered: Maybe[Literal["merged", "steered"]] = None
    """Where another run took the message: it is a part of that run's message, or a text for its model between steps."""
    control_id: Maybe[str] = None
    """With ``steered``: a `control` event of the run says when its model gets the text."""


class ControlledRun(Answer):
    """A run that was asked for something."""

    run_id: str
    thread_id: str
    status: RunStatus
    """Its state now."""
    control_id: Maybe[str] = None
    """Of the request, which a `control` event of the run answers; absent where there was nothing to do."""
    number: Maybe[int] = None
    """Of a steer: its number in the order in which the thread's messages arrived."""


class Envelope(Answer):
    """What every event has."""

    seq: int
    """Its number in its run, from 1; the cursor of a reader that has it."""
    run_id: str
    thread_id: str
    at: str
    """When it was numbered, UTC."""


def _model_of(kind: type[Payload]) -> type[Answer]:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {"type": (Literal[kind.type], ...)}
    for name, _ in kind.own_fields:
        default = ... if name in kind.required else None
        fields[name] = (Annotated[hints[name], NOT_NULL], default)
    name = f"{kind.__name__.removesuffix('Payload')}Event"
    model = create_model(name, __base__=Envelope, __doc__=kind.__doc__, **fields)
    model.described_in = kind
    return model


EVENTS = {name: _model_of(kind) for name, kind in EVENT_TYPES.items()}
"""The model of each type of event."""
EndEvent = EVENTS["end"]
if TYPE_CHECKING:
    Event = Answer
else:
    Event = TypeAliasType("Event", Annotated[Union[tuple(EVENTS.values())], Field(discriminator="type")])  # noqa: UP007
"""An event of any type that this release knows."""


class EventPage(Answer):
    """The events after the cursor: up to 500, or a megabyte."""

    events: list[Event]
    cursor: str
    """Where the next page begins."""
    ended: bool
    """Whether no event follows this page, and none will: the run has ended, and this is its last page."""


class BoardCounts(Answer):
    """How many runs the caller sees in each state, also where the board does not show all of them."""

    queued: int
    running: int
    waiting: int
    questions: int
    """Waiting runs that ask a person."""
    failed: int
    """Failed and dead runs that ended within the last 24 hours."""


class BoardSnapshot(Answer):
    """The first event of the board, ``snapshot``: what it shows."""

    runs: list[RunSummary]
    """Up to 100 of each group: questions, running, waiting, queued, failed within 24 hours, ended otherwise. Questions,
    waiting and queued runs are the oldest, the others the newest."""
    counts: BoardCounts


class BoardChange(Answer):
    """An event ``board``: the numbers, after the summaries that changed."""

    counts: BoardCounts
    gone: list[str]
    """The ids of runs that the board shows no more: removed, or behind others of their group."""


BoardEvent = TypeAliasType("BoardEvent", BoardSnapshot | RunSummary | BoardChange)
"""``snapshot``, then a ``run`` for each summary that changes, and a ``board`` where the numbers do."""
