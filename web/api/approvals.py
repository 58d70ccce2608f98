"""What a run asks a person: the open questions, and the one answer that counts."""

from __future__ import annotations

from flask import Blueprint, Response

from bus.journal.approvals import MAX_MESSAGE_CHARS, MAX_RESULT_BYTES, Decision
from bus.journal.runs import asked_now
from config.errors import BadRequest
from web import parameters
from web.api.answers import answer
from web.bodies import Body, read_body
from web.process import here
from web.security import current_who

approvals = Blueprint("approvals", __name__)


@approvals.get("/v1/runs/<run_id>/approvals")
def many(run_id: str) -> Response:
    """List what the run asks now, the oldest question first; nothing when it does not wait for an answer."""
    parameters.only()
    with here().journal.read() as connection:
        return answer({"approvals": asked_now(connection, current_who(), run_id)})


@approvals.post("/v1/runs/<run_id>/approvals/<approval_id>")
def decide(run_id: str, approval_id: str) -> Response:
    """Answer a question: 200 with what was decided, or 409 with the answer that came first."""
    body, who = read_body("decision", "result", "message"), current_who()
    decided = here().journal.decide(
        who, run_id, approval_id, _decision(body), by=who.principal, idempotency=parameters.idempotency_key(body.raw)
    )
    return answer(
        {
            "run_id": run_id, "approval_id": approval_id, "decision": decided.decision, "by": decided.by,
            "status": decided.written.status,
        }
    )  # fmt: skip


def _decision(body: Body) -> Decision:
    decision = body.text("decision", max_chars=40)
    result = body.anything("result", max_bytes=MAX_RESULT_BYTES)
    if result is not None and decision != "take_as_done":
        raise BadRequest('\'result\' goes with "decision": "take_as_done" only; leave it out.')
    message = body.optional_text("message", max_chars=MAX_MESSAGE_CHARS) or None
    return Decision(decision=decision, result=result, message=message)
