"""Approvals: list a run's open questions, and decide one; the first answer counts."""

from __future__ import annotations

from flask import Blueprint, Response

from bus.journal import Decision
from config.errors import BadRequest
from web import parameters
from web.api.answers import answer
from web.bodies import Body, read_body
from web.process import current_process
from web.security import current_principal

approvals = Blueprint("approvals", __name__)


@approvals.get("/v1/runs/<run_id>/approvals")
def many(run_id: str) -> Response:
    """List the run's open questions, oldest first; empty if it does not wait for an approval."""
    parameters.only()
    return answer({"approvals": current_process().journal.runs.questions(current_principal(), run_id)})


@approvals.post("/v1/runs/<run_id>/approvals/<approval_id>")
def decide(run_id: str, approval_id: str) -> Response:
    """Answer a question: 200 with the decision, or 409 with the answer that came first."""
    body, principal = read_body("decision", "result", "message"), current_principal()
    decided = current_process().journal.decide(
        principal,
        run_id,
        approval_id,
        _decision(body),
        by=principal.id,
        idempotency=parameters.idempotency_key(body.raw),
    )
    ids = {"run_id": run_id, "approval_id": approval_id}
    return answer({**ids, "decision": decided.decision, "by": decided.by, "status": decided.written.status})


def _decision(body: Body) -> Decision:
    decision = body.text("decision", max_chars=40)
    result = body.anything("result", max_bytes=Decision.MAX_RESULT_BYTES)
    if result is not None and decision != "take_as_done":
        raise BadRequest('\'result\' goes with "decision": "take_as_done" only; leave it out.')
    message = body.optional_text("message", max_chars=Decision.MAX_MESSAGE_CHARS) or None
    return Decision(decision=decision, result=result, message=message)
