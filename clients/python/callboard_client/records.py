"""What the server answers, as typed records; a field that this version does not know is in ``raw``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One object of an answer. An absent field is None, or empty."""

    raw: Mapping[str, Any] = field(repr=False)
    """The whole object as it came, with the fields of later versions."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Return the record of a decoded object.

        Raises:
            KeyError: the object lacks a field without a default.
        """
        own = [field for field in fields(cls) if field.name != "raw"]
        needed = (
            own_field.name for own_field in own if own_field.default is MISSING and own_field.default_factory is MISSING
        )
        values = {name: raw[name] for name in needed}
        return cls(
            raw=raw,
            **values,
            **{own_field.name: raw[own_field.name] for own_field in own if own_field.name in raw.keys() - values},
        )


class Page(list[T], Generic[T]):
    """One page of a list."""

    def __init__(self, items: Iterable[T] = (), next_page: str | None = None) -> None:
        super().__init__(items)
        self.next = next_page
        """Where the next page begins: pass it as ``before``, of messages, queues and steps as ``after``. None on the
        last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval(Record):
    """A question that a run asks a person."""

    approval_id: str
    kind: str = ""
    name: str | None = None
    """The tool that is asked about."""
    effect: str | None = None
    """The effect class of the call."""
    arguments: Any = None
    reason: str | None = None
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of what a person fills in: edited arguments, missing ones, or the answer to a question."""
    decisions: Sequence[str] = ()
    """The answers that the run takes."""
    call_id: str | None = None
    digest: str | None = None
    asked_at: str | None = None
    expires_at: str | None = None
    approvers: int = 1
    """How many persons have to approve; from two on, the run's own principal is none of them."""
    approved_by: Sequence[str] = ()
    sentence: str | None = None
    """What the call would do: the tool's ``title`` with the call's arguments, where it has one."""
    description: str | None = None
    """What the tool does."""
    classification: str | None = None
    """Of the tool's data: PUBLIC, INTERNAL or RESTRICTED."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that the model left out, with the values that they get."""
    rule: str | None = None
    """The policy's rule that requires the approval; ``tool's own`` where the tool does."""
    labels: Sequence[str] = ()
    """What the run had read when the call was decided about."""
    answer: Mapping[str, Any] | None = None
    """Of an answered one in a list: ``decision``, ``by``, ``at``, ``after_ms``, ``message`` and ``changed``."""
    """Those that have approved so far, where several have to."""
    scopes: Sequence[str] = ()
    """For which later calls of the tool an approval may hold too."""
    scope_s: int | None = None
    """For how many seconds at most."""
    on_expiry: str = "fail"
    """What is done without an answer: fail (the run), reject or take_default (the call)."""
    run_id: str | None = None
    """The run that asks, in a list over all runs; so are those below."""
    thread_id: str | None = None
    agent: str | None = None
    principal: str | None = None
    """Whom the run belongs to."""
    title: str | None = None
    private: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided(Record):
    """An answer that was accepted."""

    run_id: str
    approval_id: str
    decision: str
    by: str
    status: str
    """The run's state now: queued to continue, or waiting while another question is open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalLink(Record):
    """A link to a question for one person, which one answer uses up."""

    url: str
    """To be sent to that person; it opens the page."""
    token: str
    """What the link ends with."""
    principal: str
    """The person that it is for."""
    expires_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlledRun(Record):
    """A run that was asked for something."""

    run_id: str
    thread_id: str
    status: str
    """The run's state now."""
    control_id: str | None = None
    """Of the request, which a ``control`` event of the run answers; None where there was nothing to do."""
    number: int | None = None
    """Of a steer: its number in the order in which the thread's messages arrived."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Executed(Record):
    """A call of a tool: what became of it, or that it has not ended."""

    run_id: str
    """The run that makes the call."""
    status: str
    """succeeded, failed, cancelled or dead; queued, running or waiting where it has not ended."""
    output: Any = None
    """The tool's result."""
    execution_time_ms: float = 0.0
    code: str | None = None
    """Of the error, or ``approval_required`` where a person has to approve the call first."""
    error: str | None = None
    correlation_id: str | None = None
    events_url: str | None = None
    approval_id: str | None = None
    """The question to answer."""
    reason: str | None = None
    """Why a person is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run(Record):
    """A run, as it is now."""

    run_id: str
    thread_id: str
    agent: str
    status: str
    """queued, running, waiting, moved, succeeded, failed, cancelled or dead."""
    kind: str = "agent"
    """``agent``: an agent's turn. ``tool``: one call of one of its tools, without a model. ``workflow``."""
    definition: str | None = None
    """Of a workflow: SHA-256 of the definition that it was accepted with."""
    title: str = ""
    agent_name: str = ""
    model: str | None = None
    answered_by: Sequence[str] | None = None
    """The models that answered, in the order in which they first did; absent where only ``model`` did."""
    queue: str | None = None
    priority: str = "normal"
    """low, normal or high: before which queued runs of the same tenant and queue it begins."""
    grant_id: str | None = None
    """The privilege grant that it was started with."""
    trace_id: str | None = None
    """The trace id of the request that started it, or its own; the server's log records about the run have it."""
    correlation_id: str | None = None
    """The one that its client chose; without one the trace id."""
    context: Mapping[str, Any] | None = None
    """For which application and environment it works: its golden context."""
    security_context: Mapping[str, Any] | None = None
    """Who asked for it, and with which roles."""
    reason: str | None = None
    detail: str | None = None
    error: str | None = None
    """The code of the error that ended it."""
    crashes: Sequence[Mapping[str, Any]] | None = None
    output: Any = None
    metadata: Mapping[str, Any] | None = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    steps: int | None = None
    attempt: int | None = None
    detached: bool = False
    rerun_of: str | None = None
    """The run that it repeats from a step on."""
    retry_of: str | None = None
    """The run that it tries again."""
    from_step: int | None = None
    """With ``rerun_of``: the first step that was not copied."""
    mode: str | None = None
    """With ``rerun_of`` or ``retry_of``: ``recorded`` or ``live``, what its calls of tools are."""
    parent_run_id: str | None = None
    """The run that delegated it."""
    children: Sequence[Mapping[str, Any]] | None = None
    """The runs to which its calls were delegated; a list of runs does not have them."""
    repeated_by: Sequence[str] | None = None
    """The ids of the runs that retry it, or repeat it from a step on: the first 20."""
    principal: str = ""
    """Whom it belongs to."""
    private: bool = False
    """True where its agent's definition hides it from the other principals of the tenant."""
    created_at: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: int | None = None
    work_ms: int | None = None
    """How long workers owned it."""
    worker_id: str | None = None
    """The worker that works on it, as ``workers()`` names it."""
    current_step: Mapping[str, Any] | None = None
    """The call or node that it is at while it runs: ``kind``, ``name``, of a workflow ``node``; ``started_at``."""
    why: str | None = None
    """What an open run waits for, where this was asked for."""

    @property
    def approvals(self) -> list[Approval]:
        """The open questions; a list of runs does not have them."""
        return [Approval.of(entry) for entry in self.raw.get("approvals", ())]


@dataclass(frozen=True, kw_only=True, slots=True)
class Me(Record):
    """Who the server takes the client for, by its credential."""

    principal: str
    tenant: str
    roles: Sequence[str] = ()
    credential: str = ""
    """Its kind: ``none``, ``key``, ``session`` and so on."""
    expires_at: str | None = None
    display_name: str | None = None
    """How the identity provider calls the person of a session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedEvent(Record):
    """An internal event that is committed."""

    event_id: str
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent(Record):
    """A usable agent."""

    id: str
    name: str = ""
    description: str = ""
    model: str = ""
    is_demo: bool = False
    starters: Sequence[str] = ()
    tools: Sequence[str] = ()
    has_output_schema: bool = False
    version: int | None = None
    """The version that serves in place of what its file says."""
    problem: str | None = None
    """Where its file cannot be used, and the last version that could serves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentProblem(Record):
    """An agent or a workflow whose definition cannot be used."""

    id: str
    code: str = ""
    detail: str = ""
