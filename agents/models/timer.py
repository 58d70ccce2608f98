"""One timer for all timeouts of a stream."""

from __future__ import annotations

import asyncio


class StreamTimer:
    """Cancels the reading task when the current deadline passes.

    ``asyncio.timeout`` around each read would start and cancel a timer per chunk. This one is started once; when it
    fires, it checks whether the deadline has moved. Moving the deadline is an assignment.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._deadline = 0.0
        self.has_rung = False
        """Whether the task was cancelled by this timer."""
        self.cancelled_before = 0
        """Pending cancellations of the task when the timer fired."""

    def watch(self, deadline: float) -> None:
        """Cancel the current task at loop time ``deadline``, unless ``rest`` is called before."""
        self._task = asyncio.current_task()
        self._deadline = deadline
        if self._handle is None or self._handle.when() > deadline:
            self._arm()

    def rest(self) -> None:
        """Suspend the deadline: the task is not waiting for the model now."""
        self._task = None

    def stop(self) -> None:
        self._task = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        self._handle = None
        if self._task is None:
            return
        if self._loop.time() < self._deadline:
            self._arm()
            return
        self.has_rung = True
        self.cancelled_before = self._task.cancelling()
        self._task.cancel()
