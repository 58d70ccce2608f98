"""Approvals: list a run's open questions, and decide one; the first answer counts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from flask import Blueprint, Response, request
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from agents.governance.guardrails.errors import INPUT_BLOCKED
from bus.journal.approvals import DEFAULT_LINK_S, MOST_LINK_S, Decision
from bus.journal.errors import (
    ANSWER_REFUSED,
    APPROVER_REFUSED,
    ARGUMENTS_DIFFER,
    DECISION_REFUSED,
    EDIT_REFUSED,
    IDEMPOTENCY_CONFLICT,
    LINK_NOT_YOURS,
    LINK_OVER,
    LINK_UNKNOWN,
    SCOPE_REFUSED,
    STICKY_UNKNOWN,
    ApprovalDecided,
    ApprovalOver,
    ApprovalUnknown,
    RunUnknown,
)
from config.errors import BadRequest, Permanent
from config.identity.principal import NAME
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Input, Maybe
from web.calls.parameters import ListPlace, Repeatable, Whole, next_place, place_of, sized
from web.process import current_process
from web.schemas.approval import (
    ApprovalLink,
    ApprovalPage,
    Approvals,
    DecidedApproval,
    DecidedCalls,
    LinkedApproval,
    ListedSticky,
    SeveralDecided,
    StickyPage,
)
from web.schemas.paths import ApprovalId, LinkToken, RunId, StickyId

approvals = Blueprint("approvals", __name__)

MAX_AT_ONCE = 50
"""Decisions of one request."""


class WhichApprovals(Input):
    """Which page of a list."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most entries of a page."""
    before: ListPlace = None
    """``next`` of the page before."""


class WhichQuestions(WhichApprovals):
    """Which page of the questions, and whether of open or of answered ones."""

    state: Literal["open", "answered", "holding"] = "open"
    """``answered``: those that were answered last come first. ``holding``: in place of questions the approvals that
    hold for later calls now, as ``sticky_approvals``."""


@approvals.get("/v1/approvals")
@call({200: ApprovalPage})
def inbox(query: WhichQuestions) -> Response:
    """List the questions of all runs that you may answer, the newest first; a page ends at a megabyte."""
    process, principal, cursor = current_process(), current_principal(), place_of(query.before)
    runs = process.journal.readers.runs
    with process.large_work():
        if query.state == "holding":
            stickies = process.journal.stores.sticky_approvals
            page = stickies.page(principal, limit=query.limit, are_valid=True, **cursor)
            following = next_place(page, query.limit, "created_at", "sticky_id")
            return answer({"approvals": [], "sticky_approvals": page, **following})
        read = runs.inbox if query.state == "open" else runs.answered
        questions, is_cut = read(principal, limit=query.limit, **cursor)
        count = len(questions) if is_cut else query.limit
        is_open = query.state == "open"
        places = questions if is_open else [entry | entry["answer"] for entry in questions]
        following = next_place(places, count, "asked_at" if is_open else "at", "approval_id")
        return answer({"approvals": questions, **following})


class WhichDecided(Input):
    """About which tool."""

    tool: Maybe[Annotated[str, Field(max_length=128)]] = None
    """Only decisions about calls of this tool, and its latest ones."""


@approvals.get("/v1/approvals/decided")
@call({200: DecidedCalls})
def decided(query: WhichDecided) -> Response:
    """Return how persons decided about calls of tools in the last 30 days, of the runs that you may answer for."""
    process = current_process()
    with process.large_work():
        return answer(process.journal.readers.runs.decided_lately(current_principal(), query.tool or None))


@approvals.get("/v1/runs/<run_id>/approvals")
@call({200: Approvals}, problems=(RunUnknown,))
def many(run_id: RunId) -> Response:
    """List the run's open questions, oldest first; empty if it does not wait for an approval."""
    return answer({"approvals": current_process().journal.readers.runs.questions(current_principal(), run_id)})


GOES_WITH = {"result": ("take_as_done", "answer"), "arguments": ("approve",), "scope": ("approve",)}
"""Field of an answer -> the decisions that take it."""
NEEDS: JsonDict = {
    "allOf": [
        {
            "if": {"required": [field], "properties": {field: {"not": {"type": "null"}}}},
            "then": {"properties": {"decision": {"enum": list(decisions)}}},
        }
        for field, decisions in GOES_WITH.items()
    ]
}
"""What ``_decision`` refuses, for the document."""


class Decide(Input):
    """A person's answer."""

    model_config = ConfigDict(json_schema_extra=NEEDS)

    decision: Annotated[
        str, Field(max_length=40, examples=["take_as_done"], json_schema_extra={"enum": list(Decision.KNOWN)})
    ]
    """One of the question's ``decisions``."""
    result: Annotated[Any, sized(Decision.MAX_RESULT_BYTES)] = None
    """With ``take_as_done``: the call's result, any JSON up to 256 KiB. With ``answer``: the filled-in form."""
    arguments: Maybe[Annotated[dict[str, Any], sized(Decision.MAX_RESULT_BYTES)]] = None
    """With ``approve`` only: the arguments to call the tool with instead of those shown, up to 256 KiB of JSON."""
    message: Maybe[Annotated[str, Field(max_length=Decision.MAX_MESSAGE_CHARS)]] = None
    """A note for the log; with ``reject`` the agent gets it too."""
    scope: Maybe[Literal["thread", "tool"]] = None
    """With ``approve``: for which later calls of the tool it holds too, of the question's ``scopes``."""
    scope_s: Maybe[Annotated[int, Whole(1, 2_592_000)]] = None
    """With ``scope``: for how many seconds, at most the question's ``scope_s``; absent: for as long as that."""
    digest: Maybe[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = None
    """The question's ``digest``, as you were shown it: the answer is refused where it is another one."""


@approvals.post("/v1/runs/<run_id>/approvals/<approval_id>")
@call(
    {200: DecidedApproval},
    problems=(
        APPROVER_REFUSED,
        RunUnknown,
        ApprovalUnknown,
        ApprovalDecided,
        ApprovalOver,
        DECISION_REFUSED,
        EDIT_REFUSED,
        ANSWER_REFUSED,
        INPUT_BLOCKED,
        SCOPE_REFUSED,
        ARGUMENTS_DIFFER,
        IDEMPOTENCY_CONFLICT,
    ),
)
def decide(run_id: RunId, approval_id: ApprovalId, body: Decide, headers: Repeatable) -> Response:
    """Answer a question: 200 with the decision, or 409 with the answer that came first."""
    principal = current_principal()
    decided = current_process().journal.clients.decide(
        principal, run_id, approval_id, _decision(body), by=principal.id, idempotency=headers.idempotency(body)
    )
    ids = {"run_id": run_id, "approval_id": approval_id}
    return answer({**ids, "decision": decided.decision, "by": decided.by, "status": decided.written.status})


def _decision(body: Decide) -> Decision:
    for field, decisions in GOES_WITH.items():
        if getattr(body, field) is not None and body.decision not in decisions:
            named = " or ".join(f'"{decision}"' for decision in decisions)
            raise BadRequest(f"'{field}' goes with \"decision\": {named} only; leave it out.")
    fields = {name: getattr(body, name) for name in ("result", "arguments", "digest", "scope", "scope_s")}
    return Decision(decision=body.decision, message=body.message or None, **fields)


class OneOfSeveral(Input):
    """The approval or rejection of one call."""

    run_id: Annotated[str, Field(examples=["run_01m7wyc882adz9tga1jxhzbj7w"])]
    approval_id: Annotated[str, Field(examples=["apr_01m7wyc882adz9tga1jxhzbj7w"])]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=["0" * 64])]
    """The question's ``digest``, as you were shown it."""
    decision: Annotated[Literal["approve", "reject"], Field(examples=["approve"])]
    message: Maybe[Annotated[str, Field(max_length=Decision.MAX_MESSAGE_CHARS)]] = None
    """A note for the log; with ``reject`` the agent gets it too."""


ONE = {
    "run_id": "run_01m7wyc882adz9tga1jxhzbj7w",
    "approval_id": "apr_01m7wyc882adz9tga1jxhzbj7w",
    "digest": "0" * 64,
    "decision": "approve",
}


class DecideSeveral(Input):
    """Decisions about calls, each named with the digest of its arguments."""

    answers: Annotated[list[OneOfSeveral], Field(min_length=1, max_length=MAX_AT_ONCE, examples=[[ONE]])]
    """Up to 50; each counts or is refused for itself."""


@approvals.post("/v1/approvals")
@call({200: SeveralDecided})
def decide_several(body: DecideSeveral) -> Response:
    """Decide about several calls that are listed with their digests: each has its own decision, or its own problem."""
    return answer({"answers": [_decide_one(item) for item in body.answers]})


def _decide_one(item: OneOfSeveral) -> dict[str, Any]:
    principal = current_principal()
    decision = Decision(decision=item.decision, message=item.message or None, digest=item.digest)
    ids = {"run_id": item.run_id, "approval_id": item.approval_id}
    try:
        decided = current_process().journal.clients.decide(
            principal, item.run_id, item.approval_id, decision, by=principal.id
        )
    except Permanent as error:
        return {**ids, "code": error.code, "detail": error.public}
    return {**ids, "decision": decided.decision, "by": decided.by, "status": decided.written.status}


class MakeLink(Input):
    """For whom a link is."""

    principal: Annotated[str, Field(pattern=f"^{NAME}$", examples=["ana"])]
    """The person that may answer by it, who needs the right to answer without it."""
    expires_in_s: Annotated[int, Whole(1, MOST_LINK_S)] = DEFAULT_LINK_S
    """Seconds that it is valid, at most as long as the question is open."""


@approvals.post("/v1/runs/<run_id>/approvals/<approval_id>/links")
@call({201: ApprovalLink}, problems=(RunUnknown, ApprovalUnknown, ApprovalDecided, ApprovalOver))
def make_link(run_id: RunId, approval_id: ApprovalId, body: MakeLink) -> Response:
    """Make a link to the question for one person: signed, valid once and until a time; for an e-mail or a chat."""
    process = current_process()
    link = process.journal.stores.approval_links.make(
        current_principal(), run_id, approval_id, for_whom=body.principal, seconds=body.expires_in_s
    )
    origin = (process.settings.public_url or request.host_url).rstrip("/")
    return answer({**link, "url": f"{origin}/#/approval/{link['token']}"}, 201)


@approvals.get("/v1/approval-links/<token>")
@call({200: LinkedApproval}, problems=(LINK_UNKNOWN, LINK_NOT_YOURS, LINK_OVER))
def open_link(token: LinkToken) -> Response:
    """Return the question that a link of yours is for; the link stays valid."""
    _, question = current_process().journal.stores.approval_links.open(current_principal(), token)
    return answer(question)


@approvals.post("/v1/approval-links/<token>")
@call(
    {200: DecidedApproval},
    problems=(
        LINK_UNKNOWN,
        LINK_NOT_YOURS,
        LINK_OVER,
        APPROVER_REFUSED,
        ApprovalDecided,
        ApprovalOver,
        DECISION_REFUSED,
        EDIT_REFUSED,
        ANSWER_REFUSED,
        SCOPE_REFUSED,
        ARGUMENTS_DIFFER,
        INPUT_BLOCKED,
    ),
)
def decide_by_link(token: LinkToken, body: Decide) -> Response:
    """Answer the question that a link of yours is for, and use the link up."""
    principal, journal = current_principal(), current_process().journal
    link, _ = journal.stores.approval_links.open(principal, token)
    decided = journal.clients.decide(
        principal, link.run_id, link.approval_id, _decision(body), by=principal.id, link=link
    )
    ids = {"run_id": link.run_id, "approval_id": link.approval_id}
    return answer({**ids, "decision": decided.decision, "by": decided.by, "status": decided.written.status})


@approvals.get("/v1/sticky-approvals")
@call({200: StickyPage})
def list_sticky(query: WhichApprovals) -> Response:
    """List the approvals that hold for later calls too and that you may end, the newest first, with ended ones."""
    page = current_process().journal.stores.sticky_approvals.page(
        current_principal(), limit=query.limit, **place_of(query.before)
    )
    return answer({"sticky_approvals": page, **next_place(page, query.limit, "created_at", "sticky_id")})


@approvals.delete("/v1/sticky-approvals/<sticky_id>")
@call({200: ListedSticky}, problems=(STICKY_UNKNOWN,))
def revoke_sticky(sticky_id: StickyId) -> Response:
    """End one before its time: calls that begin afterwards ask again. A second time changes nothing."""
    principal = current_principal()
    return answer(current_process().journal.stores.sticky_approvals.revoke(principal, sticky_id, by=principal.id))
