"""One tool call as the journal records it: its start, a question about it, and its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.context import RunContext
from agents.models.streams.tool_calls import ToolCall
from agents.steps.preflight import Preflight, version_of
from agents.steps.task_work import TaskWork
from agents.texts import readable_call
from agents.tools.isolation.call_sandbox import CallSandbox
from agents.tools.requests.questions import CallAsks
from agents.tools.tool import Tool
from bus.journal import (
    BEFORE,
    FORM,
    NO_ANSWER,
    Commit,
    Ending,
    HistoryItem,
    OpenStep,
    Question,
    StepEnded,
    StepStarted,
    TaskWait,
    canonical_digest,
    result_of_cut_off,
    stored_question,
)
from bus.payloads import Outcome, Payload, ToolPayload, ToolResultPayload
from config.effects import Effect, Recovery
from config.errors import ModelVisible
from config.ids import new_id
from config.policy_decision import TOOLS_OWN, Verdict
from config.text.stored_texts import stored_text

UNDER_WAY = ("started", "waiting")
"""The states of a step that an earlier owner began."""


class RecordedCall:
    """A tool call that was decided about: its identity, its state, and the journal's entries about it."""

    def __init__(
        self,
        context: RunContext,
        call: ToolCall,
        tools: Mapping[str, Tool],
        default_timeout_s: float,
        prior: OpenStep | None = None,
        *,
        asks_missing: bool = False,
    ) -> None:
        """``prior``: the step as an earlier owner left it. ``asks_missing``: see ``Preflight``."""
        self.id = prior.id if prior else new_id("step")
        self.key = prior.key if prior else new_id("key")
        self._context = context
        self._tool = tools.get(call.name)
        self._prior = prior
        self._answer = prior.answer if prior else NO_ANSWER
        self._person_decision = self._answer.decision
        self._attempts = prior.attempt + 1 if prior else 1
        self._preflight = preflight = Preflight(context, call, tools, prior, asks_missing=asks_missing)
        self.call = preflight.call
        self.arguments = preflight.arguments
        self.policy_decision = preflight.policy_decision
        """What the policy decides about it; None where it is not asked."""
        self._timeout_s = self._limit(default_timeout_s)
        task = self._tool.task if self._tool is not None else None
        self.work = TaskWork(task, self.key, self._timeout_s, prior) if task is not None else None
        """The task that the call begins, where another system does its work."""
        self.is_pending = False
        """Whether its task is under way, so that the run can wait for it without a worker."""
        self._started_s = 0.0
        self._repeats = 1
        self.is_begun = False
        """Whether the tool may have been called by this owner."""
        self.approval_reason = preflight.approval_reason
        """Why a person has to approve or complete the call, as a sentence; None where it may be made."""
        self._asked: CallAsks | None = None
        self._item_id = new_id("msg")
        self._outcome: Outcome | None = None
        self._result: Any = None
        self.error: ModelVisible | None = None
        """Why the call was refused or has failed; None where it was done, was cut off, or its outcome is unknown."""
        self._duration_ms: int | None = None
        self._files: CallSandbox | None = None
        self._file_labels: frozenset[str] = frozenset()
        self._notes: list[Payload] = []
        self.spans: Sequence[Mapping[str, Any]] = ()
        """The HTTP requests, statements and file operations of the call."""
        if preflight.refusal is not None:
            self._set_outcome(*preflight.refusal)

    def _limit(self, default_s: float) -> float:
        """Return the seconds that the call may take: the tool's, the agent's, or fewer where the policy says so."""
        limit_s = (self._tool.timeout_s if self._tool is not None else None) or default_s
        constrained_s = self.policy_decision.timeout_s if self.policy_decision is not None else None
        return limit_s if constrained_s is None else min(limit_s, constrained_s)

    @property
    def effect(self) -> Effect:
        """The effect class of the call's tool; for an earlier owner's call, the recorded one."""
        if self._prior is not None and self._prior.effect:
            return Effect(self._prior.effect)
        return self._tool.effect if self._tool is not None else Effect.PURE

    @property
    def is_unknown(self) -> bool:
        """Whether its outcome is unknown."""
        return self._outcome == "unknown"

    @property
    def result(self) -> Any:
        """The call's result as JSON data, once it is settled; a sentence where it is not done."""
        return self._result

    @property
    def is_settled(self) -> bool:
        """Whether there is an outcome to commit."""
        return self._outcome is not None

    @property
    def has_asked(self) -> bool:
        """Whether its tool asked a person instead of returning: with the answer it is called again."""
        return self._asked is not None

    @property
    def needs_form(self) -> bool:
        """Whether a person has to fill in a form before it is made, or made again."""
        return self.has_asked or self._preflight.form is not None

    @property
    def sticky_id(self) -> str | None:
        """The sticky approval by which it begins."""
        return self._preflight.sticky.id if self._preflight.sticky is not None and self.will_run else None

    @property
    def is_asked(self) -> bool:
        """Whether a person was asked about it and has not answered."""
        return self._prior is not None and self._prior.is_asked

    @property
    def _is_rejected(self) -> bool:
        return self._person_decision is not None and self._person_decision.decision == "reject"

    @property
    def _is_taken(self) -> bool:
        return self._person_decision is not None and self._person_decision.decision == "take_as_done"

    @property
    def _digest(self) -> str:
        """The digest of the arguments as they are now."""
        return canonical_digest(self.arguments)

    @property
    def edited_digest(self) -> str | None:
        """The digest of the arguments where a person changed them."""
        return self._digest if self._answer.edited is not None else None

    @property
    def is_halted(self) -> bool:
        """Whether the policy ends the run because of it."""
        return self.policy_decision is not None and self.policy_decision.verdict is Verdict.HALT

    @property
    def is_given_up(self) -> bool:
        """Whether a person decided that the run fails for it."""
        return self._person_decision is not None and self._person_decision.decision == "fail"

    def call_event(self, message_id: str) -> ToolPayload:
        """Return the event of the call that is about to be made."""
        content = readable_call(self.call.name, self.arguments)
        return ToolPayload(
            call_id=self.call.id,
            name=self.call.name,
            arguments=self.arguments,
            digest=self._digest,
            effect=str(self.effect),
            attempt=self._attempts,
            content=content,
            policy=self._shown_decision(),
            message_id=message_id,
            step_id=self.id,
        )

    def _shown_decision(self) -> dict[str, Any] | None:
        """Return what the policy decided, for viewers; None where no rule says anything of it."""
        decided = self.policy_decision
        if decided is None or decided.verdict is Verdict.ALLOW or decided.rule == TOOLS_OWN:
            return None
        shown: dict[str, Any] = {"verdict": str(decided.verdict), "rule": decided.rule}
        shown |= {"reason": decided.reason} if decided.reason else {}
        return shown | ({"changed": list(self._preflight.changed)} if self._preflight.changed else {})

    def started(self, status: str = "started") -> StepStarted:
        """Return the journal's entry that has to be committed before ``run``, with what the policy decided.

        A call that may not be made has no effect class. One that a person has to approve is planned: it begins when
        its run is resumed.
        """
        return StepStarted(
            id=self.id,
            kind="tool",
            name=self.call.name,
            call_id=self.call.id,
            effect=None if self.is_settled else str(self.effect),
            arguments_digest=self._digest,
            idempotency_key=self.key,
            status="planned" if self.approval_reason is not None else status,
            decision=self.policy_decision,
            wait=self.new_wait if status == "started" else None,
        )

    def question(self, expires_ms: int) -> Question:
        """Return the question to a person: before the call, about a call whose outcome is unknown, or of the tool."""
        asked = Question(
            id=new_id("apr"),
            step_id=self.id,
            call_id=self.call.id,
            name=self.call.name,
            arguments=self.arguments,
            digest=self._digest,
            reason=stored_text(self.approval_reason or str(self._result)),
            expires_ms=expires_ms,
        )
        if self.approval_reason is None and self._asked is None:
            return asked
        assert self._tool is not None
        on_expiry, default = self._tool.on_expiry, self._tool.default
        asked = replace(asked, tool_digest=version_of(self._tool), on_expiry=on_expiry, default=default)
        if self._asked is not None:
            said = self._asked
            text, form = stored_question(said.text, said.form)
            return replace(asked, kind="input", decisions=FORM, reason=text, schema=form, state=said.state)
        if self._preflight.form is not None:
            return replace(asked, kind="arguments", decisions=FORM, schema=self._preflight.form)
        scopes, scope_s = self._preflight.scopes_of(self._tool)
        return replace(
            asked,
            kind="call",
            decisions=BEFORE,
            approvers=self._tool.approvers,
            schema={**self._tool.parameters, "description": self._tool.description},
            policy_version=self._preflight.policy_version,
            scopes=scopes,
            scope_s=scope_s,
        )

    @property
    def will_run(self) -> bool:
        """Whether ``run`` calls the tool, so that its start has to be committed before."""
        if self.is_settled or self.approval_reason is not None:
            return False
        prior = self._prior
        if prior is None or prior.status == "planned":
            return not (self._is_rejected or self._is_taken)
        if prior.status == "unknown":
            return self._person_decision is not None and self._person_decision.decision == "run_again"
        return self.effect.policy.when_lost is not Recovery.LEAVE

    @property
    def is_unbegun(self) -> bool:
        """Whether no owner has made the call, and one is to make it."""
        is_open = self._prior is not None and self._prior.status == "started"
        return self.will_run and not self.is_begun and not is_open

    @property
    def new_wait(self) -> TaskWait | None:
        """The task that this owner begins, which has to be committed before ``run``; None where there is none."""
        is_under_way = self._prior is not None and self._prior.status in UNDER_WAY and not self.is_settled
        if self.work is None or not self.work.is_new or not (self.will_run or is_under_way):
            return None
        return self.work.wait

    @property
    def is_waiting(self) -> bool:
        """Whether its task is, or may be, under way, whatever becomes of this owner."""
        return self.work is not None and self.work.is_sent and not self.is_settled

    def cut_off(self, ending: Ending) -> None:
        """Set the outcome of a call that is open when the run ends so; an outcome that is set already stays."""
        if not self.is_settled:
            is_begun = self.is_begun or (self._prior is not None and self._prior.status != "planned")
            self._set_outcome(*result_of_cut_off(str(self.effect), self._person_decision, ending, is_begun=is_begun))

    def _set_outcome(self, outcome: Outcome, result: Any, error: ModelVisible | None = None) -> None:
        """Set the outcome; where it is not known what the call has read, its text is kept back."""
        try:
            self._file_labels |= self._files.labels_read() if self._files is not None else frozenset()
        except ModelVisible as unread:
            outcome, error = "failed" if outcome == "done" else outcome, unread
            result = f"What the call returned is kept back: {unread}"
        if outcome != "done" and isinstance(result, str):  # may repeat what the other side said
            result = self._context.guardrails.text(result)
        if error is not None:  # its text is the error of a run of kind ``tool``
            error.args = (self._context.guardrails.text(str(error)),)
        self._outcome, self._result, self.error = outcome, result, error
        if self.is_begun:
            self._duration_ms = round((time.monotonic() - self._started_s) * 1000)

    def outcome(self, message_id: str) -> Commit:
        """Return the commit that ends the call: its event, its step's end, and the result for the history."""
        assert self._outcome is not None, "run() or cut_off() comes first"
        call = {"call_id": self.call.id, "name": self.call.name, "outcome": self._outcome, "result": self._result}
        facts: dict[str, Any] = {
            "attempt": self._attempts,
            "duration_ms": self._duration_ms,
            "code": self.error.code if self.error is not None else None,
        }
        event = ToolResultPayload(**call, **facts, message_id=message_id, step_id=self.id)
        ended = StepEnded(
            id=self.id, status=self._outcome, result=self._result, attempts=self._attempts, spans=self.spans
        )
        kept = call if self._answer.edited is None else call | {"edited": self.arguments}
        items = [HistoryItem(id=self._item_id, role="tool", data=kept)]
        return Commit(events=[*self._notes, event], ended=[ended], history=items, labels=self._read_labels())

    def _read_labels(self) -> frozenset[str]:
        """Return all labels of the run where the result adds one; a call that was refused has read nothing."""
        if self._tool is None or self._preflight.refusal is not None or self._outcome == "refused":
            return frozenset()
        return self._context.add_labels(self._own_labels | self._file_labels)

    @property
    def _own_labels(self) -> frozenset[str]:
        """The labels of the call's result by its tool and the policy."""
        by_policy = (
            self.policy_decision.labels
            if self.policy_decision is not None
            else self._prior.labels
            if self._prior
            else ()
        )
        return frozenset((*(self._tool.result_labels if self._tool is not None else ()), *by_policy))
