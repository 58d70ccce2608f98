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
from agents.tools.executor import call_tool
from agents.tools.tool import Effect, Tool, ToolContext
from bus.journal.accept import canonical_digest
from bus.journal.steps import StepEnded, StepStarted
from bus.journal.threads import HistoryItem
from bus.payloads import Outcome, ToolPayload, ToolResultPayload
from config.errors import ModelVisible, ToolTimeout, did_you_mean
from config.ids import new_id

NEEDS_APPROVAL = (
    "Refused: this tool needs a person's approval for each call, and approvals are not available yet. Nothing was done."
)
STOPPED = "Stopped by the user before it was finished."
STOPPED_UNKNOWN = "Stopped by the user while it was running; it is not known whether it took effect."
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
        self, context: RunContext, call: ToolCall, tools: Mapping[str, Tool], default_timeout_s: float
    ) -> None:
        self.id = new_id("step")
        self.key = new_id("key")
        self.call = call
        self._context = context
        self._tool = tools.get(call.name)
        self._default_timeout_s = default_timeout_s
        self.arguments: dict[str, Any] = {}
        self._settled: _Outcome | None = self._check(tools)
        self._started_s = 0.0
        self._is_begun = False
        self._item_id = new_id("msg")

    def _check(self, tools: Iterable[str]) -> _Outcome | None:
        """Return why the call may not be made, or None when it may."""
        try:
            self.arguments = parse_arguments(self.call.arguments_text)
            if self._tool is None:
                return _Outcome("failed", f"There is no tool '{self.call.name}'.{did_you_mean(self.call.name, tools)}")
            validate_arguments(self._tool, self.arguments)
        except ModelVisible as wrong:
            return _Outcome("failed", f"The call was not made: {wrong}")
        return _Outcome("refused", NEEDS_APPROVAL) if self._tool.confirm else None

    @property
    def effect(self) -> Effect:
        """What calling it once more would do."""
        return self._tool.effect if self._tool is not None else Effect.PURE

    def announced(self, message_id: str) -> ToolPayload:
        """Return the event that says what is about to be called."""
        return ToolPayload(
            call_id=self.call.id, name=self.call.name, arguments=self.arguments, effect=str(self.effect),
            content=readable_call(self.call.name, self.arguments), message_id=message_id, step_id=self.id,
        )  # fmt: skip

    def started(self) -> StepStarted:
        """Return the line of the journal that has to be committed before ``run``."""
        return StepStarted(
            id=self.id, kind="tool", name=self.call.name, call_id=self.call.id, effect=str(self.effect),
            arguments_digest=canonical_digest(self.arguments), idempotency_key=self.key,
        )  # fmt: skip

    async def run(self) -> None:
        """Make the call and keep what came of it; a tool's error is an outcome, not an exception."""
        if self._settled is not None:
            return
        assert self._tool is not None
        self._is_begun, self._started_s = True, time.monotonic()
        timeout_s = self._tool.timeout_s or self._default_timeout_s
        try:
            result = await call_tool(self._tool, self.arguments, self._tool_context(), timeout_s)
            self._settle("done", result)
        except ToolTimeout as wrong:
            harmless = self.effect in (Effect.PURE, Effect.IDEMPOTENT)
            self._settle("failed" if harmless else "unknown", str(wrong))
        except ModelVisible as wrong:
            self._settle("failed", f"Error: {wrong}")

    def interrupt(self) -> None:
        """Settle a call that the run's stop cut off; what was settled stays as it is."""
        if self._settled is not None:
            return
        maybe_done = self._is_begun and self.effect not in (Effect.PURE, Effect.IDEMPOTENT)
        self._settle("unknown" if maybe_done else "failed", STOPPED_UNKNOWN if maybe_done else STOPPED)

    def _settle(self, outcome: Outcome, result: Any) -> None:
        duration_ms = round((time.monotonic() - self._started_s) * 1000) if self._is_begun else None
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
        return StepEnded(id=self.id, status=settled.outcome, result=settled.result)

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
