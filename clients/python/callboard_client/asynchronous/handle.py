"""A handle on a run: follow its events, wait for its end, answer its questions, control it, repeat it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from callboard_client import calls
from callboard_client.asynchronous.transport import AsyncTransport
from callboard_client.events import EndEvent, Event
from callboard_client.records import Approval, ApprovalLink, ControlledRun, Decided


class AsyncRunHandle:
    """An accepted run. Handles are cheap; another one on the same run is ``callboard.handle(run_id)``."""

    def __init__(
        self,
        transport: AsyncTransport,
        run_id: str,
        thread_id: str,
        delivered: str | None = None,
        control_id: str | None = None,
    ) -> None:
        self._transport = transport
        self.run_id = run_id
        self.thread_id = thread_id
        self.delivered = delivered
        """``merged`` or ``steered`` where this run, which was there before, took the message that was sent."""
        self.control_id = control_id
        """With ``steered``: a ``control`` event of the run with this id says when its model gets the message."""
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

    async def steer(self, text: str, *, expected_status: str | None = None) -> ControlledRun:
        """Give the open run a message, which its model gets between two steps; ``control`` events say when.

        Raises:
            RequestRefused: ``control_refused``: it has ended, or has another status than the expected one;
                ``input_blocked``: its agent's guardrails refuse the text.
        """
        return await self._control("steer", expected_status, content=text)

    async def pause(self, *, expected_status: str | None = None) -> ControlledRun:
        """Leave the run between two steps without a worker, until ``resume``.

        Raises:
            RequestRefused: ``control_refused``: it has ended, waits for a person or a task, or has another status than
                the expected one.
        """
        return await self._control("pause", expected_status)

    async def resume(self, *, expected_status: str | None = None) -> ControlledRun:
        """Continue the paused run, or take back a pause that its worker has not come to.

        Raises:
            RequestRefused: ``control_refused``: it is not paused, or has another status than the expected one.
        """
        return await self._control("resume", expected_status)

    async def set(
        self, *, max_iterations: int | None = None, priority: str | None = None, expected_status: str | None = None
    ) -> ControlledRun:
        """Change how many rounds with tools the open run may have, or its priority.

        Raises:
            RequestRefused: ``control_refused``: it has ended, or its agent's definition does not allow as many,
                or it has another status than the expected one.
        """
        return await self._control("set", expected_status, max_iterations=max_iterations, priority=priority)

    async def _control(self, verb: str, expected_status: str | None, **fields: Any) -> ControlledRun:
        return await self._transport.send(calls.control_run(self.run_id, verb, expected_status, **fields))

    async def signal(self, name: str, data: Any = None, *, idempotency_key: str | None = None) -> ControlledRun:
        """Give the open workflow the signal that one of its nodes waits for, or will; ``control`` events say when.

        Args:
            name: the signal's name; inside of a FOR_EACH with the index of the item, ``paid-17``. Each is given once.
            data: what fits the signal's schema.
            idempotency_key: a key by which a repeated call is the same one.

        Raises:
            RequestRefused: ``signal_unknown``; ``signal_invalid``: the data do not fit; ``control_refused``: the run
                has ended, or was given the signal before.
        """
        return await self._transport.send(calls.signal_run(self.run_id, name, data, idempotency_key))

    async def retry(
        self, *, mode: str = "recorded", failed_items: bool = False, idempotency_key: str | None = None
    ) -> AsyncRunHandle:
        """Retry the run, which did not succeed, and return a handle on the new one: the next run of its thread.

        Args:
            mode: ``recorded``: recorded calls are not made again. ``live``: they are, as far as the policy and persons
                allow it.
            failed_items: of a workflow: whether only the failed items of FOR_EACH are made again, with what follows.
            idempotency_key: a key by which a repeated call returns the first one's run.

        Raises:
            RequestRefused: ``run_not_repeatable``: it is open, or has succeeded.
        """
        return await self._repeat("retry", mode, idempotency_key, failed_items=failed_items or None)

    async def rerun(
        self, from_step: int, *, mode: str = "recorded", idempotency_key: str | None = None
    ) -> AsyncRunHandle:
        """Repeat the ended run from a step on, in a fork of its thread, and return a handle on the new run.

        Args:
            from_step: the number of the first step that is made anew; those before it are copied.
            mode: as in ``retry``.
            idempotency_key: as in ``retry``.

        Raises:
            RequestRefused: ``run_not_repeatable``, or ``step_unknown``.
        """
        return await self._repeat("rerun", mode, idempotency_key, from_step=from_step)

    async def _repeat(self, verb: str, mode: str, idempotency_key: str | None, **fields: Any) -> AsyncRunHandle:
        call = calls.repeat_run(self.run_id, verb, mode, idempotency_key, **fields)
        return AsyncRunHandle(self._transport, *await self._transport.send(call))

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

    async def link(self, approval_id: str, principal: str, *, expires_in_s: int | None = None) -> ApprovalLink:
        """Make a link to a question for one person, who needs the right to answer without it; for an e-mail or a chat.

        Args:
            approval_id: the question.
            principal: whom it is for.
            expires_in_s: how long it is valid; None: for a day. Never longer than the question is open.

        Raises:
            RequestRefused: ``approval_decided``, ``approval_over``, ``approval_unknown`` or ``run_unknown``.
        """
        return await self._transport.send(calls.make_link(self.run_id, approval_id, principal, expires_in_s))
