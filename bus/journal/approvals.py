"""Approvals: questions that a run asks a person, and the first valid answer to each.

A run asks before a call that a person has to approve, after a call whose outcome is unknown, for arguments that a call
lacks, and whatever a tool asks before it does anything. A question is bound to the exact call, arguments and version
of the tool that are shown, and it expires. A run that waits for an answer has no owner. An answer that lets a call be
made is used once, by the owner that resumes the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import orjson
from sqlalchemy import Connection, Row, func, insert, literal, select, update

from bus.identity.principals import disabled_among
from bus.journal.errors import ApprovalDecided
from bus.journal.records.questions import QUESTION, approved_by, question_data
from bus.payloads import ApprovalPayload
from config.clock import epoch_ms, stamp
from config.database.tables import approvals, runs, timers
from config.definitions.schemas.json_schema import SchemaRefused
from config.definitions.schemas.shown_schema import shown_schema
from config.effects import OnExpiry
from config.ids import canonical_digest
from config.redaction.redacted_data import without_secrets
from config.text.stored_texts import stored_text

UNKNOWN = ("run_again", "take_as_done", "fail")
"""The answers to a question about a call whose outcome is unknown."""
BEFORE = ("approve", "reject")
"""The answers to a question before a call."""
FORM = ("answer", "reject")
"""The answers to a question that has a form."""
ANSWERED_BY = "x-answered-by"
"""The member of a form that names the role whose members alone may answer it."""
Kind = Literal["call", "unknown", "arguments", "input"]
USED_UP = ("approve", "run_again")
"""Answers valid for one owner, since they let it make a call; the others have no effect outside the journal."""
VOID = "void"
"""In place of an answer, where the run was moved to another version of its agent: the next owner asks again."""
DEFAULT_LINK_S, MOST_LINK_S = 86_400, 604_800
"""Seconds that a link to a question is valid, unless its maker says otherwise; and at most."""
EXPIRY = "approval"
"""The kind of the timer that ends an unanswered question."""
UNANSWERED = approvals.c.decision.is_(None)
IN_ORDER = (approvals.c.created_ms, approvals.c.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that a run asks a person before it continues."""

    id: str
    step_id: str
    call_id: str
    name: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    digest: str
    """SHA-256 of the arguments as canonical JSON: the answer holds for exactly these."""
    kind: Kind = "unknown"
    """``call``: before the call. ``unknown``: after a call whose outcome is unknown. ``arguments``: for arguments that
    the call lacks. ``input``: what the tool asks before it does anything."""
    decisions: tuple[str, ...] = UNKNOWN
    """The answers that may be given."""
    tool_digest: str | None = None
    """With ``call``: the version of the tool, for which the answer holds."""
    policy_version: str | None = None
    """With ``call``, where a policy requires the approval: its version, for which the answer holds."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of what a person fills in: with ``call`` the edited arguments, with ``arguments`` those that are
    missing, with ``input`` the answer. With ``call`` its ``description`` says what the tool does."""
    reason: str
    """Why a person is asked, as a sentence; with ``input`` the question itself."""
    expires_ms: int
    on_expiry: OnExpiry = OnExpiry.FAIL
    """What is done without an answer."""
    default: Any = None
    """The call's result with ``take_default``."""
    approvers: int = 1
    """How many persons have to approve; from two on, the run's own principal is none of them."""
    state: str | None = None
    """With ``input``: what the tool keeps for when it is called with the answer; no client gets it."""
    scopes: tuple[str, ...] = ()
    """With ``call``: for which later calls the approval may hold too; see ``bus.journal.sticky``."""
    scope_s: int | None = None
    """With ``scopes``: for how many seconds at most."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What lists say of the tool, as the worker has it: ``description``, ``classification``, and as ``sentence`` what
    the call would do."""

    def payload(self) -> ApprovalPayload:
        """Return the event that asks."""
        return ApprovalPayload(
            approval_id=self.id,
            call_id=self.call_id,
            name=self.name,
            arguments=self.arguments,
            digest=self.digest,
            decisions=self.decisions,
            reason=self.reason,
            expires_at=stamp(self.expires_ms),
            on_expiry=None if self.on_expiry is OnExpiry.FAIL else str(self.on_expiry),
            approvers=None if self.approvers == 1 else self.approvers,
            scopes=self.scopes or None,
            scope_s=self.scope_s if self.scopes else None,
            kind=self.kind if self.decisions == FORM else None,
            form=self.schema if self.decisions == FORM else None,
            input_schema=self.schema if self.kind == "call" else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """An answer."""

    MAX_RESULT_BYTES: ClassVar[int] = 256 * 1024
    """Most bytes of a result given by a person, as JSON; a tool may return as many."""
    MAX_MESSAGE_CHARS: ClassVar[int] = 2000
    KNOWN: ClassVar[tuple[str, ...]] = (*BEFORE, *UNKNOWN, "answer")
    """The answers that some question offers."""

    decision: str
    """One of the question's ``decisions``."""
    result: Any = None
    """With ``take_as_done``: the call's result, as the person states it. With ``answer``: the filled-in form."""
    message: str | None = None
    """A comment by the person, for the log; with ``reject`` the agent gets it too."""
    arguments: Mapping[str, Any] | None = None
    """With ``approve``: the arguments with which the call is made instead of its own."""
    digest: str | None = None
    """The digest of the arguments that the person was shown; another one than the question's is refused."""
    scope: str | None = None
    """With ``approve``: for which later calls of the tool it holds too, of the question's ``scopes``."""
    scope_s: int | None = None
    """With ``scope``: for how many seconds; None: for as long as the question allows."""

    @property
    def refusal(self) -> str:
        """The result of a call that is rejected."""
        text = f": {self.message}" if self.message else "."
        return f"Not done: a person rejected this call{text}"

    @property
    def taken(self) -> Any:
        """The result of a call that is taken as done."""
        return self.result if self.result is not None else "Done, as a person confirmed."


def ask(connection: Connection, run_id: str, questions: Sequence[Question]) -> None:
    """Insert questions and their expiry timers; part of the commit in which the run begins to wait."""
    now = epoch_ms()
    for index, question in enumerate(questions):
        connection.execute(
            insert(approvals).values(
                id=question.id,
                run_id=run_id,
                step_id=question.step_id,
                call_id=question.call_id,
                name=question.name,
                kind=question.kind,
                digest=question.digest,
                tool_digest=question.tool_digest,
                policy_version=question.policy_version,
                schema_json=orjson.dumps(dict(question.schema)).decode() if question.schema is not None else None,
                reason=question.reason,
                arguments_json=orjson.dumps(dict(question.arguments)).decode(),
                decisions_json=orjson.dumps(question.decisions).decode(),
                expires_ms=question.expires_ms,
                state=question.state,
                approvers=None if question.approvers == 1 else question.approvers,
                scopes_json=orjson.dumps(question.scopes).decode() if question.scopes else None,
                scope_s=question.scope_s if question.scopes else None,
                about_json=orjson.dumps(dict(question.about)).decode() if question.about else None,
                on_expiry=None if question.on_expiry is OnExpiry.FAIL else str(question.on_expiry),
                default_json=orjson.dumps(question.default).decode() if question.default is not None else None,
                created_ms=now + index,  # those asked at once keep their order
            )
        )
        connection.execute(
            insert(timers).values(id=question.id, run_id=run_id, kind=EXPIRY, due_ms=question.expires_ms)
        )


def pending(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the unanswered questions of a run as the API shows them, the oldest first."""
    query = select(*QUESTION).where(approvals.c.run_id == run_id, UNANSWERED).order_by(*IN_ORDER)
    return [question_data(row) for row in connection.execute(query)]


def pending_chars(connection: Connection, run_id: str) -> int:
    """Return the characters of the arguments and schemas in the run's open questions, without reading these."""
    lengths = (
        func.coalesce(func.length(column), 0) for column in (approvals.c.arguments_json, approvals.c.schema_json)
    )
    chars = func.coalesce(func.sum(sum(lengths, start=literal(0))), 0)
    return int(connection.execute(select(chars).where(approvals.c.run_id == run_id, UNANSWERED)).scalar_one())


def last_decided(connection: Connection, run_id: str) -> ApprovalDecided | None:
    """Return the error for a late answer to this run's newest question.

    None where no person answered it: it expired, or the run ended before.
    """
    query = select(approvals).where(approvals.c.run_id == run_id)
    row = connection.execute(query.order_by(approvals.c.created_ms.desc(), approvals.c.id.desc())).first()
    if row is None or row.decision is None:
        return None
    return ApprovalDecided(approval_id=row.id, decision=row.decision, by=row.decided_by)


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonAnswer:
    """What a person has said about a step."""

    approval_id: str | None = None
    """The newest question about it, unless its answer is used up."""
    decision: Decision | None = None
    """The answer to it; None while there is none."""
    digest: str | None = None
    """With ``approve``: the digest of the arguments that were approved."""
    tool_digest: str | None = None
    """With ``approve``: the version of the tool that was approved, also where that answer is used up."""
    policy_version: str | None = None
    """With ``approve``: the version of the policy that required it; None where the tool did."""
    edited: Mapping[str, Any] | None = None
    """The arguments as a person changed or completed them, also where that answer is used up."""
    state: str | None = None
    """What the tool kept with the newest of its questions that was answered."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The answers to what the tool asked, by ``form_digest`` of the question."""
    unlogged: ApprovalPayload | None = None
    """The event of an answer that was given while a workflow's owner was at another branch; the next one writes it."""


NO_ANSWER = PersonAnswer()


def answers(connection: Connection, run_id: str) -> dict[str, PersonAnswer]:
    """Return what was said about each step, by its id, for the next owner.

    Answers of ``USED_UP`` are valid for one owner, and while none of the principals that gave them is disabled. Each
    owner gets the others until one has committed the result.
    """
    query = select(approvals).where(approvals.c.run_id == run_id).order_by(*IN_ORDER)
    rows, by_step = connection.execute(query).all(), dict[str, PersonAnswer]()
    void = _by_disabled(connection, run_id, rows)
    for row in rows:
        by_step[row.step_id] = _answered(row, by_step.get(row.step_id, NO_ANSWER), is_void=row.id in void)
    return by_step


def _by_disabled(connection: Connection, run_id: str, rows: Sequence[Row[Any]]) -> set[str]:
    """Return the ids of the approvals that are not used yet and that a principal gave who is disabled now."""
    unused = {
        row.id: {row.decided_by, *approved_by(row)} for row in rows if row.decision in USED_UP and not row.used_ms
    }
    if not unused:
        return set()
    tenant = connection.execute(select(runs.c.tenant).where(runs.c.id == run_id)).scalar_one()
    keys = [(tenant, name) for names in unused.values() for name in names if name is not None]
    disabled = {name for _, name in disabled_among(connection, keys)}
    return {approval_id for approval_id, names in unused.items() if names & disabled}


def _answered(row: Row[Any], before: PersonAnswer, *, is_void: bool) -> PersonAnswer:
    """Return what was said with one more question; ``before``: with those asked earlier."""
    if row.decision == VOID:
        return PersonAnswer(edited=before.edited, given=before.given)
    decision = _decision(row)
    if decision is not None and decision.decision == "answer":
        if not _is_as_given(orjson.loads(row.decision_json)):
            return before
        if row.kind == "arguments":
            return replace(before, edited=decision.arguments)
        digest = form_digest(row.reason, orjson.loads(row.schema_json))
        return replace(before, given={**before.given, digest: decision.result}, state=row.state or before.state)
    edited = decision.arguments if decision is not None and decision.arguments is not None else before.edited
    data = orjson.loads(row.decision_json) if decision is not None else {}
    if is_void or (row.used_ms is not None and row.decision in USED_UP) or not _is_as_given(data):
        return PersonAnswer(edited=edited, given=before.given, tool_digest=row.tool_digest)
    return PersonAnswer(
        approval_id=row.id,
        decision=decision,
        digest=data.get("digest") or row.digest,
        tool_digest=row.tool_digest,
        policy_version=row.policy_version,
        edited=edited,
        given=before.given,
        unlogged=_event(row, decision) if decision is not None and data.get("unlogged") and not row.used_ms else None,
    )


def _event(row: Row[Any], decision: Decision) -> ApprovalPayload:
    """Return the event of an answer."""
    return ApprovalPayload(
        approval_id=row.id,
        call_id=row.call_id,
        name=row.name,
        arguments=decision.arguments,
        decision=decision.decision,
        by=row.decided_by,
        reason=decision.message,
    )


def _is_as_given(data: Mapping[str, Any]) -> bool:
    """Return whether a result is the one that the person gave; changed in the database it does not count."""
    expected = data.get("result_digest")
    return expected is None or expected == canonical_digest(data["result"])


def form_digest(text: str, form: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a tool asks, as it is stored: the question again gets the answer that was given."""
    question_text, fields = stored_question(text, form)
    return canonical_digest({"text": question_text, "form": fields})


def stored_question(text: str, form: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text and the form of a tool's question without secrets and hidden characters."""
    fields = dict(without_secrets(form))
    with suppress(SchemaRefused):  # of a question that was asked before such forms were refused
        fields = shown_schema(fields)
    return stored_text(text), fields


def give_back(connection: Connection, step_ids: Sequence[str]) -> None:
    """Mark the approvals of these steps as not used: the owner that used them has not made the calls."""
    if step_ids:
        condition = approvals.c.step_id.in_(step_ids) & (approvals.c.decision == "approve")
        connection.execute(update(approvals).where(condition).values(used_ms=None))


def use(connection: Connection, approval_ids: Sequence[str]) -> None:
    """Mark answers as used, in the transaction in which a run is claimed to act on them."""
    if approval_ids:
        connection.execute(
            update(approvals)
            .where(approvals.c.id.in_(approval_ids), approvals.c.used_ms.is_(None))
            .values(used_ms=epoch_ms())
        )


def _decision(row: Row[Any]) -> Decision | None:
    if row.decision is None:
        return None
    answer = orjson.loads(row.decision_json)
    return Decision(
        decision=row.decision,
        arguments=answer.get("arguments"),
        result=answer["result"],
        message=answer["message"],
    )
