"""Signals for code that only wants to connect a function.

    from observers.signals import on_end

    @on_end.connect
    def tell_the_team(agent_id, *, payload, context, agent):
        print(agent_id, payload.status, context.run_id)

``on_event`` is sent for every payload, and then the signal of its type. The sender is the agent's id:
``@on_end.connect_via("assistant")`` hears one agent only. Receivers are plain functions, called on the
signals observer's own thread in no particular order; one that raises is logged and the others are called.
They are held weakly: a function of a module stays, a lambda or a local function needs
``connect(receiver, weak=False)``. Connect before the run starts; while nobody is connected it costs nothing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from blinker import Signal

from bus.payloads import Payload
from observers.base import AgentFacts, AgentObserver, RunFacts

log = logging.getLogger(__name__)

on_event = Signal("Every payload of every run.")
on_status = Signal("The run's state changed.")
on_text = Signal("A piece of the answer, many times a second.")
on_reasoning = Signal("A piece of thinking, many times a second.")
on_tool = Signal("A tool call: first perhaps its name alone, then once with its arguments.")
on_tool_result = Signal("The outcome of a tool call.")
on_approval = Signal("A question to a person, or its answer.")
on_message = Signal("A whole message.")
on_child = Signal("A child run's state changed.")
on_withdrawn = Signal("What the payload names has to be dropped.")
on_error = Signal("An error; the run may go on.")
on_end = Signal("The last event of a run.")

_BY_TYPE = {
    "status": on_status,
    "response": on_text,
    "reasoning": on_reasoning,
    "tool": on_tool,
    "tool_result": on_tool_result,
    "approval": on_approval,
    "message": on_message,
    "child": on_child,
    "withdrawn": on_withdrawn,
    "error": on_error,
    "end": on_end,
}
_OF_DELTAS = (on_event, on_text, on_reasoning, on_tool)


class SignalsObserver(AgentObserver):
    """Sends each payload to the functions connected to its signal."""

    name: ClassVar[str] = "signals"

    def listens(self) -> bool:
        """Return whether any function is connected, and note whether one of them hears pieces of text."""
        self.wants_deltas = any(signal.receivers for signal in _OF_DELTAS)
        return self.wants_deltas or any(signal.receivers for signal in _BY_TYPE.values())

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Call the connected functions, each by itself."""
        for signal in (on_event, _BY_TYPE.get(payload.type)):
            if signal is not None and signal.receivers:
                # Not send(): it stops at the first receiver that raises.
                for receiver in signal.receivers_for(agent.id):
                    _call(receiver, agent, payload, context)


def _call(receiver: Callable[..., Any], agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
    try:
        result = receiver(agent.id, agent=agent, payload=payload, context=context)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("a receiver has to be a plain function; a coroutine is never awaited here")
    except BaseException as error:  # also SystemExit: the other receivers are called
        name = getattr(receiver, "__qualname__", type(receiver).__name__)
        log.warning("signal receiver '%s' raised %s in run %s", name, type(error).__name__, context.run_id)
        log.debug("signal receiver '%s' raised in run %s", name, context.run_id, exc_info=error)
