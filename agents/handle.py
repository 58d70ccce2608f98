"""A handle on a run: watch it, wait for it, answer it, stop it, from any process that has its id."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bus.journal.approvals import Decided, Decision, last_decided
from bus.journal.journal import Journal
from bus.journal.ownerless import Written
from bus.journal.reader import check_cursor, parse_cursor
from bus.journal.runs import asked_now, find_run, reader_bounds
from bus.journal.who import Who
from bus.payloads import EndPayload, Payload, decode
from config.errors import ApprovalDecided, LoopBlocked

if TYPE_CHECKING:
    from agents.runner import Runner


class RunHandle:
    """One accepted run. Making one costs nothing; several may look at the same run."""

    def __init__(self, runner: Runner, run_id: str, thread_id: str, who: Who, *, is_new: bool = True) -> None:
        self._runner = runner
        self._who = who
        self.run_id = run_id
        self.thread_id = thread_id
        self.is_new = is_new
        """False when an idempotency key led to a run that was there already."""

    @property
    def _journal(self) -> Journal:
        return self._runner.journal

    def events(self, after: int = 0) -> Iterator[Payload]:
        """Return the run's events numbered above ``after``, in order, live, until after its ``end``.

        Raises:
            CursorInvalid, CursorAhead: ``after`` is no number of an event, or one the run has not come to.
            LoopBlocked: called on the event loop's own thread.
        """
        cursor = parse_cursor(str(after))
        if cursor:
            with self._journal.read() as connection:
                _, _, issued = reader_bounds(connection, self._who, self.run_id)
            check_cursor(cursor, issued)
        lines = self._journal.follow_here(self.run_id, self.thread_id, cursor)
        return (decode(line.data) for line in lines)

    def result(self, timeout_s: float | None = None) -> EndPayload:
        """Return the run's end, once it has ended; ask ``status`` of it whether it succeeded.

        Raises:
            TimeoutError: it has not ended within ``timeout_s``; it goes on.
            LoopBlocked: called on the event loop's own thread.
        """
        if self._journal.loop.is_here():
            raise LoopBlocked("waiting for a result")
        end = self._journal.loop.run(self._journal.wait(self.run_id, self.thread_id), timeout_s)
        payload = decode(end.data)
        assert isinstance(payload, EndPayload)
        return payload

    def status(self) -> str:
        """Return the run's state now."""
        with self._journal.read() as connection:
            return str(find_run(connection, self._who, self.run_id).status)

    def cancel(self, *, by: str | None = None) -> Written:
        """Ask the run to stop; asked again, or after its end, nothing happens."""
        return self._journal.cancel(self._who, self.run_id, by=by or self._who.principal)

    def approvals(self) -> list[dict[str, Any]]:
        """Return what the run asks a person now, the oldest question first."""
        with self._journal.read() as connection:
            return asked_now(connection, self._who, self.run_id)

    def last_decided(self) -> ApprovalDecided | None:
        """Return the answer to the newest question, as somebody hears of it who comes too late; None if it has none."""
        with self._journal.read() as connection:
            find_run(connection, self._who, self.run_id)
            return last_decided(connection, self.run_id)

    def decide(self, approval_id: str, answer: Decision, *, by: str | None = None) -> Decided:
        """Answer a question of the run; the first answer counts.

        Raises:
            ApprovalUnknown, ApprovalDecided, ApprovalOver, DecisionRefused: see ``bus.journal.approvals``.
        """
        return self._journal.decide(self._who, self.run_id, approval_id, answer, by=by or self._who.principal)

    def settle(self, timeout_s: float) -> bool:
        """Wait until the wake-up was published, and return whether it was; the run is accepted either way."""
        deadline = time.monotonic() + timeout_s
        return self._journal.relay.settle(max(0.0, deadline - time.monotonic()))
