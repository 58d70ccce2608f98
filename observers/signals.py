"""Signals for code that only wants to connect a function.

    from observers.signals import on_end

    @on_end.connect
    def notify_the_team(agent_id, *, payload, context, agent):
        print(agent_id, payload.status, context.run_id)

``on_event`` is sent for every payload, and then the signal of its type. The sender is the agent's id:
``@on_end.connect_via("assistant")`` gets one agent only. Receivers are plain functions, called on the
signals observer's own thread in no particular order; one that raises is logged and the others are called.
They are held weakly: a function of a module stays, a lambda or a local function needs
``connect(receiver, weak=False)``. Connect before the run starts; without a connected function it costs nothing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from blinker import Signal

from bus.payloads import DELTA_TYPES, EVENT_TYPES, Payload
from observers.base import AgentFacts, AgentObserver, RunFacts

log = logging.getLogger(__name__)

on_event = Signal("Every payload of every run.")
_SIGNALS = {kind.hook: Signal(kind.__doc__) for kind in EVENT_TYPES.values()}
_OF_DELTAS = (on_event, *(_SIGNALS[kind.hook] for kind in DELTA_TYPES.values()))


def __getattr__(name: str) -> Signal:
    """Return the signal of an event type: ``on_status``, ``on_text``, ``on_end`` and the others."""
    try:
        return _SIGNALS[name]
    except KeyError:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None


class SignalsObserver(AgentObserver):
    """Sends each payload to the functions connected to its signal."""

    name: ClassVar[str] = "signals"

    def listens(self) -> bool:
        """Return whether any function is connected, and note whether one of them gets pieces of text."""
        self.wants_deltas = any(signal.receivers for signal in _OF_DELTAS)
        return self.wants_deltas or any(signal.receivers for signal in _SIGNALS.values())

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Call the connected functions, each by itself."""
        for signal in (on_event, _SIGNALS.get(payload.hook)):
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
