"""One tool call of a run, whichever caller asks for it: decided about, recorded, made, and its outcome committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agents.context import RunContext
from agents.errors import CALL_REJECTED
from agents.models.streams.tool_calls import ToolCall
from agents.steps.call_record import CallDecision, CallOutcome
from agents.steps.call_work import CallWork
from agents.steps.governed import LOST, accepted_end, judge_result
from agents.steps.stages import decide, decide_remotely, request_of
from agents.tools.tool import Tool
from bus.journal.approvals import Question
from bus.journal.owner import Commit, Ending, OpenStep, StepStarted, TaskWait, result_of_cut_off
from bus.payloads import Payload, ToolPayload
from config.effects import Recovery
from config.errors import ModelVisible


class ToolStep:
    """One tool call, from its text to its result; every call of every tool is made here.

    Before the call it passes the stages (``agents.steps.stages``), and its start is committed together with what was
    decided. After it its result is validated and redacted, and committed.
    """

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
        """``prior``: the step as an earlier owner left it. ``asks_missing``: whether a person is asked for required
        arguments that the call lacks.
        """
        self._context = context
        request = request_of(context, call, tools, prior, asks_missing=asks_missing)
        self.decision: CallDecision = decide(request)
        """What the stages have decided so far."""
        self.record = request.record
        if prior is None and self.decision.key is not None:
            self.record = replace(self.record, key=self.decision.key)
        self._request = replace(request, record=self.record)
        self.work = CallWork(context, self.record, _limit_s(self.record.tool, self.decision, default_timeout_s))
        self._end_if_settled()

    def _end_if_settled(self) -> None:
        """Set the outcome of a call that was refused, or whose outcome an earlier run has recorded."""
        if self.decision.refusal is not None:
            self.work.set_outcome(*self.decision.refusal)
        elif self.decision.recorded is not None:
            self.work.take(self.decision.recorded)

    # --- its state

    @property
    def id(self) -> str:
        """Its step's id."""
        return self.record.id

    @property
    def is_settled(self) -> bool:
        """Whether there is an outcome to commit."""
        return self.work.end is not None

    @property
    def is_unknown(self) -> bool:
        """Whether its outcome is unknown."""
        return self.work.end is not None and self.work.end.outcome == "unknown"

    @property
    def needs_form(self) -> bool:
        """Whether a person has to fill in a form before it is made, or made again."""
        return self.work.asks is not None or self.decision.form is not None

    @property
    def will_run(self) -> bool:
        """Whether ``run`` calls the tool, so that its start has to be committed before."""
        record = self.record
        if self.is_settled or self.decision.approval_reason is not None:
            return False
        if record.is_planned:
            return not (record.is_answered("reject") or record.is_answered("take_as_done"))
        if record.prior is not None and record.prior.status == "unknown":
            return record.is_answered("run_again")
        return record.effect.policy.when_lost is not Recovery.LEAVE

    @property
    def is_unbegun(self) -> bool:
        """Whether no owner has made the call, and one is to make it."""
        return self.will_run and not self.work.is_begun and not self.record.is_open

    @property
    def new_wait(self) -> TaskWait | None:
        """The task that this owner begins, which has to be committed before ``run``; None where there is none."""
        task, is_under_way = self.work.task, self.record.is_under_way and not self.is_settled
        if task is None or not task.is_new or not (self.will_run or is_under_way):
            return None
        return task.wait

    @property
    def is_waiting(self) -> bool:
        """Whether its task or its child is, or may be, under way, whatever becomes of this owner."""
        task, child = self.work.task, self.work.child
        is_sent = (task is not None and task.is_sent) or (child is not None and child.is_begun)
        return is_sent and not self.is_settled

    @property
    def wait(self) -> TaskWait | None:
        """The wait for its task; None where it has none."""
        return self.work.task.wait if self.work.task is not None else None

    @property
    def sticky_id(self) -> str | None:
        """The sticky approval by which it begins."""
        return self.decision.sticky.id if self.decision.sticky is not None and self.will_run else None

    # --- what is committed

    def call_event(self, message_id: str) -> ToolPayload:
        """Return the event of the call that is about to be made."""
        return self.record.call_event(self.decision, message_id)

    def started(self, status: str = "started") -> StepStarted:
        """Return the journal's entry that has to be committed before ``run``, with what was decided."""
        return self.record.started(self.decision, status, self.new_wait)

    def question(self, expires_ms: int) -> Question:
        """Return the question to a person: before the call, about a call whose outcome is unknown, or of the tool."""
        result = self.work.end.result if self.work.end is not None else None
        return self.record.question(self.decision, expires_ms, asks=self.work.asks, result=result)

    def outcome(self, message_id: str) -> Commit:
        """Return the commit that ends the call: its event, its step's end, and the result for the history."""
        end = self.work.end
        assert end is not None, "run() or cut_off() comes first"
        spans, labels = self.work.spans, self._labels_read(end)
        return self.record.ended(self.decision, end, message_id, spans=spans, labels=labels)

    def _labels_read(self, end: CallOutcome) -> frozenset[str]:
        """Return all labels of the run where the result adds one; a call that was refused has read nothing."""
        refusal = self.decision.refusal
        is_refused = end.outcome == "refused" or (refusal is not None and refusal.outcome != "unknown")
        if self.record.tool is None or is_refused:
            return frozenset()
        return self._context.add_labels(self.record.labels(self.decision) | end.labels)

    # --- what is done

    async def ask_engine(self) -> Sequence[Payload]:
        """Pass the stages that wait for another machine, and return the events to be committed with the decision.

        To be called before the start is committed, or, where the claim has committed it, before ``run``.
        """
        if self.is_settled:
            return ()
        self.decision = await decide_remotely(self._request, self.decision)
        self._end_if_settled()
        return self.decision.notes

    async def run(self) -> None:
        """Make the call and keep its outcome; a tool's error is an outcome, not an exception.

        An earlier owner's open call is made again, checked or left unknown, by its effect's policy or a person's
        decision. A call that a person has to approve first is left as it is.
        """
        record, work = self.record, self.work
        if self.decision.approval_reason is not None:
            return
        if work.task is not None and not self.is_settled and record.is_under_way:
            await work.resume_task(work.task, self.decision)
            await self._report_to_engine()
        elif work.child is not None and not self.is_settled and record.is_under_way:
            await work.resume_child(work.child, self.decision)
            await self._report_to_engine()
        elif self.will_run:
            is_checked = record.is_open and record.effect.policy.when_lost is Recovery.CHECK
            if not is_checked or await work.took_no_effect(self.decision):
                await work.call(self.decision)
            await self._report_to_engine()
        elif not self.is_settled:
            self._settle_by_answer()

    def _settle_by_answer(self) -> None:
        """Set the outcome of a call that is not made: as a person decided, else it is unknown."""
        answer = self.record.answer.decision
        if answer is not None and answer.decision == "take_as_done":
            self.work.set_outcome("done", answer.taken)
        elif answer is not None and answer.decision == "reject":
            self.work.set_outcome("refused", answer.refusal, CALL_REJECTED(answer.refusal))
        else:
            self.work.set_outcome("unknown", LOST)

    async def _report_to_engine(self) -> None:
        """Send the engine what was done; its answer may keep the result back, change it, or end the run.

        Raises:
            POLICY_REFUSED: the engine ends the run.
        """
        governance, work = self._context.governance, self.work
        if governance is None or work.end is None:
            return
        judged = await judge_result(governance, self.record, self.decision, work.end, work.spans)
        work.end = replace(work.end, notes=[*work.end.notes, *judged.notes])
        accepted = await accepted_end(self.record, work.end, judged)
        if isinstance(accepted, CallOutcome):
            work.end = accepted
        else:
            work.set_outcome(*accepted)

    def refuse(self, error: ModelVisible) -> None:
        """Set that the call is not made, before its start is committed."""
        self.decision = self.decision.refused(error)
        self._end_if_settled()

    def cut_off(self, ending: Ending) -> None:
        """Set the outcome of a call that is open when the run ends so; an outcome that is set already stays."""
        if not self.is_settled:
            record, is_begun = self.record, self.work.is_begun or not self.record.is_planned
            effect, answer = str(record.effect), record.answer.decision
            self.work.set_outcome(*result_of_cut_off(effect, answer, ending, is_begun=is_begun))


def _limit_s(tool: Tool | None, decision: CallDecision, default_s: float) -> float:
    """Return the seconds that a call may take: the tool's, the agent's, or fewer where the policy says so."""
    limit_s = (tool.timeout_s if tool is not None else None) or default_s
    judged = decision.policy_decision
    return limit_s if judged is None or judged.timeout_s is None else min(limit_s, judged.timeout_s)
