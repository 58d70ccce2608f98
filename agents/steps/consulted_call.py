"""One tool call before and after which the remote governance engine is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.errors import PolicyRefused
from agents.governance.engine.governance import GovernedCall, combined
from agents.steps.preflight import version_of
from agents.steps.recorded_call import UNDER_WAY, RecordedCall
from agents.tool_errors import ArgumentsInvalid, CallBlocked
from agents.tools.arguments import validate_arguments
from agents.tools.execution.large_text import chars_of, in_thread_if_large
from agents.tools.results import validate_output
from bus.journal import (
    USED_UP,
    canonical_digest,
)
from bus.payloads import Payload
from config.errors import ModelVisible
from config.policy_decision import PolicyDecision, Verdict

LOST = "The worker was lost while this call was under way, and it is not known whether it took effect."


class ConsultedCall(RecordedCall):
    """A tool call about which the remote governance engine decides too, where the operator names one."""

    async def ask_engine(self) -> Sequence[Payload]:
        """Ask the governance engine about a call that may be made, and adopt what it decides if that is stricter.

        Returns the events to be committed with that. To be called before the start is committed, or, where the claim
        has committed it, before ``run``.
        """
        governance = self._context.governance
        if governance is None or self.is_settled or self.is_halted or self.needs_form or self._was_asked_about:
            return ()
        judged = await governance.before(self._governed)
        self._adopt(judged.decision, await self._misfit(judged.decision.arguments))
        return judged.notes

    async def _misfit(self, arguments: Mapping[str, Any] | None) -> ArgumentsInvalid | None:
        """Return why the engine's arguments do not fit the tool; None where they do, or it changed none."""
        if arguments is None or self._tool is None:
            return None
        try:
            await in_thread_if_large(chars_of(arguments), validate_arguments, self._tool, dict(arguments))
        except ArgumentsInvalid as error:
            return error
        return None

    @property
    def _was_asked_about(self) -> bool:
        """Whether its task is under way, and the engine was asked before it was sent."""
        prior = self._prior
        return self.work is not None and prior is not None and prior.status in UNDER_WAY and bool(prior.remote)

    @property
    def _governed(self) -> GovernedCall:
        return GovernedCall(
            step_id=self.id,
            call_id=self.call.id,
            point="tool",
            name=self.call.name,
            identity=self._tool.identity if self._tool is not None else "",
            arguments=self.arguments,
            effect=self.effect,
            leaves=self._tool is None or self._tool.leaves,
            attempt=self._attempts,
        )

    def _adopt(self, remote: PolicyDecision, misfit: ArgumentsInvalid | None) -> None:
        """Make the stricter of both decisions the call's; what a person approved is not changed any more.

        ``misfit``: why the engine's arguments do not fit the tool.
        """
        assert self._tool is not None
        is_approved = self._is_approved
        self.policy_decision = combined(self.policy_decision, remote)
        if remote.verdict not in (Verdict.ALLOW, Verdict.CONSTRAIN):
            self.policy_decision = replace(
                self.policy_decision, approved=None
            )  # by the sticky approval alone it is not made
        if self._prior is not None and self._prior.remote and self._prior.constrained is not None:
            self.policy_decision = replace(self.policy_decision, arguments=dict(self.arguments))
        if remote.arguments is not None:
            if is_approved:
                self._refuse("the governance engine changed the arguments that a person has approved.")
                return
            self.arguments = dict(remote.arguments)
            if misfit is not None:
                self._refuse(f"the governance engine rewrote the arguments, and they do not fit: {misfit}")
                return
        if remote.verdict is Verdict.BLOCK:
            self._refuse(f"the policy's rule '{remote.rule}' blocks it. {remote.reason}")
        elif remote.verdict is Verdict.REQUIRE_APPROVAL and not is_approved:
            self.approval_reason = remote.reason or f"The policy's rule '{remote.rule}' requires a person's approval."

    @property
    def _is_approved(self) -> bool:
        """Whether a person has approved exactly this call."""
        answer = self._answer
        if self._tool is None or answer.decision is None or answer.decision.decision not in USED_UP:
            return False
        return answer.digest == canonical_digest(self.arguments) and answer.tool_digest == version_of(self._tool)

    def _refuse(self, problem: str) -> None:
        """Refuse the call; if an earlier owner began it, its outcome may be unknown."""
        was_begun = self._prior is not None and self._prior.status == "started"
        if was_begun and self.effect.policy.is_unknown_when_cut_off:
            self._set_outcome("unknown", f"{LOST} It was not made again: {problem}")
        else:
            self._set_outcome("refused", f"Not done: {problem}", CallBlocked(f"Not done: {problem}"))

    async def _report_to_engine(self) -> None:
        """Send the engine what was done; its answer may keep the result back, change it, or end the run.

        Raises:
            PolicyRefused: the engine ends the run.
        """
        governance = self._context.governance
        if governance is None or self._outcome is None:
            return
        judged = await governance.after(
            self._governed,
            status="completed" if self._outcome == "done" else self._outcome,
            output=self._result,
            duration_ms=self._duration_ms,
            spans=self.spans,
        )
        self._notes += judged.notes
        decision = judged.decision
        if decision.verdict is Verdict.HALT:
            raise PolicyRefused(rule=decision.rule, reason=decision.reason)
        if self.is_unknown:
            return
        if decision.verdict in (Verdict.BLOCK, Verdict.REQUIRE_APPROVAL):
            problem = f"The call was made, and its result is kept back: {decision.reason or decision.rule}"
            self._set_outcome("failed", problem, CallBlocked(problem))
        elif judged.is_output_changed:
            await self._replace_result(judged.output)

    async def _replace_result(self, result: Any) -> None:
        """Make the engine's result the call's, if it conforms to the tool's schema; else the result is kept back."""
        assert self._tool is not None
        try:
            if self._outcome == "done":
                await in_thread_if_large(chars_of(result), validate_output, self._tool, result)
            self._result = result
        except ModelVisible as error:
            problem = "The call was made, and its result is kept back: the governance engine changed it, and"
            self._set_outcome("failed", f"{problem} {error}", error)
