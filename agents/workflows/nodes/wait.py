"""WAIT: a node that ends with a signal, or after a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import orjson

from agents.errors import EXPRESSION_FAILED, SIGNAL_MISSED
from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.node_call import NodeCall, NodeFailed, error_value
from agents.workflows.calls.scope import NodeOutput
from bus.journal.owner import Commit, ControlRequest, Ending, StepEnded
from config.expressions.references import kind_of

MAX_WAIT_S = 10 * 366 * 86_400
"""Seconds that a WAIT lasts at most, where data say for how long."""
IN_PLACE_S = 1.0
"""Seconds that a run stays with its worker for a time; a shorter wait costs no release and no second claim."""


@dataclass(frozen=True, slots=True)
class OpenNode:
    """The open step of a node that waits, or that an earlier owner left open until its node is carried out again."""

    step_id: str
    what: str = ""
    """For what it waits, as a part of a sentence; empty of a node whose inner nodes wait."""

    def cut_off(self, ending: Ending) -> Commit:
        """Return the commit that ends it with the run."""
        return Commit(ended=[StepEnded(id=self.step_id, status=ending.step_status)])


class WaitNode(Handler):
    """Takes its signal whenever that came, also before; each signal is taken once."""

    async def run(self, call: NodeCall) -> NodeOutput | None:
        name, seconds = signal_name(call), self._seconds(call)
        command = f"./callboard signal {call.executor.context.lease.run_id} {name}{_data(call)}"
        what = f"for the signal '{name}' (`{command}`)" if name is not None else f"for {seconds:g} s"
        step_id, over_s = await self._begun(call, name, seconds, what)
        call.executor.open[call.path] = OpenNode(step_id, what)
        while True:
            request = call.executor.signal(name) if name is not None else None
            left_s = None if over_s is None else over_s - time.monotonic()
            if request is not None or (left_s is not None and left_s <= 0):
                call.executor.open.pop(call.path)
                return self._over(call, step_id, request, seconds)
            is_short = left_s is not None and left_s <= IN_PLACE_S
            if not await self._news(call, left_s, is_short=is_short):
                return None

    async def _begun(
        self, call: NodeCall, name: str | None, seconds: float | None, what: str
    ) -> tuple[str, float | None]:
        """Return the node's step, and until when it waits (monotonic); its start is committed."""
        if call.prior is not None:
            terms = orjson.loads(call.prior.step.arguments_text or "{}")
            left_ms = call.prior.left_ms or 0  # a timer that is gone has fired
            return call.prior.step.id, None if terms.get("seconds") is None else time.monotonic() + left_ms / 1000
        timer_ms = None if seconds is None else round(seconds * 1000)
        terms = {"signal": name, "seconds": seconds}
        started = call.step("wait", terms, input=terms, timer_ms=timer_ms)
        event = call.event("waiting", step_id=started.id, content=f"Waits {what}.")
        call.executor.context.spending.begin(1)
        call.executor.ledger.add(Commit(events=[event], started=[started]))
        await call.executor.ledger.flush()
        return started.id, None if seconds is None else time.monotonic() + seconds

    def _seconds(self, call: NodeCall) -> float | None:
        seconds = call.settings.seconds
        if seconds is None:
            return call.node.timeout_s
        value = rendered(call, seconds) if isinstance(seconds, str) else seconds
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_WAIT_S:
            excerpt = value if isinstance(value, int | float) else kind_of(value)
            problem = f"`seconds` has to be a number from 0 to {MAX_WAIT_S:,}, and is {excerpt}."
            raise EXPRESSION_FAILED(node=call.node.id, problem=problem)
        return float(value)

    async def _news(self, call: NodeCall, left_s: float | None, *, is_short: bool) -> bool:
        """Return whether there is something to look at; False once the run is to wait without this process."""
        executor = call.executor
        if not is_short:
            return bool(await executor.next_signal(left_s))
        executor.activity.begin()  # stays with the run
        try:
            return bool(await executor.next_signal(left_s))
        finally:
            executor.activity.end()

    def _over(self, call: NodeCall, step_id: str, request: ControlRequest | None, seconds: float | None) -> NodeOutput:
        """Return the outcome: the signal's data; none after a time.

        Raises:
            NodeFailed: the signal has not come in its time.
        """
        ended = StepEnded(id=step_id, status="done")
        if request is not None:
            call.change = Commit(events=[request.answer("consumed")], ended=[ended])
            return NodeOutput(value=request.data.get("data"), labels=frozenset(request.data.get("labels", ())))
        if call.settings.signal is not None and call.settings.seconds is None:
            error = SIGNAL_MISSED(node=call.node.id, seconds=seconds or 0, signal=signal_name(call))
            failed = StepEnded(id=step_id, status="failed", result=error_value(error))
            raise NodeFailed(error, Commit(ended=[failed]))
        call.change = Commit(ended=[ended])
        return NodeOutput()

    def read(self, call: NodeCall, result: Any) -> NodeOutput:
        return NodeOutput(value=result)


def _data(call: NodeCall) -> str:
    """Return what the command has behind the signal's name where the data have a schema: JSON, to be filled in."""
    form = call.settings.form or {}
    fields = ", ".join(f'"{name}": ...' for name in form.get("properties") or form.get("required") or ())
    return f" '{{{fields}}}'" if form else ""


def signal_name(call: NodeCall) -> str | None:
    """Return the name of the signal that a node waits for; inside of a FOR_EACH with the indices of its items."""
    signal: str | None = call.settings.signal
    indices = [str(part) for part in call.state.path if isinstance(part, int)]
    return None if signal is None else "-".join([signal, *indices])
