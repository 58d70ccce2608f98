"""One tool call of a run: checked, journaled before it happens, and its outcome told to model and viewers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agents.context import RunContext
from agents.streaming import ToolCall
from agents.tools.arguments import parse_arguments, validate_arguments
from agents.tools.executor import call_tool, check_call
from agents.tools.tool import Effect, Tool, ToolContext
from bus.journal.accept import canonical_digest
from bus.journal.approvals import UNKNOWN, Decision, Question
from bus.journal.endings import outcome_of_cut_off
from bus.journal.progress import OpenStep
from bus.journal.steps import StepEnded, StepStarted
from bus.journal.threads import HistoryItem
from bus.payloads import Outcome, ToolPayload, ToolResultPayload
from config.errors import ModelVisible, ToolCutOff, ToolTimeout, did_you_mean
from config.failpoints import failpoint
from config.ids import new_id

NEEDS_APPROVAL = (
    "Refused: this tool needs a person's approval for each call, and approvals are not available yet. Nothing was done."
)
UNFINISHED = "{} before it was finished."
UNFINISHED_UNKNOWN = "{} while it was running; it is not known whether it took effect."
GIVEN_UP = "Nobody could tell whether it took effect, and a person let the run fail."
LOST = "The worker was lost while this call was under way, and nobody can tell whether it took effect."
NEVER_MADE = "The call was not made: when the model asked for it, its tool or its arguments did not fit."
FORGOTTEN = "It did not take effect: the other side was asked and knows nothing of this call."
NOT_YET = "The other side was asked and knows nothing of this call so far, but it may still be under way."
MAX_SHOWN = 400
"""Characters of the arguments in the readable form of a call."""


@dataclass(slots=True)
class _Outcome:
    outcome: Outcome
    result: Any
    duration_ms: int | None = None


class ToolStep:
    """One call the model made, from its text to its result."""

    def __init__(
        self,
        context: RunContext,
        call: ToolCall,
        tools: Mapping[str, Tool],
        default_timeout_s: float,
        again: OpenStep | None = None,
    ) -> None:
        """``again``: the step as an earlier owner left it."""
        self.id = again.id if again else new_id("step")
        self.key = again.key if again else new_id("key")
        self.call = call
        self._context = context
        self._tool = tools.get(call.name)
        self._default_timeout_s = default_timeout_s
        self._again = again
        self._attempts = again.attempt + 1 if again else 1
        self.arguments: dict[str, Any] = {}
        self._settled: _Outcome | None = self._check(tools)
        self._started_s = 0.0
        self._repeats = 1
        self.is_begun = False
        """Whether the tool may have been called."""
        self._item_id = new_id("msg")

    def _check(self, tools: Iterable[str]) -> _Outcome | None:
        """Return why the call may not be made, or None when it may, or when a person has the word."""
        again = self._again
        try:
            self.arguments = parse_arguments(self.call.arguments_text)
            if again is not None and again.effect and not again.may_be_called:
                return None
            if self._tool is None:
                return _Outcome("failed", f"There is no tool '{self.call.name}'.{did_you_mean(self.call.name, tools)}")
            validate_arguments(self._tool, self.arguments)
        except ModelVisible as wrong:
            return _Outcome("failed", f"The call was not made: {wrong}")
        if again is not None and not again.effect:  # what did not fit then is not tried with other code
            return _Outcome("failed", NEVER_MADE)
        return _Outcome("refused", NEEDS_APPROVAL) if self._tool.confirm else None

    @property
    def effect(self) -> Effect:
        """What calling it once more would do; of a call that was written down before, what was written."""
        if self._again is not None and self._again.effect:
            return Effect(self._again.effect)
        return self._tool.effect if self._tool is not None else Effect.PURE

    @property
    def is_unknown(self) -> bool:
        """Whether nobody can tell what came of it."""
        return self._settled is not None and self._settled.outcome == "unknown"

    @property
    def is_settled(self) -> bool:
        """Whether there is an outcome to commit."""
        return self._settled is not None

    @property
    def is_asked(self) -> bool:
        """Whether a person was asked about it already, and has not answered."""
        return self._again is not None and self._again.is_asked

    @property
    def is_given_up(self) -> bool:
        """Whether a person decided that the run fails for it."""
        return self._decision is not None and self._decision.decision == "fail"

    @property
    def _decision(self) -> Decision | None:
        return self._again.decision if self._again is not None else None

    def announced(self, message_id: str) -> ToolPayload:
        """Return the event that says what is about to be called."""
        return ToolPayload(
            call_id=self.call.id, name=self.call.name, arguments=self.arguments, effect=str(self.effect),
            content=readable_call(self.call.name, self.arguments), message_id=message_id, step_id=self.id,
        )  # fmt: skip

    def started(self, status: str = "started") -> StepStarted:
        """Return the line of the journal that has to be committed before ``run``; a call that cannot be made has
        no effect."""
        is_impossible = self._settled is not None and self._settled.outcome == "failed"
        return StepStarted(
            id=self.id, kind="tool", name=self.call.name, call_id=self.call.id,
            effect=None if is_impossible else str(self.effect),
            arguments_digest=canonical_digest(self.arguments), idempotency_key=self.key, status=status,
        )  # fmt: skip

    def question(self, expires_ms: int) -> Question:
        """Return what a person is asked about a call of which nobody can tell what came of it."""
        assert self._settled is not None
        return Question(
            id=new_id("apr"), kind="unknown", step_id=self.id, call_id=self.call.id, name=self.call.name,
            arguments=self.arguments, digest=canonical_digest(self.arguments), decisions=UNKNOWN,
            reason=str(self._settled.result), expires_ms=expires_ms,
        )  # fmt: skip

    # --- making the call

    @property
    def will_run(self) -> bool:
        """Whether ``run`` calls the tool, so that this has to be written down before."""
        if self._settled is not None:
            return False
        again = self._again
        if again is None or again.status == "planned":
            return True
        if again.status == "unknown":
            return again.decision is not None and again.decision.decision == "run_again"
        return self.effect is not Effect.UNSAFE

    async def run(self) -> None:
        """Make the call and keep what came of it; a tool's error is an outcome, not an exception.

        One that an earlier owner began is made again, or looked into, or left alone, as its effect allows
        or a person decided.
        """
        if self._settled is not None:
            return
        again = self._again
        if not self.will_run:
            self._settle_untouched()
        elif again is not None and again.status == "started" and self.effect is Effect.CHECKABLE:
            await self._look_first()
        else:
            await self._call()

    def _settle_untouched(self) -> None:
        """Take over what a person said, or that nobody can tell."""
        decision = self._decision
        if decision is not None and decision.decision == "take_as_done":
            self._settle("done", decision.taken)
        else:
            self._settle("unknown", LOST)

    async def _call(self) -> None:
        assert self._tool is not None
        await self._context.require_go()
        self.is_begun, self._started_s = True, time.monotonic()
        timeout_s = self._tool.timeout_s or self._default_timeout_s
        try:
            with self._context.within(2 * timeout_s):  # it may have to wait for a thread
                failpoint("tool")
                result = await call_tool(self._tool, self.arguments, self._tool_context(), timeout_s)
                failpoint("tool-after")
            self._settle("done", result)
        except (ToolTimeout, ToolCutOff) as wrong:
            await self._without_reply(wrong, timeout_s)
        except ModelVisible as wrong:
            self._settle("failed", f"Error: {wrong}")

    async def _without_reply(self, wrong: ModelVisible, timeout_s: float) -> None:
        """Settle a call whose reply never came: it may have taken effect."""
        if self.effect in (Effect.PURE, Effect.IDEMPOTENT):
            self._settle("failed", f"Error: {wrong}")
        elif self.effect is Effect.CHECKABLE:
            await self._look(timeout_s)
            if self._is_forgotten and isinstance(wrong, ToolTimeout):  # nobody ended it: a thread cannot be
                self._settle("unknown", NOT_YET)
        elif self.effect is Effect.KEYED and self._repeats:
            self._repeats -= 1
            await self._call()  # with the same key: at most the reply is made again
        else:
            self._settle("unknown", str(wrong))

    async def _look_first(self) -> None:
        """Ask the other side whether the call an earlier owner began took effect; make it if it did not."""
        assert self._tool is not None
        timeout_s = self._tool.timeout_s or self._default_timeout_s
        await self._look(timeout_s)
        if self._is_forgotten:
            self._settled = None
            await self._call()

    @property
    def _is_forgotten(self) -> bool:
        return self._settled is not None and self._settled.result == FORGOTTEN

    async def _look(self, timeout_s: float) -> None:
        """Ask the other side whether the call took effect, and settle it with what it says."""
        assert self._tool is not None
        try:
            with self._context.within(2 * timeout_s):
                result = await check_call(self._tool, self._tool_context(), timeout_s)
        except ModelVisible as wrong:
            self._settle("unknown", f"Whether it took effect could not be found out: {wrong}")
            return
        if result is None:
            self._settle("failed", FORGOTTEN)
        else:
            self._settle("done", result)

    def interrupt(self, by: str) -> None:
        """Settle a call that the run's end cut off; what was settled stays as it is. ``by`` begins a sentence."""
        if self._settled is not None:
            return
        if self._decision is not None and self._decision.decision == "take_as_done":
            self._settle_untouched()
            return
        was_begun = self.is_begun or (self._again is not None and self._again.status != "planned")
        outcome = outcome_of_cut_off(str(self.effect), is_begun=was_begun)
        if self.is_given_up:
            self._settle("unknown", GIVEN_UP)
        else:
            self._settle(outcome, (UNFINISHED if outcome == "failed" else UNFINISHED_UNKNOWN).format(by))

    def _settle(self, outcome: Outcome, result: Any) -> None:
        duration_ms = round((time.monotonic() - self._started_s) * 1000) if self.is_begun else None
        self._settled = _Outcome(outcome, result, duration_ms)

    def _tool_context(self) -> ToolContext:
        lease = self._context.lease
        return ToolContext(
            run_id=lease.run_id, thread_id=lease.thread_id, call_id=self.call.id, idempotency_key=self.key,
            tenant=lease.tenant, principal=lease.principal, sandbox=self._context.sandbox,
        )  # fmt: skip

    # --- what came of it

    def told(self, message_id: str) -> ToolResultPayload:
        """Return the event of the outcome."""
        settled = self._result()
        return ToolResultPayload(
            call_id=self.call.id, name=self.call.name, outcome=settled.outcome, result=settled.result,
            duration_ms=settled.duration_ms, message_id=message_id, step_id=self.id,
        )  # fmt: skip

    def ended(self) -> StepEnded:
        """Return the journal's line of the outcome."""
        settled = self._result()
        return StepEnded(id=self.id, status=settled.outcome, result=settled.result, attempts=self._attempts)

    def remembered(self) -> HistoryItem:
        """Return the outcome as the model will be shown it."""
        settled = self._result()
        data = {
            "call_id": self.call.id, "name": self.call.name, "outcome": settled.outcome, "result": settled.result,
        }  # fmt: skip
        return HistoryItem(id=self._item_id, role="tool", data=data)

    def _result(self) -> _Outcome:
        assert self._settled is not None, "run() or interrupt() comes first"
        return self._settled


def readable_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as a person reads it: ``calculator(expression="17 * 23")``."""
    shown = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in arguments.items())
    return f"{name}({shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + '…'})"
