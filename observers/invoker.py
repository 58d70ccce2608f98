"""Delivers a run's payloads to its observers; none of them can disturb the run or another observer."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable
from weakref import WeakSet

from bus.payloads import EndPayload, Payload
from config.forks import after_fork
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.queue import ObserverQueue, name_of

log = logging.getLogger(__name__)

MAX_FAILURES = 20
"""Failures in a row after which an observer gets only the end of the run."""
SLOW_S = 0.005
"""Seconds an inline call may take; three slower ones move the observer behind a queue."""
MAX_SLOW_SCORE = 3
QUICK_CREDIT = 0.1
"""What one quick call takes off the slow score: only an observer with over a tenth of slow calls is moved, not one
that a busy machine interrupts now and then."""


class ObserverInvoker:
    """Delivers every payload of one run to its observers, in order."""

    def __init__(self, observers: Iterable[AgentObserver], *, clock: Callable[[], float] = time.perf_counter) -> None:
        bindings = [_ObserverBinding(observer, clock) for observer in observers if _is_listening(observer)]
        self._all = tuple(bindings)
        self._eager = tuple(binding for binding in bindings if binding.observer.wants_deltas)

    def agent_on_response(self, context: RunFacts, agent: AgentFacts, payload: Payload) -> None:
        """Deliver the payload, to inline observers now and to the others soon; no failure of theirs is raised here."""
        for binding in self._eager if payload.is_delta else self._all:
            binding.take(agent, payload, context)


class _ObserverBinding:
    """One observer in one run: how payloads reach it, and how often it failed."""

    __slots__ = "_clock _failures _is_open _on_response _queue _slow_score _warned observer take".split()

    def __init__(self, observer: AgentObserver, clock: Callable[[], float]) -> None:
        self.observer = observer
        self.take = self._take_queued
        if observer.inline:
            self.take = self._deliver if observer.pinned else self._take_inline
        self._on_response = observer.on_response
        self._queue = queue_of(observer)
        self._clock = clock
        self._failures = 0
        self._slow_score = 0.0
        self._warned = False
        self._is_open = False

    def _take_queued(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        if self._queue.put(self._deliver, agent, payload, context) and not self._is_open:
            self._is_open = True
            self._queue.begin(context.run_id)

    def _take_inline(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        if not self.observer.inline:  # moved meanwhile, perhaps by another run
            self.take = self._take_queued
            return self._take_queued(agent, payload, context)
        clock = self._clock
        started = clock()
        if self._failures:
            self._deliver(agent, payload, context)
        else:  # the same without another call: this runs for every chunk, on the loop
            try:
                self._on_response(agent, payload, context)
            except BaseException as error:
                self._failed(error, context)
        if clock() - started > SLOW_S:
            self._count_slow_call()
        elif self._slow_score:
            self._slow_score = max(0.0, self._slow_score - QUICK_CREDIT)

    def _deliver(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        if self._failures >= MAX_FAILURES and not isinstance(payload, EndPayload):
            return
        try:
            self._on_response(agent, payload, context)
        except BaseException as error:  # also SystemExit and CancelledError: they would end the run
            self._failed(error, context)
        else:
            if self._failures:
                self._failures = 0

    def _failed(self, error: BaseException, context: RunFacts) -> None:
        """Count and log a failure; only Ctrl-C is raised again."""
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error
        self._failures += 1
        name, trace = name_of(self.observer), {"trace_id": context.trace_id}
        if not self._warned:
            self._warned = True
            # The error's text may hold what people wrote to the agent, so only its class is logged here.
            log.warning("observer '%s' raised %s in run %s", name, type(error).__name__, context.run_id, extra=trace)
            log.debug("observer '%s' raised in run %s", name, context.run_id, exc_info=error, extra=trace)
        if self._failures == MAX_FAILURES:
            text = "observer '%s' failed %d times in a row and is left out until the end of run %s"
            log.warning(text, name, MAX_FAILURES, context.run_id, extra=trace)

    def _count_slow_call(self) -> None:
        self._slow_score += 1
        if self._slow_score < MAX_SLOW_SCORE:
            return
        # On the instance, so that every run of this process sees it, now and later.
        vars(self.observer)["inline"] = False
        text = (
            "observer '%s' took over %g ms on the event loop %d times; it is called behind a queue from now on. "
            "Take `inline = True` out of its class."
        )
        log.warning(text, name_of(self.observer), SLOW_S * 1000, MAX_SLOW_SCORE)


def _is_listening(observer: AgentObserver) -> bool:
    try:
        return observer.listens()
    except Exception as error:
        log.warning("observer '%s' raised %s when asked whether it listens", name_of(observer), type(error).__name__)
        return True


# --- the queues of this process -------------------------------------------------------------------

_queues: WeakSet[ObserverQueue] = WeakSet()
"""The queues of this process's observers; each lives as long as its observer, which holds it."""
_lock = threading.Lock()
_is_drained_at_exit = False


def queue_of(observer: AgentObserver) -> ObserverQueue:
    """Return the process's one queue of this observer."""
    global _is_drained_at_exit
    with _lock:
        if not _is_drained_at_exit:
            _is_drained_at_exit = True
            atexit.register(drain, 2.0)
        queue: ObserverQueue | None = vars(observer).get("_callboard_queue")
        if queue is None or queue not in _queues:  # none yet, or the one of the process we were forked from
            queue = vars(observer)["_callboard_queue"] = ObserverQueue(observer)
            _queues.add(queue)
        return queue


def dropped_payloads() -> dict[str, int]:
    """Return how many payloads this process has dropped for each observer that was too slow."""
    with _lock:
        queues = [queue for queue in _queues if queue.dropped_in_all]
    return {name_of(queue.observer): queue.dropped_in_all for queue in queues}


def drain(timeout_s: float = 5.0, *, idle_too: bool = True) -> list[str]:
    """Deliver and flush what was queued so far; return the names of observers that took over ``timeout_s``.

    Called when a worker shuts down, after its last run, and once more when the interpreter ends. Every observer, also
    an inline one, is flushed on its queue's thread. Without ``idle_too`` observers for which nothing is queued are left
    alone, so that it takes no time where nothing is to be done.
    """
    deadline = time.monotonic() + timeout_s
    with _lock:
        queues = [queue for queue in _queues if idle_too or queue.is_busy]
    marks = [(queue, queue.mark()) for queue in queues]
    late = [name_of(queue.observer) for queue, mark in marks if not mark.wait(max(0.0, deadline - time.monotonic()))]
    for name in late:
        log.warning("observer '%s' did not take everything within %g s", name, timeout_s)
    return late


@after_fork
def forget() -> None:
    """Start with no queues, as in a forked child, where no thread of the parent runs."""
    global _lock, _queues
    _lock = threading.Lock()
    _queues = WeakSet()
