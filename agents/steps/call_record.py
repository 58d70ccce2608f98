"""One tool call: what was decided about it, and its start, question and end as each is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from agents.models.streams.tool_calls import ToolCall
from agents.prompt import readable_call
from agents.tools.requests import CallAsks
from agents.tools.tool import Tool
from bus.journal.approvals import BEFORE, FORM, NO_ANSWER, USED_UP, PersonAnswer, Question, stored_question
from bus.journal.owner import (
    Commit,
    HistoryItem,
    OpenStep,
    RecordedOutcome,
    StepEnded,
    StepStarted,
    StickyApproval,
    TaskWait,
)
from bus.payloads import Outcome, Payload, ToolPayload, ToolResultPayload
from config.effects import Effect
from config.errors import ModelVisible
from config.ids import canonical_digest, new_id
from config.policy_decision import TOOLS_OWN, PolicyDecision, Verdict
from config.text.stored_texts import stored_text


class RefusedCall(NamedTuple):
    """How a call ends that may not be made."""

    outcome: Outcome
    result: str
    """For the model."""
    error: ModelVisible | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDecision:
    """One call as its stages leave it; each stage returns a new one."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Decoded, as a person, the policy or the engine changed them."""
    changed: tuple[str, ...] = ()
    """The names of the arguments that the policy rewrote."""
    policy_decision: PolicyDecision | None = None
    """What the policy decides, and the engine where it is stricter; None where they are not asked."""
    policy_version: str | None = None
    """The digest of the policy's version and the rule that requires the approval; None where the tool does."""
    repeats: str | None = None
    """Why a person has to approve the call, as a sentence: an earlier run has made it, or another one in its place."""
    key: str | None = None
    """The idempotency key with which an earlier run has made the same call; None: it has one of its own."""
    approval_reason: str | None = None
    """Why a person has to approve or complete the call before it is made, as a sentence."""
    form: Mapping[str, Any] | None = None
    """The JSON Schema of the arguments that a person has to fill in; None where none is missing."""
    sticky: StickyApproval | None = None
    """The sticky approval by which the call needs none of its own."""
    refusal: RefusedCall | None = None
    """How the call ends; None where it may be made."""
    recorded: RecordedOutcome | None = None
    """What an earlier run has recorded of it, which it gets in place of being made."""
    notes: Sequence[Payload] = ()
    """Events to be committed with the decision."""

    @property
    def is_halted(self) -> bool:
        """Whether the policy ends the run."""
        return self.policy_decision is not None and self.policy_decision.verdict is Verdict.HALT

    @property
    def is_final(self) -> bool:
        """Whether no further stage is asked."""
        return self.refusal is not None or self.form is not None or self.recorded is not None or self.is_halted

    @property
    def is_required_by_policy(self) -> bool:
        """Whether a rule of the policy requires an approval."""
        return self.policy_version is not None

    def refused(self, error: ModelVisible, result: str | None = None, outcome: Outcome = "refused") -> CallDecision:
        """Return that the call is not made; ``result`` is the error's sentence where it is not given."""
        return replace(self, refusal=RefusedCall(outcome, str(error) if result is None else result, error))

    def as_shown(self) -> dict[str, Any] | None:
        """Return what the policy decided, for viewers; None where no rule says anything of the call."""
        decided = self.policy_decision
        if decided is None or decided.verdict is Verdict.ALLOW or decided.rule == TOOLS_OWN:
            return None
        data: dict[str, Any] = {"verdict": str(decided.verdict), "rule": decided.rule}
        data |= {"reason": decided.reason} if decided.reason else {}
        return data | ({"changed": list(self.changed)} if self.changed else {})


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOutcome:
    """How a call ended."""

    outcome: Outcome
    result: Any
    """JSON data; a sentence where the call is not done."""
    error: ModelVisible | None = None
    """Why the call was refused or has failed; None where it was done, was cut off, or its outcome is unknown."""
    duration_ms: int | None = None
    retries: int = 0
    """How often its owner made it again."""
    labels: frozenset[str] = frozenset()
    """Those of the files that the call has read."""
    notes: Sequence[Payload] = ()
    """Events to be committed with the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """The identity of a call, and the journal's entries about it."""

    id: str
    """Of its step."""
    key: str
    """Its idempotency key."""
    item_id: str
    """Of its result in the history."""
    call: ToolCall
    """As it is recorded: without secrets."""
    tool: Tool | None
    prior: OpenStep | None = None
    """The step as an earlier owner left it."""

    @classmethod
    def of(cls, call: ToolCall, tool: Tool | None, prior: OpenStep | None) -> CallRecord:
        """Return the record of a new call, or of an earlier owner's."""
        key = prior.key if prior is not None else new_id("key")
        step_id = prior.id if prior is not None else new_id("step")
        return cls(id=step_id, key=key, item_id=new_id("msg"), call=call, tool=tool, prior=prior)

    # --- what is known of it

    @property
    def attempt(self) -> int:
        """The number of this owner's first attempt."""
        return self.prior.attempt + 1 if self.prior is not None else 1

    @property
    def effect(self) -> Effect:
        """The effect class of the call's tool; for an earlier owner's call, the recorded one."""
        if self.prior is not None and self.prior.effect:
            return Effect(self.prior.effect)
        return self.tool.effect if self.tool is not None else Effect.PURE

    @property
    def answer(self) -> PersonAnswer:
        """What a person has said about it."""
        return self.prior.answer if self.prior is not None else NO_ANSWER

    @property
    def is_planned(self) -> bool:
        """Whether no owner has begun it."""
        return self.prior is None or self.prior.status == "planned"

    @property
    def is_open(self) -> bool:
        """Whether an earlier owner began it, and may have made it."""
        return self.prior is not None and self.prior.status == "started"

    @property
    def is_under_way(self) -> bool:
        """Whether an earlier owner began it, or its task."""
        return self.prior is not None and self.prior.status in ("started", "waiting")

    @property
    def is_asked(self) -> bool:
        """Whether a person was asked about it and has not answered."""
        return self.prior is not None and self.prior.is_asked

    def is_answered(self, decision: str) -> bool:
        """Return whether a person decided so about it."""
        return self.answer.decision is not None and self.answer.decision.decision == decision

    def is_approved(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a person has approved exactly this call."""
        answer = self.answer
        if self.tool is None or answer.decision is None or answer.decision.decision not in USED_UP:
            return False
        return answer.digest == canonical_digest(arguments) and answer.tool_digest == version_of(self.tool)

    def is_by_approval(self, decision: CallDecision) -> bool:
        """Return whether a call that may be made needed a person's approval, by this owner or an earlier one."""
        judged = decision.policy_decision
        is_needed = judged is not None and judged.verdict is Verdict.REQUIRE_APPROVAL
        return is_needed or (self.prior is not None and self.prior.needs_approval)

    @property
    def is_of_approved_tool(self) -> bool:
        """Whether the tool is as it was when a person approved the call; the stages compare that of a planned one.

        What an earlier owner began by a sticky approval has none of its own, so that it is not known.
        """
        return self.is_planned or (self.tool is not None and self.answer.tool_digest == version_of(self.tool))

    def labels(self, decision: CallDecision) -> frozenset[str]:
        """Return the labels of the call's result by its tool and the policy."""
        judged, prior = decision.policy_decision, self.prior
        by_policy = judged.labels if judged is not None else prior.labels if prior is not None else ()
        return frozenset((*(self.tool.result_labels if self.tool is not None else ()), *by_policy))

    # --- its entries

    def call_event(self, decision: CallDecision, message_id: str) -> ToolPayload:
        """Return the event of the call that is about to be made."""
        return ToolPayload(
            call_id=self.call.id,
            name=self.call.name,
            arguments=decision.arguments,
            digest=canonical_digest(decision.arguments),
            effect=str(self.effect),
            attempt=self.attempt,
            content=readable_call(self.call.name, decision.arguments),
            identity=(self.tool.identity or None) if self.tool is not None else None,
            policy=decision.as_shown(),
            message_id=message_id,
            step_id=self.id,
        )

    def started(self, decision: CallDecision, status: str, wait: TaskWait | None) -> StepStarted:
        """Return the entry that has to be committed before the call is made, with what was decided.

        A call that may not be made has no effect class. One that a person has to approve is planned: it begins when
        its run is resumed.
        """
        return StepStarted(
            id=self.id,
            kind="tool",
            name=self.call.name,
            call_id=self.call.id,
            effect=None if decision.refusal is not None else str(self.effect),
            arguments_digest=canonical_digest(decision.arguments),
            idempotency_key=self.key,
            # One with a recorded outcome is never begun: a later owner finds that outcome again.
            status="planned" if decision.approval_reason is not None or decision.recorded is not None else status,
            decision=decision.policy_decision,
            wait=wait if status == "started" else None,
        )

    def question(
        self, decision: CallDecision, expires_ms: int, *, asks: CallAsks | None = None, result: Any = None
    ) -> Question:
        """Return the question to a person: before the call, of the tool (``asks``), or about an unknown outcome, which
        ``result`` describes.
        """
        question = Question(
            id=new_id("apr"),
            step_id=self.id,
            call_id=self.call.id,
            name=self.call.name,
            arguments=decision.arguments,
            digest=canonical_digest(decision.arguments),
            reason=stored_text(decision.approval_reason or str(result)),
            expires_ms=expires_ms,
            about=_about(self.tool, decision.arguments) if self.tool is not None else {},
        )
        if decision.approval_reason is None and asks is None:
            return question
        assert self.tool is not None
        on_expiry, default = self.tool.on_expiry, self.tool.default
        question = replace(question, tool_digest=version_of(self.tool), on_expiry=on_expiry, default=default)
        if asks is not None:
            text, form = stored_question(asks.text, asks.form)
            return replace(question, kind="input", decisions=FORM, reason=text, schema=form, state=asks.state)
        if decision.form is not None:
            return replace(question, kind="arguments", decisions=FORM, schema=decision.form)
        scopes, scope_s = scopes_of(self.tool, decision)
        return replace(
            question,
            kind="call",
            decisions=BEFORE,
            approvers=self.tool.approvers,
            schema={**self.tool.parameters, "description": self.tool.description},
            policy_version=decision.policy_version,
            scopes=scopes,
            scope_s=scope_s,
        )

    def ended(
        self,
        decision: CallDecision,
        end: CallOutcome,
        message_id: str,
        *,
        spans: Sequence[Mapping[str, Any]] = (),
        labels: frozenset[str] = frozenset(),
    ) -> Commit:
        """Return the commit that ends the call: its event, its step's end, and the result for the history.

        ``labels`` are all of the run's where the result adds one.
        """
        call = {"call_id": self.call.id, "name": self.call.name, "outcome": end.outcome, "result": end.result}
        code = end.error.code if end.error is not None else None
        attempt = self.attempt + end.retries
        facts: dict[str, Any] = {"attempt": attempt, "duration_ms": end.duration_ms, "code": code}
        facts |= {"recorded_in": decision.recorded.run_id} if decision.recorded is not None else {}
        event = ToolResultPayload(**call, **facts, message_id=message_id, step_id=self.id)
        ended = StepEnded(id=self.id, status=end.outcome, result=end.result, attempts=attempt, spans=spans)
        edited = decision.arguments if self.answer.edited is not None else None
        if decision.recorded is not None:
            edited = decision.recorded.edited
        data = call if edited is None else call | {"edited": edited}
        items = [HistoryItem(id=self.item_id, role="tool", data=data)]
        return Commit(events=[*end.notes, event], ended=[ended], history=items, labels=labels)


def _about(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return what a person who decides about a call reads of its tool."""
    sentence = tool.sentence(arguments)
    facts = {"description": stored_text(tool.description), "classification": str(tool.classification)}
    return facts | ({"sentence": sentence} if sentence else {})


def version_of(tool: Tool) -> str:
    """Return the SHA-256 of what a person approves of a tool: what it says of itself, and what carries it out."""
    facts = {"name": tool.identity or tool.name, "version": tool.version, "description": tool.description}
    if tool.implementation is not None:
        facts["implementation"] = tool.implementation
    if tool.title:
        facts["title"] = tool.title
    return canonical_digest(facts | {"parameters": dict(tool.parameters), "effect": str(tool.effect)})


def scopes_of(tool: Tool, decision: CallDecision) -> tuple[tuple[str, ...], int]:
    """Return for which later calls an approval may hold too, and for how many seconds at most.

    Where the tool itself requires the approval it decides that, and no rule offers more.
    """
    if tool.approvers > 1 or decision.repeats is not None:
        return (), tool.sticky_s
    by_policy = decision.policy_decision
    if tool.needs_approval or by_policy is None or by_policy.sticky is None:
        return tool.sticky, tool.sticky_s
    return by_policy.sticky, by_policy.sticky_s or tool.sticky_s
