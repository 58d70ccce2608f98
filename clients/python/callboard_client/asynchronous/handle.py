"""A handle on a run: follow its events, wait for its end, answer its questions, stop it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from callboard_client import calls
from callboard_client.asynchronous.transport import AsyncTransport
from callboard_client.events import EndEvent, Event
from callboard_client.records import Approval, Decided


class AsyncRunHandle:
    """An accepted run. Handles are cheap; another one on the same run is ``callboard.handle(run_id)``."""

    def __init__(self, transport: AsyncTransport, run_id: str, thread_id: str) -> None:
        self._transport = transport
        self.run_id = run_id
        self.thread_id = thread_id
        self._seen = 0
        self._end: EndEvent | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run_id!r})"

    def events(self, after: int = 0) -> AsyncGenerator[Event]:
        """Yield the run's events with numbers above ``after``, in order, as they happen, up to its ``end``.

        Lost connections and restarts of the server are resumed: each event is yielded once.

        Raises:
            RequestRefused: the run is unknown, or ``after`` is above its last number.
            Unreachable: the server was away for longer than the timeouts allow.
        """
        return self._follow(after, None)

    async def result(self, timeout_s: float | None = None) -> EndEvent:
        """Wait for the run's end and return it; its ``status`` is succeeded, failed, cancelled or dead.

        Raises:
            TimeoutError: the run did not end within ``timeout_s``; it continues.
        """
        if self._end is None:
            async with aclosing(self._follow(self._seen, timeout_s)) as events:
                async for _ in events:
                    pass
        assert self._end is not None
        return self._end

    async def _follow(self, after: int, timeout_s: float | None) -> AsyncGenerator[Event]:
        """Yield the events, and keep how far they were read and the end."""
        async with aclosing(self._transport.follow(self.run_id, after, timeout_s)) as events:
            async for event in events:
                if event.seq > self._seen:
                    self._seen = event.seq
                if isinstance(event, EndEvent):
                    self._end = event
                yield event

    async def status(self) -> str:
        """Return the run's present status."""
        return (await self._transport.send(calls.get_run(self.run_id))).status

    async def cancel(self, *, expected_status: str | None = None) -> str:
        """Request a stop and return the run's status; a second request, or one after the end, changes nothing.

        Raises:
            RequestRefused: ``control_refused``: it has another status than the expected one.
        """
        return await self._transport.send(calls.cancel_run(self.run_id, expected_status))

    async def set(
        self, *, max_iterations: int | None = None, priority: str | None = None, expected_status: str | None = None
    ) -> str:
        """Change how many rounds with tools the open run may have, or its priority, and return its status.

        Raises:
            RequestRefused: ``control_refused``: it has ended, or its agent's definition does not allow as many,
                or it has another status than the expected one.
        """
        return await self._transport.send(calls.set_limits(self.run_id, max_iterations, priority, expected_status))

    async def approvals(self) -> list[Approval]:
        """Return the run's open questions, the oldest first."""
        return await self._transport.send(calls.list_approvals(self.run_id))

    async def decide(
        self,
        approval_id: str,
        decision: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        result: Any = None,
        message: str | None = None,
        digest: str | None = None,
        scope: str | None = None,
        scope_s: int | None = None,
    ) -> Decided:
        """Answer a question of the run; the first valid answer counts.

        Args:
            approval_id: the question.
            decision: one of the question's ``decisions``.
            arguments: with ``approve``: those to call the tool with instead of those shown.
            result: of a call that was done by hand, with ``take_as_done``; with ``answer`` the filled-in form.
            message: a note for the log; with ``reject`` the agent gets it too.
            scope: with ``approve``: for which later calls of the tool it holds too, of the question's ``scopes``.
            scope_s: with ``scope``: for how many seconds; None: for as long as the question allows.
            digest: the question's, as you were shown it; the answer is refused where it is another one.

        Raises:
            RequestRefused: ``approval_decided`` (its facts have the answer that came first), ``approval_over``,
                ``approval_unknown``, ``decision_refused``, ``arguments_differ``, or ``edit_refused`` and
                ``answer_refused`` where the arguments or the answer do not fit.
        """
        call = calls.decide(self.run_id, approval_id, decision, arguments, result, message, digest, scope, scope_s)
        return await self._transport.send(call)
