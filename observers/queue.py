"""The queue of one observer's payloads, and the thread that delivers them, so that no run waits for the observer."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from bus.payloads import EndPayload, Payload
from observers.base import AgentFacts, AgentObserver, RunFacts

log = logging.getLogger(__name__)

Delivery = Callable[[AgentFacts, Payload, RunFacts], None]
Item = tuple[Delivery, AgentFacts, Payload, RunFacts]

BATCH = 1000
"""Most payloads delivered between two flushes."""
YIELD_EVERY = 32
"""Payloads delivered before the thread yields the interpreter lock to the event loop."""
IDLE_S = 5.0
"""Seconds without work after which the thread ends; the next payload starts another."""
MAX_OPEN_RUNS = 100_000
"""Runs remembered as begun; runs that ended on another machine are forgotten beyond it."""


class ObserverQueue:
    """Delivers payloads to one observer, in order and in batches, on a thread that exists while there is work.

    Any thread may call ``put``; only the queue's own thread delivers. An observer that never returns costs that thread
    and a bounded number of payloads.
    """

    def __init__(self, observer: AgentObserver) -> None:
        self.observer = observer
        self.dropped = 0
        """Payloads refused since the queue was last empty."""
        self.dropped_in_all = 0
        self._waiting: deque[Item | Callable[[], None] | threading.Event] = deque()
        self._limit = max(1, observer.max_queue)
        self._open: dict[str, None] = {}
        self._idle = True
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def put(self, deliver: Delivery, agent: AgentFacts, payload: Payload, context: RunFacts) -> bool:
        """Take the payload for delivery, or drop it and return False when too much waits."""
        waiting = self._waiting
        if len(waiting) >= self._limit and not self._has_room(payload, context):
            return False
        waiting.append((deliver, agent, payload, context))
        # The thread sets _idle before its last check, and this reads it after appending: one sees the other.
        if self._idle:
            self._wake_thread()
        return True

    def call(self, work: Callable[[], None]) -> None:
        """Call ``work``, which belongs to no run and does not raise, in its turn."""
        self._waiting.append(work)
        self._wake_thread()

    def begin(self, run_id: str) -> None:
        """Remember that something of this run was taken, so that its ``end`` will be too."""
        while len(self._open) >= MAX_OPEN_RUNS:
            self._open.pop(next(iter(self._open)), None)
        self._open[run_id] = None

    def mark(self) -> threading.Event:
        """Return an event that is set when everything put so far is delivered and flushed."""
        done = threading.Event()
        self._waiting.append(done)
        self._wake_thread()
        return done

    @property
    def is_busy(self) -> bool:
        """Whether something that was put is not delivered and flushed yet."""
        return not self._idle

    def _has_room(self, payload: Payload, context: RunFacts) -> bool:
        if isinstance(payload, EndPayload):
            return context.run_id in self._open or len(self._waiting) < 2 * self._limit
        if not payload.is_delta and len(self._waiting) < 2 * self._limit:
            return True
        if not self.dropped:
            text = "observer '%s' is too slow: %d payloads wait for it, and more are dropped until it caught up"
            log.warning(text, name_of(self.observer), len(self._waiting))
        self.dropped += 1
        self.dropped_in_all += 1
        return False

    def _wake_thread(self) -> None:
        with self._lock:
            self._idle = False
            self._wake.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=f"observer-{name_of(self.observer)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread left, or the interpreter is ending
            self._idle = True
        else:
            self._thread = thread

    def _work(self) -> None:
        while self._await_work():
            # Gathered payloads cost one change of threads instead of one each.
            time.sleep(self.observer.linger_s)
            self._deliver_batch()

    def _await_work(self) -> bool:
        """Return True when something waits, or False when the thread has to end."""
        while not self._waiting:
            self._wake.clear()
            self._idle = True
            if self._waiting or self._wake.wait(IDLE_S):
                continue
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return False
        self._idle = False
        return True

    def _deliver_batch(self) -> None:
        marks: list[threading.Event] = []
        for number in range(min(len(self._waiting), BATCH)):
            item = self._waiting.popleft()
            if isinstance(item, threading.Event):
                marks.append(item)
                continue
            if not isinstance(item, tuple):
                item()
                continue
            deliver, agent, payload, context = item
            deliver(agent, payload, context)
            if isinstance(payload, EndPayload):
                self._open.pop(context.run_id, None)
            if number % YIELD_EVERY == YIELD_EVERY - 1:
                time.sleep(0.0001)
        flush(self.observer)
        if self.dropped and not self._waiting:
            log.warning("observer '%s' caught up; %d payloads were dropped", name_of(self.observer), self.dropped)
            self.dropped = 0
        for mark in marks:
            mark.set()


def flush(observer: AgentObserver) -> None:
    """Call the observer's ``flush``; an error is logged."""
    try:
        observer.flush()
    except BaseException as error:  # also SystemExit: an observer ends nothing but its own work
        log.warning("observer '%s' could not flush: %s", name_of(observer), type(error).__name__)
        log.debug("observer '%s' could not flush", name_of(observer), exc_info=error)


def name_of(observer: AgentObserver) -> str:
    """Return the observer's name for logs."""
    return observer.name or type(observer).__name__
