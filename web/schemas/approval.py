"""Questions of a run to a person, and their answers."""

from __future__ import annotations

from typing import Any

from bus.journal.readers import RunStatus
from config.effects import OnExpiry, Scope
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


class ApprovalPage(Answer):
    """Open questions of several runs, the newest first."""

    approvals: list[ListedApproval]
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


class StickyPage(Answer):
    """Approvals that hold for later calls too, the newest first."""

    sticky_approvals: list[ListedSticky]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""
