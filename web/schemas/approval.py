"""Questions of a run to a person, and their answers."""

from __future__ import annotations

from typing import Any

from bus.journal.readers import RunStatus
from config.effects import Classification, OnExpiry, Scope
from web.calls.fields import Answer, Maybe


class Approval(Answer):
    """A question that a run asks before it continues."""

    approval_id: str
    kind: str
    """``call``: before a call. ``unknown``: the outcome of an interrupted call is not known. ``arguments``: the call
    lacks arguments. ``input``: the tool asks something before it does anything."""
    call_id: str
    name: str
    """The tool."""
    effect: str | None
    """The effect class of the call; null where it may not be made."""
    arguments: dict[str, Any]
    """The arguments of the exact call that is asked about."""
    digest: str
    """SHA-256 of the arguments as canonical JSON."""
    input_schema: dict[str, Any] | None
    """The JSON Schema of what you fill in: with ``call`` edited arguments, with ``arguments`` the missing ones, with
    ``input`` the answer. With ``call`` its ``description`` says what the tool does."""
    decisions: list[str]
    """The answers that may be given."""
    reason: str
    """Why a person is asked, as a sentence."""
    approvers: int
    """How many persons have to approve; from two on, the run's own principal is none of them."""
    scopes: list[Scope]
    """For which later calls of the tool an approval may hold too; empty: for none."""
    scope_s: int | None
    """For how many seconds at most."""
    approved_by: list[str]
    """Those that have approved so far, where several have to."""
    on_expiry: OnExpiry
    """What is done without an answer: ``fail`` ends the run, ``reject`` and ``take_default`` let it continue."""
    expires_at: str
    """When the question ends unanswered, UTC."""
    asked_at: str
    sentence: Maybe[str] = None
    """What the call would do: the tool's ``title`` with the call's arguments, where the tool has one."""
    description: Maybe[str] = None
    """What the tool does, as its model reads it."""
    classification: Maybe[Classification] = None
    """Of the tool's data."""
    defaults: Maybe[dict[str, Any]] = None
    """With ``call``: the arguments that the model left out, with the values that they get."""
    rule: Maybe[str] = None
    """The policy's rule that requires the approval; ``tool's own`` where the tool does."""
    labels: Maybe[list[str]] = None
    """What the run had read when the call was decided about, as its tools label it."""


class Approvals(Answer):
    """The open questions of a run, the oldest first."""

    approvals: list[Approval]


class ListedApproval(Approval):
    """An open question with its run."""

    run_id: str
    thread_id: str
    agent: str
    """The agent that asks."""
    principal: str
    """Whom the run belongs to."""
    title: Maybe[str] = None
    """The beginning of the run's input."""
    private: Maybe[bool] = None
    """True where the agent's definition hides the run from the other principals of the tenant."""


class LinkedApproval(Approval):
    """An open question that a link is for, with its run."""

    run_id: str
    thread_id: str
    agent: str
    principal: str
    """Whom the run belongs to."""


class ApprovalLink(Answer):
    """A link to a question for one person."""

    url: str
    """To be sent to that person; it opens the page, which asks for a sign-in where it needs one."""
    token: str
    """What the link ends with; for `/v1/approval-links/{token}`."""
    principal: str
    """The person that it is for."""
    expires_at: str


class PersonsAnswer(Answer):
    """How a question was answered."""

    decision: str
    by: str
    """Who answered; ``expiry`` where no answer came in time."""
    at: str
    after_ms: int
    """Milliseconds from the question to its answer."""
    message: Maybe[str] = None
    """The person's note."""
    changed: Maybe[list[str]] = None
    """The names of the arguments that the person changed or completed."""


class QuestionListed(ListedApproval):
    """A question of a run, with its answer once it has one."""

    answer: Maybe[PersonsAnswer] = None


class ToolDecisions(Answer):
    """How persons decided about the calls of a tool."""

    name: str
    approved: int
    changed: int
    """Approved with other arguments."""
    rejected: int
    expired: int
    """Not answered in time."""
    median_ms: Maybe[int] = None
    """Median of the time from the question to a person's answer."""


class PastDecision(Answer):
    """One decision about a call of a tool."""

    approval_id: str
    run_id: str
    decision: str
    by: str
    at: str
    is_changed: Maybe[bool] = None
    """True where the call was approved with other arguments."""
    message: Maybe[str] = None
    """Why it was rejected."""


class DecidedCalls(Answer):
    """How persons decided about calls in the last 30 days."""

    tools: list[ToolDecisions]
    """At most 100, those decided about last first."""
    latest: Maybe[list[PastDecision]] = None
    """With ``tool``: its last 50, the newest first."""
    is_cut: bool
    """Whether there were more than the 1,000 decisions that are counted."""


class ListedSticky(Answer):
    """An approval that holds for a tool's later calls too."""

    sticky_id: str
    scope: Scope
    name: str
    """The tool."""
    agent: str
    principal: str
    """Whose runs' calls it approves."""
    thread_id: Maybe[str] = None
    """With the scope ``thread``: the thread."""
    approved_by: str
    approval_id: str
    """The approval with which it was given."""
    created_at: str
    expires_at: str
    revoked_at: Maybe[str] = None
    revoked_by: Maybe[str] = None
    is_valid: bool
    """Whether a call may begin by it now."""


class ApprovalPage(Answer):
    """Questions of several runs, the newest first."""

    approvals: list[QuestionListed]
    sticky_approvals: Maybe[list[ListedSticky]] = None
    """With ``state=holding``, in place of questions."""
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class DecidedApproval(Answer):
    """The answer that counts."""

    run_id: str
    approval_id: str
    decision: str
    by: str
    """Who answered."""
    status: RunStatus
    """The state of the run now: ``queued`` to continue, or ``waiting`` for another question or another approval."""


class OneDecided(Answer):
    """What became of one of several answers: the decision, or the code and the sentence of its refusal."""

    run_id: str
    approval_id: str
    decision: Maybe[str] = None
    by: Maybe[str] = None
    status: Maybe[RunStatus] = None
    """The state of its run now."""
    code: Maybe[str] = None
    detail: Maybe[str] = None


class SeveralDecided(Answer):
    """What became of several answers, in their order."""

    answers: list[OneDecided]


class StickyPage(Answer):
    """Approvals that hold for later calls too, the newest first."""

    sticky_approvals: list[ListedSticky]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""
