"""Recording a person's answer: the first valid one counts, and queues the run once no question is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import orjson
from sqlalchemy import Connection, Row, func, select, update

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.identity.credentials.keys import person_behind
from bus.journal import sticky
from bus.journal.approvals import ANSWERED_BY, Decision
from bus.journal.decisions.links import UsedLink
from bus.journal.errors import (
    ANSWER_REFUSED,
    APPROVER_REFUSED,
    ARGUMENTS_DIFFER,
    DECISION_REFUSED,
    EDIT_REFUSED,
    SCOPE_REFUSED,
    ApprovalDecided,
    ApprovalOver,
    ApprovalUnknown,
)
from bus.journal.idempotency import IdempotencyKey, remember, used_before
from bus.journal.log.commit import Commit
from bus.journal.records.control_requests import wake
from bus.journal.records.questions import approved_by, scopes_of
from bus.journal.records.steps import WORKFLOW
from bus.journal.unowned.transitions import CommitResult, lock_allowed_run, untouched, write
from bus.journal.unowned.transitions import answer as record_answer
from bus.payloads import TERMINAL, ApprovalPayload
from config.clock import epoch_ms
from config.database.engine import Database, wall_ms
from config.database.tables import approvals
from config.definitions.schemas.json_schema import schema_errors
from config.effects import OnExpiry
from config.failpoints import failpoint
from config.identity.principal import LOCAL, Principal, Verb
from config.ids import canonical_digest

NOT_MADE = "Not done: no person answered in time, and the tool has no default result."
BY_EXPIRY = "expiry"
"""Who decided, where it was the end of the time for an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """The recorded answer, and what was written about the run."""

    approval_id: str
    decision: str
    """The answer that was given; it counts once as many have approved as have to."""
    by: str
    written: CommitResult
    is_new: bool = True
    """False when the same request had been made before."""


def decide(
    database: Database,
    principal: Principal,
    run_id: str,
    approval_id: str,
    answer: Decision,
    *,
    by: str,
    idempotency: IdempotencyKey | None = None,
    link: UsedLink | None = None,
    local: Principal = LOCAL,
) -> Decided:
    """Record the answer to one question; the run is queued once none is open.

    The same idempotency key and body return the decision as it was made. ``local`` is the installation's own principal.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: the principal may not do this with it.
        ApprovalUnknown: the run never asked that.
        ApprovalDecided: the question was answered before; has the decision and who made it.
        ApprovalOver: the run ended or was stopped, or the time for an answer is over.
        DECISION_REFUSED: the answer is not one of those offered.
        EDIT_REFUSED: the arguments given with it do not fit the tool's schema, or several have to approve the call.
        ANSWER_REFUSED: the answer does not fit the question's form.
        SCOPE_REFUSED: the question does not offer that the approval holds for later calls too.
        LINK_OVER: the link by which it is answered was used before, or is not for this question.
        ARGUMENTS_DIFFER: the digest given with it is not that of the call's arguments.
        APPROVER_REFUSED: several have to approve the call, and this person has, or is the one whose run it is, also
            with an API key that it created; or the question is for a role that the principal has not.
        IDEMPOTENCY_CONFLICT: the key was used with another body.
    """
    with database.write() as connection:
        decided = _decide(connection, principal, run_id, approval_id, answer, by, idempotency, link, local)
    if decided.is_new:
        failpoint("unowned")
    return decided


def _decide(
    connection: Connection,
    principal: Principal,
    run_id: str,
    approval_id: str,
    answer: Decision,
    by: str,
    idempotency: IdempotencyKey | None,
    link: UsedLink | None,
    local: Principal,
) -> Decided:
    decided = partial(Decided, approval_id=approval_id)
    row = lock_allowed_run(connection, principal, Verb.DECIDE, run_id)
    query = select(approvals).where(approvals.c.id == approval_id, approvals.c.run_id == run_id)
    question = connection.execute(query).first()
    if question is None:
        raise ApprovalUnknown(approval_id=approval_id[:80])
    if idempotency is not None and used_before(connection, principal, idempotency) is not None:
        outcome = question.decision or "approve", question.decided_by or by  # one of several approvals
        return decided(decision=outcome[0], by=outcome[1], written=untouched(row), is_new=False)
    _require_open(connection, row, question, answer)
    if answer.decision == "answer":
        _require_role(question, principal)
    if link is not None:
        link.use(connection, question)
    answer = _completed(question, answer)
    if answer.decision == "approve" and question.approvers is not None:
        person = _other_person(connection, row, principal, by, local)
        written = _approve(connection, row, question, answer, by, person)
    else:
        written = _answer(connection, row, question, answer, by)
    if idempotency is not None:
        remember(connection, principal, idempotency, run_id)
    _record(connection, principal, row, question, answer, by, link)
    return decided(decision=answer.decision, by=by, written=written)


def _other_person(connection: Connection, run: Row[Any], principal: Principal, by: str, local: Principal) -> str:
    """Return who approves; raise ``APPROVER_REFUSED`` where that is the person whose run it is."""
    person = person_behind(connection, principal.id, local)
    asker = person_behind(connection, run.principal, local, (run.credential, run.credential_id))
    if {run.principal, asker} & {person, by}:
        raise APPROVER_REFUSED("the run is yours, and others have to approve this call.")
    return person


def _record(
    connection: Connection,
    principal: Principal,
    run: Row[Any],
    question: Row[Any],
    answer: Decision,
    by: str,
    link: UsedLink | None,
) -> None:
    """Add the answer to the audit log."""
    facts = {"run": run.id, "decision": answer.decision, "call": question.name, "arguments": question.digest}
    facts["link"] = link.id if link is not None else None
    facts["scope"], facts["scope_s"] = answer.scope, answer.scope_s
    facts["edited"], facts["result"] = _digest(answer), _result_digest(answer)
    facts["by"] = by if by != principal.id else None
    record(connection, principal, Action.APPROVAL_DECIDED, "approval", question.id, **facts)


def _approve(
    connection: Connection, run: Row[Any], question: Row[Any], answer: Decision, by: str, person: str
) -> CommitResult:
    """Record one of several approvals; the last one that is needed is the answer."""
    names = approved_by(question)
    if person in names:
        raise APPROVER_REFUSED("you have approved this call already, and another person has to.")
    if answer.arguments is not None:
        raise EDIT_REFUSED(problems="several persons have to approve this call, so it is made as it is or rejected")
    names.append(person)
    statement = (
        update(approvals).where(approvals.c.id == question.id).values(approved_json=orjson.dumps(names).decode())
    )
    connection.execute(statement)
    if len(names) >= question.approvers:
        return _answer(connection, run, question, answer, by, names)
    ids = {"approval_id": question.id, "call_id": question.call_id, "name": question.name}
    event = ApprovalPayload(**ids, approvers=question.approvers, approved_by=names, reason=answer.message)
    return record_answer(connection, run, event, is_last=False)


def decide_by_expiry(connection: Connection, run: Row[Any], question: Row[Any]) -> CommitResult:
    """Record what a question says about its expiry as its answer; the run is queued once none is open.

    A workflow's node has failed where it says nothing, and the workflow's file says how the run continues.
    """
    if question.on_expiry is None:
        is_before = "reject" in orjson.loads(question.decisions_json)
        unanswered = Decision(decision="reject" if is_before else "fail", message="no person answered in time")
        return _answer(connection, run, question, unanswered, BY_EXPIRY)
    taken = orjson.loads(question.default_json) if question.default_json is not None else NOT_MADE
    answers = {
        OnExpiry.REJECT: Decision(decision="reject", message="no person answered in time"),
        OnExpiry.TAKE_DEFAULT: Decision(decision="take_as_done", result=taken),
    }
    return _answer(connection, run, question, answers[OnExpiry(question.on_expiry)], BY_EXPIRY)


def _require_open(connection: Connection, run: Row[Any], question: Row[Any], answer: Decision) -> None:
    if question.decision is not None:
        raise ApprovalDecided(approval_id=question.id, decision=question.decision, by=question.decided_by)
    if run.status in TERMINAL:
        raise ApprovalOver(f"the run is over ({run.status}), so nothing can be decided any more.")
    is_at_work = run.kind == WORKFLOW and not run.stop_requested  # at another branch
    if run.status != "waiting" and not is_at_work:  # stopped while it was about to ask; an owner may be ending it
        raise ApprovalOver("the run was stopped and waits for no answer; it ends by itself.")
    if question.expires_ms is not None and question.expires_ms <= wall_ms(connection):
        raise ApprovalOver("the time for an answer is over; the run ends by itself.")
    offered = orjson.loads(question.decisions_json)
    if answer.decision not in offered:
        raise DECISION_REFUSED(answer=answer.decision, offered=", ".join(offered))
    if answer.digest is not None and answer.digest != question.digest:
        raise ARGUMENTS_DIFFER(approval_id=question.id)
    if answer.decision == "answer":
        _require_form(question, answer.result)
    if answer.scope is not None:
        _require_scope(question, answer)
    if answer.arguments is not None:
        _require_fit(question, answer.arguments)


def _require_role(question: Row[Any], principal: Principal) -> None:
    """Raise ``APPROVER_REFUSED`` unless a principal may answer a form that is for the members of a role."""
    role = orjson.loads(question.schema_json).get(ANSWERED_BY)
    if role is not None and role not in principal.roles:
        raise APPROVER_REFUSED(f"this question is for the role '{role}', which you do not have; you may reject it.")


def _require_fit(question: Row[Any], arguments: Mapping[str, Any]) -> None:
    """Raise ``EDIT_REFUSED`` unless arguments may take the place of those that the run asked about."""
    if question.schema_json is None:
        raise EDIT_REFUSED(problems="the arguments of this call cannot be changed any more")
    problems = schema_errors(orjson.loads(question.schema_json), dict(arguments))
    if problems:
        raise EDIT_REFUSED(problems="; ".join(problems))


def _require_form(question: Row[Any], values: Any) -> None:
    """Raise ``ANSWER_REFUSED`` unless an answer fits the question's form."""
    problems = schema_errors(orjson.loads(question.schema_json), values)
    if problems:
        raise ANSWER_REFUSED(problems="; ".join(problems))


def _require_scope(question: Row[Any], answer: Decision) -> None:
    """Raise ``SCOPE_REFUSED`` unless an approval may hold for later calls as the answer wants it."""
    offered = scopes_of(question)
    if answer.decision != "approve" or answer.scope not in offered:
        if not offered:
            raise SCOPE_REFUSED(problem="the question does not offer that")
        raise SCOPE_REFUSED(problem=f"the question offers {', '.join(offered)}, with approve")
    if answer.arguments is not None:
        raise SCOPE_REFUSED(problem="with other arguments it holds for this call alone")
    if answer.scope_s is not None and not 1 <= answer.scope_s <= question.scope_s:
        raise SCOPE_REFUSED(problem=f"the time is 1 to {question.scope_s} seconds")


def _completed(question: Row[Any], answer: Decision) -> Decision:
    """Return an answer that fills in missing arguments with the whole arguments of the call; any other as it is."""
    if answer.decision != "answer" or question.kind != "arguments":
        return answer
    return replace(answer, arguments={**orjson.loads(question.arguments_json), **answer.result})


def _digest(answer: Decision) -> str | None:
    """Return the digest of the arguments as a person changed them; None where they stay as they are."""
    return canonical_digest(dict(answer.arguments)) if answer.arguments is not None else None


def _result_digest(answer: Decision) -> str | None:
    """Return the digest of the result or the answer that a person gave; None where none was given."""
    return canonical_digest(answer.result) if answer.result is not None else None


def _answer(
    connection: Connection,
    run: Row[Any],
    question: Row[Any],
    answer: Decision,
    by: str,
    approved: Sequence[str] | None = None,
) -> CommitResult:
    arguments = dict(answer.arguments) if answer.arguments is not None else None
    data = {"result": answer.result, "message": answer.message, "arguments": arguments, "digest": _digest(answer)}
    data["result_digest"] = _result_digest(answer)
    data |= {"unlogged": True} if run.status == "running" else {}
    connection.execute(
        update(approvals)
        .where(approvals.c.id == question.id)
        .values(
            decision=answer.decision, decision_json=orjson.dumps(data).decode(), decided_by=by, decided_ms=epoch_ms()
        )
    )
    until = None
    if answer.scope is not None:
        until = sticky.grant(connection, run, question, answer.scope, answer.scope_s or question.scope_s, by)
    event = ApprovalPayload(
        approval_id=question.id,
        call_id=question.call_id,
        name=question.name,
        scope=answer.scope,
        until=until,
        arguments=arguments,
        digest=data["digest"],
        decision=answer.decision,
        by=by,
        approved_by=approved,
        reason=answer.message,
        answer=answer.result if answer.decision == "answer" else None,
        result_digest=data["result_digest"],
    )
    return _recorded(connection, run, event, by)


def _recorded(connection: Connection, run: Row[Any], event: ApprovalPayload, by: str) -> CommitResult:
    """Write the event of an answer, and queue a run that waits for nothing else; a workflow waits for any of several.

    Of a workflow whose owner is at another branch the next owner writes the event.
    """
    still_open = select(func.count()).select_from(approvals)
    still_open = still_open.where(approvals.c.run_id == run.id, approvals.c.decision.is_(None))
    if run.status == "running":
        wake(connection, run.id, by)
        return untouched(run)
    if run.status == "queued":
        kept = {name: getattr(run, name) for name in ("owner", "lease_until")}  # a process may wait to run it inline
        return write(connection, run, Commit(events=[event]), **kept)
    is_last = run.kind == WORKFLOW or not connection.execute(still_open).scalar_one()
    return record_answer(connection, run, event, is_last=is_last)


# --- an answer as it may be recorded


class Guard(Protocol):
    """Checks what a person gives to a run, and raises what the interfaces report; safe for any thread."""

    def input(self, text: str) -> str:
        """Return a text as it may be kept."""
        ...

    def given(self, value: Any) -> Any:
        """Return JSON data as it may be kept."""
        ...

    def require_call(self, arguments: Mapping[str, Any]) -> None:
        """Return if arguments may be kept as they are."""
        ...


def guarded(answer: Decision, guard: Guard) -> Decision:
    """Return the answer with its comment and a given result as they may be kept.

    Arguments and a filled-in form are used as they are given, so nothing is replaced in them.

    Raises:
        INPUT_BLOCKED: they have a secret, or the guard blocks them, the comment or the result.
    """
    if answer.message is None and answer.result is None and answer.arguments is None:
        return answer
    message = guard.input(answer.message) if answer.message is not None else None
    if answer.arguments is not None:
        guard.require_call(answer.arguments)
    if answer.decision == "answer":
        guard.require_call({"answer": answer.result})
        return replace(answer, message=message)
    return replace(answer, message=message, result=guard.given(answer.result))
