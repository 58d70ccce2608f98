"""A handle on a run: follow its events, wait for its end, answer its questions, stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bus.journal import Journal
from bus.journal.approvals import Decision
from bus.journal.clients import CONTROLS, ITS_OWN_RUN, CommitResult, Control, Decided, Delivery
from bus.journal.errors import ApprovalDecided
from bus.journal.readers import parse_cursor
from bus.payloads import EndPayload, Payload, StatusPayload, decode
from config.identity.principal import Principal


class RunHandle:
    """An accepted run. Handles are cheap, hold no resources, and work in any process that uses the same database."""

    def __init__(
        self,
        journal_of_process: Callable[[], Journal],
        run_id: str,
        thread_id: str,
        principal: Principal,
        *,
        is_new: bool = True,
        delivery: Delivery = ITS_OWN_RUN,
    ) -> None:
        self._journal = journal_of_process
        self._principal = principal
        self.run_id = run_id
        self.thread_id = thread_id
        self.is_new = is_new
        """False where the idempotency key belongs to an earlier request's run, or another run took the message."""
        self.delivery = delivery
        """What became of the message where its thread was busy."""

    def events(self, after: int = 0) -> Iterator[Payload]:
        """Yield the run's events with numbers above ``after``, in order, as they happen, up to its ``end``.

        Raises:
            CURSOR_INVALID, CURSOR_AHEAD: ``after`` is not a number, or above the run's last one.
            LOOP_BLOCKED: called on the event loop's own thread.
        """
        cursor = parse_cursor(str(after))
        if cursor:
            self._journal().readers.runs.bounds(self._principal, self.run_id, cursor)
        lines = self._journal().readers.follow_blocking(self._principal.tenant, self.run_id, self.thread_id, cursor)
        return (decode(line.data) for line in lines)

    def result(self, timeout_s: float | None = None) -> EndPayload:
        """Wait for the run's end and return it; its ``status`` is succeeded, failed, cancelled or dead.

        Raises:
            TimeoutError: the run did not end within ``timeout_s``; it continues.
            LOOP_BLOCKED: called on the event loop's own thread.
        """
        waiting = self._journal().readers.wait(self._principal.tenant, self.run_id, self.thread_id)
        end = self._journal().loop.run(waiting, timeout_s)
        payload = decode(end.data)
        assert isinstance(payload, EndPayload)
        return payload

    def status(self) -> str:
        """The run's present status."""
        return str(self._journal().readers.runs.row(self._principal, self.run_id).status)

    def wait_before(self, cursor: int) -> StatusPayload | None:
        """Return what the run waits for where its log says so at or before ``cursor``; None where it does not wait."""
        row = self._journal().readers.runs.row(self._principal, self.run_id)
        if row.status != "waiting" or self._journal().readers.page(self.run_id, self.thread_id, cursor)[0]:
            return None
        return StatusPayload(seq=cursor, status="waiting", reason=row.reason)

    def cancel(self, *, by: str | None = None) -> CommitResult:
        """Request a stop; a second request, or one after the end, changes nothing."""
        return self.control(CONTROLS["cancel"], by=by)

    def control(
        self,
        command: Control,
        *,
        by: str | None = None,
        data: Mapping[str, Any] | None = None,
        expected_status: str | None = None,
    ) -> CommitResult:
        """Do or request what the verb says, where the run's state allows it; a second request changes nothing.

        ``data``: what ``set`` sets, as ``{"max_iterations": 3, "priority": "high"}``; ``expected_status``: the only
        status of the run in which it is to be done.
        """
        by, control = by or self._principal.id, self._journal().clients.control
        return control(self._principal, self.run_id, command, by=by, data=data, expected_status=expected_status)

    def approvals(self) -> list[dict[str, Any]]:
        """Return the run's open questions, the oldest first."""
        return self._journal().readers.runs.questions(self._principal, self.run_id)

    def last_decided(self) -> ApprovalDecided | None:
        """Return the answer to the newest question, as the error that a later answer gets; None if it has none."""
        return self._journal().readers.runs.last_decided(self._principal, self.run_id)

    def decide(self, approval_id: str, answer: Decision, *, by: str | None = None) -> Decided:
        """Answer a question of the run; the first valid answer counts.

        Raises:
            ApprovalUnknown, ApprovalDecided, ApprovalOver, DECISION_REFUSED: see ``bus.journal.decisions.decisions``.
        """
        return self._journal().clients.decide(
            self._principal, self.run_id, approval_id, answer, by=by or self._principal.id
        )

    def settle(self, timeout_s: float) -> bool:
        """Wait until the wake-up was published; return False after ``timeout_s``. The run is accepted in any case."""
        return self._journal().live.relay.settle(timeout_s)
