"""`/confirm` and `/tool-data` of the first chat design: the call that a conversation waits for, and its approval."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from flask import Blueprint, Response
from pydantic import Field

from bus.journal.approvals import Decision
from bus.journal.errors import (
    APPROVER_REFUSED,
    ARGUMENTS_DIFFER,
    IDEMPOTENCY_CONFLICT,
    ApprovalDecided,
    ApprovalOver,
    ThreadUnknown,
)
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Maybe
from web.calls.parameters import Repeatable
from web.dialects.seeds.conversation import ToolData, WhichConversation
from web.errors import NOTHING_TO_CONFIRM, SEVERAL_TO_CONFIRM
from web.process import current_process
from web.schemas.approval import DecidedApproval

confirming = Blueprint("confirming", __name__)

MAX_RUNS = 200
"""Open runs of a conversation that are looked at."""
MAX_LISTED = 50
LISTED = ("run_id", "approval_id", "call_id", "name", "digest")


class Confirm(WhichConversation):
    """Which call is approved."""

    call_id: Maybe[Annotated[str, Field(max_length=200)]] = None
    """The call's id, or that of its approval; absent: the only one that waits."""
    digest: Maybe[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = None
    """The digest of the arguments that you were shown; the approval is refused where it is another one."""


@confirming.post("/confirm")
@call(
    {200: DecidedApproval},
    problems=(
        NOTHING_TO_CONFIRM,
        SEVERAL_TO_CONFIRM,
        APPROVER_REFUSED,
        ApprovalDecided,
        ApprovalOver,
        ARGUMENTS_DIFFER,
        IDEMPOTENCY_CONFLICT,
    ),
)
def confirm(body: Confirm, headers: Repeatable) -> Response:
    """Approve the call that the conversation waits for; 409 with the list in ``pending`` where several do."""
    principal, journal = current_principal(), current_process().journal
    question = _only(body, [candidate for candidate in _pending(body.thread_id) if candidate["kind"] == "call"])
    decided = journal.clients.decide(
        principal,
        question["run_id"],
        question["approval_id"],
        Decision(decision="approve", digest=body.digest or question["digest"]),
        by=principal.id,
        idempotency=headers.idempotency(body),
    )
    ids = {"run_id": question["run_id"], "approval_id": question["approval_id"]}
    return answer({**ids, "decision": decided.decision, "by": decided.by, "status": decided.written.status})


def _only(body: Confirm, waiting: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the one question that is meant.

    Raises:
        NOTHING_TO_CONFIRM: there is none.
        SEVERAL_TO_CONFIRM: there are several.
    """
    named = [question for question in waiting if body.call_id in (None, question["call_id"], question["approval_id"])]
    if not named:
        raise NOTHING_TO_CONFIRM(thread_id=body.thread_id)
    if len(named) > 1:
        listed = [{name: question[name] for name in LISTED} for question in named[:MAX_LISTED]]
        raise SEVERAL_TO_CONFIRM(count=len(named), pending=listed)
    return named[0]


@confirming.get("/tool-data")
@call({200: ToolData})
def tool_data(query: WhichConversation) -> Response:
    """Return what the conversation waits for, a confirmation or an answer; else its latest call of a tool."""
    process = current_process()
    with process.large_work():
        waiting = _pending(query.thread_id)
        if not waiting:
            return answer({"next": "done", "force_confirm": False} | _latest_call(query.thread_id))
        question = waiting[0]
        is_call = question["kind"] == "call"
        fields = {
            "tool": question["name"],
            "args": question["arguments"],
            "response": question["reason"],
            "force_confirm": is_call,
        }
        ids = {name: question[name] for name in ("run_id", "approval_id", "call_id", "digest")}
        return answer({"next": "confirm" if is_call else "question", **fields, **ids})


def _latest_call(thread_id: str) -> dict[str, Any]:
    """Return the fields of the latest call of the caller's conversation; empty where it has none."""
    with suppress(ThreadUnknown):
        return current_process().journal.readers.threads.latest_call(current_principal(), thread_id) or {}
    return {}


def _pending(thread_id: str) -> list[dict[str, Any]]:
    """Return the open questions of the caller's conversation, the oldest first, each with its run."""
    principal, runs = current_principal(), current_process().journal.readers.runs
    run_rows, _ = runs.page(principal, status="waiting", thread_id=thread_id, owner=principal.id, limit=MAX_RUNS)
    return [
        question | {"run_id": run["run_id"]}
        for run in reversed(run_rows)
        for question in runs.questions(principal, run["run_id"])
    ]
