"""Runs that wait for a person, as a worker leaves them: the call in the log, the question open, the lease gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from bus.journal import approvals
from bus.journal.approvals import BEFORE, FORM, Decision, Question
from bus.journal.log.commit import Commit
from bus.journal.ownership.reaper import reap
from bus.journal.records.steps import StepStarted, start_steps
from bus.journal.records.threads import HistoryItem
from bus.journal.states.lease import Lease
from bus.journal.unowned import transitions as unowned
from bus.journal.unowned.transitions import CommitResult
from bus.payloads import MessagePayload, StatusPayload, ToolPayload
from config.clock import epoch_ms
from config.database.engine import Database
from config.ids import canonical_digest, new_id
from config.policy_decision import PolicyDecision, Verdict
from tests.bus.journal_harness import claim

ALLOWED = PolicyDecision(verdict=Verdict.ALLOW, rule="default", version="none")
WHY = "The worker died while this call was under way; it is not known whether it took effect."
DETAIL = "It is not known whether refund_order took effect; a person has to say how to continue."
WEEK_S = 7 * 24 * 3600
REFUND = {"order": 1042, "amount": "88.00 EUR", "to": "Okafor & Co"}


def question(
    name: str = "refund_order",
    arguments: Mapping[str, Any] = REFUND,
    *,
    expires_in_s: float = WEEK_S,
    reason: str = WHY,
    **fields: Any,
) -> Question:
    """Return a question about a call whose outcome is unknown, unless ``fields`` say otherwise; its ids are its own."""
    return Question(
        id=new_id("apr"),
        step_id=new_id("stp"),
        call_id=new_id("call"),
        name=name,
        arguments=arguments,
        digest=canonical_digest(dict(arguments)),
        reason=reason,
        expires_ms=epoch_ms() + int(expires_in_s * 1000),
        **fields,
    )


SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "integer", "minimum": 1}},
    "required": ["order"],
    "additionalProperties": False,
}


def question_before(**fields: Any) -> Question:
    """Return a question before a call, whose arguments may be changed to what ``SCHEMA`` describes."""
    return question(
        kind="call",
        decisions=BEFORE,
        schema=SCHEMA,
        tool_digest="0" * 64,
        reason="This tool needs a person's approval for each call.",
        **fields,
    )


ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "minLength": 1, "maxLength": 80, "title": "Street and number"},
        "floor": {"type": "integer", "minimum": 0, "maximum": 80, "description": "0 is the ground floor."},
        "speed": {"enum": ["slow", "fast"], "default": "slow"},
        "is_gift": {"type": "boolean", "title": "A gift?"},
        "extras": {"type": "array", "items": {"enum": ["ribbon", "card", "bag"]}, "maxItems": 2},
    },
    "required": ["street", "speed", "is_gift"],
    "additionalProperties": False,
}


def question_form(form: Mapping[str, Any] = ADDRESS, **fields: Any) -> Question:
    """Return a question that a tool asks before it does anything, with a form."""
    defaults = {"name": "ask_user", "arguments": {"question": "Where to?"}, "reason": "Where should the parcel go?"}
    return question(**defaults | {"kind": "input", "decisions": FORM, "schema": form} | fields)


def question_missing(**fields: Any) -> Question:
    """Return a question for arguments that a call lacks: its ``order`` is there, its ``amount`` is not."""
    form: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "number", "exclusiveMinimum": 0}}}
    form |= {"required": ["amount"], "additionalProperties": False}
    return question_form(form, **{"kind": "arguments", "name": "refund_order", "arguments": {"order": 7}} | fields)


def asks(database: Database, run_id: str, *questions: Question, says: str | None = None) -> CommitResult:
    """Have a queued run call a tool, lose its worker, and wait for answers; viewers are not notified yet.

    ``says`` is what the agent said before it called.
    """
    reap(database, run_id)  # where it had an owner that is lost
    lease = claim(database, run_id, "own_lost", 60.0)
    assert lease is not None
    open_questions = questions or (question(),)
    with database.write() as connection:
        start_steps(connection, lease.run_id, lease.fence, [_step(open_question) for open_question in open_questions])
        row = unowned.lock_run(connection, run_id)
        assert row is not None
        approvals.ask(connection, run_id, open_questions)
        message = _message(open_questions, says)
        written = [
            call | {"arguments_text": orjson.dumps(call["arguments"]).decode()}
            for call in map(dict, message.tool_calls or ())
        ]
        item = HistoryItem(id=message.message_id, role="assistant", data={"content": says, "tool_calls": written})
        events = [
            message,
            *(_call(open_question) for open_question in open_questions),
            *(open_question.payload() for open_question in open_questions),
        ]
        events.append(StatusPayload(status="waiting", reason="approval"))
        waits = {"status": "waiting", "reason": "approval", "detail": DETAIL}
        return unowned.write(connection, row, Commit(events=events, history=[item]), **waits)


def answer_of(database: Database, run_id: str) -> Decision:
    """Return the one answer to the run's questions that no owner has used yet."""
    with database.read() as connection:
        (answer,) = approvals.answers(connection, run_id).values()
    assert answer.decision is not None
    return answer.decision


def filled_in(database: Database, run_id: str) -> Any:
    """Return what a person has filled in: the answer to what a tool asks, or a call's completed arguments."""
    with database.read() as connection:
        (answer,) = approvals.answers(connection, run_id).values()
    return answer.edited or next(iter(answer.given.values()))


def owned_again(database: Database, run_id: str) -> Lease:
    """Return the lease of the owner that continues the run once it was answered."""
    lease = claim(database, run_id, "own_next", 60.0)
    assert lease is not None
    return lease


def _step(open_question: Question) -> StepStarted:
    return StepStarted(
        id=open_question.step_id,
        kind="tool",
        name=open_question.name,
        arguments_digest=open_question.digest,
        idempotency_key=open_question.step_id,
        status="started" if open_question.kind == "unknown" else "planned",
        effect="unsafe",
        call_id=open_question.call_id,
        decision=ALLOWED,
    )


def _message(open_questions: tuple[Question, ...], says: str | None) -> MessagePayload:
    calls = [
        {"call_id": open_question.call_id, "name": open_question.name, "arguments": dict(open_question.arguments)}
        for open_question in open_questions
    ]
    return MessagePayload(role="assistant", content=says, tool_calls=calls, message_id="msg_1", step_id="stp_1")


def _call(open_question: Question) -> ToolPayload:
    arguments_text = ", ".join(f"{name}={value!r}" for name, value in open_question.arguments.items())
    return ToolPayload(
        call_id=open_question.call_id,
        name=open_question.name,
        arguments=open_question.arguments,
        content=f"{open_question.name}({arguments_text})",
        effect="unsafe",
        message_id="msg_1",
        step_id=open_question.step_id,
    )
