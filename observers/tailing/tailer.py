"""One thread that feeds an observer: it reads the log behind its cursors, delivers, and moves the cursors."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bus.journal.tailing import (
    BATCH,
    CursorLost,
    CursorProgress,
    CursorSpan,
    DeliveryState,
    FailedDelivery,
    LogReader,
    Member,
    NotWritten,
    ObserverCursors,
    RunReader,
    TailedRow,
    count_rows,
    due_now,
    failed,
    merged,
    open_failures,
    partition_of,
    rows_of_run,
)
from config.clock import epoch_ms
from config.database.engine import Database
from config.errors import CallboardError, Permanent, Retryable
from config.settings import Settings
from observers.base import AgentObserver, LogObserver, NotTaken
from observers.discovery import new_instance
from observers.tailing.batch import BatchOutcome, PendingCall, cursor_behind, reason_of
from observers.tailing.tailed import Facts, FactsOfRuns, Tailed

log = logging.getLogger(__name__)

CLAIM_S = 1.0
"""Seconds between two looks at who feeds which partitions, at pauses, and at failed deliveries."""
BATCH_S = 1.0
"""Seconds after which a batch ends early, so that a slow observer's progress is stored."""
OPEN_AFTER = 20
"""Failures in a row after which the observer gets no event for a while: whatever it writes to seems to be down."""
LONGEST_PAUSE_S = 60.0
RETRIES = 20
"""Failed deliveries that are tried again at a time."""


class Tailer:
    """Feeds one observer with the runs of the partitions that it owns; a thread calls ``work``."""

    def __init__(self, tailed: Tailed, settings: Settings, database: Database, member: Member) -> None:
        self.tailed, self.member = tailed, member
        self.call: PendingCall | None = None
        """The delivery that is under way."""
        self.is_abandoned = False
        """Whether a call took too long, and another thread has taken the partitions."""
        self._database = database
        self._cursors = ObserverCursors(database)
        self._reader = LogReader(tailed.name)
        self._create = partial(tailed.kind.from_options, settings, tailed.options)
        self._observer = self._new_observer()
        self._forget()

    def _renew(self) -> None:
        """Begin with a new instance: what this one has gathered was not stored."""
        self._replace_observer()
        self._forget()

    def _replace_observer(self) -> None:
        self._close()
        self._observer = self._new_observer()

    def _new_observer(self) -> AgentObserver:
        observer = new_instance(self.tailed.kind, self._create)
        if isinstance(observer, LogObserver):
            observer.runs = RunReader(self._database)
        return observer

    def _forget(self) -> None:
        """Forget what was read, so that the cursors are read again."""
        self._facts = FactsOfRuns(are_labels_wanted=bool(self.tailed.selection.labels))
        self._spans: list[CursorSpan] = []
        self._failures: dict[int, FailedDelivery] = {}
        self._held: dict[str, int] = {}
        self._is_paused = False
        self._failures_in_a_row = self._unwritten_in_a_row = 0
        self._alone_upto = 0
        """Up to this position events are stored one by one: one of them cannot be written."""
        self._claimed_s = self._open_until_s = -1e9

    # --- the thread

    def work(self, stopping: threading.Event) -> None:
        """Feed the observer until ``stopping`` is set; then free the partitions at once."""
        while not stopping.is_set() and not self.is_abandoned:
            pause_s = self.tailed.poll_s
            try:
                pause_s = 0.0 if self.step() else self.tailed.poll_s
            except CursorLost:
                self._renew()
            except Retryable as error:
                log.warning("observer '%s' waits: %s", self.tailed.name, error)
                self._renew()
                pause_s = CLAIM_S
            except Permanent:
                raise
            except Exception:
                log.exception("observer '%s' is fed again in %g s", self.tailed.name, LONGEST_PAUSE_S)
                self._renew()
                pause_s = LONGEST_PAUSE_S
            stopping.wait(pause_s)
        if not self.is_abandoned:
            self._leave()

    def _leave(self) -> None:
        self._close()
        try:
            self._cursors.leave(self.tailed.name, self.member)
        except CallboardError as error:
            log.warning("observer '%s' leaves its partitions until they expire: %s", self.tailed.name, error)

    def _close(self) -> None:
        """Let an instance that has something open close it."""
        close = getattr(self._observer, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:
                log.warning("observer '%s' could not close: %s", self.tailed.name, reason_of(error))

    def beat(self) -> None:
        """Keep the partitions during a long call; another thread calls it."""
        if time.monotonic() - self._claimed_s > 2 * CLAIM_S:
            self._cursors.beat(self.tailed.name, self.member)

    def failure_of(self, row: TailedRow) -> FailedDelivery | None:
        """Return the earlier failure of the same delivery; None: it is the first attempt."""
        return self._failures.get(row.position)

    def step(self) -> bool:
        """Deliver what there is, a batch at most, and return whether there is more.

        Raises:
            CursorLost: another member has the partitions.
        """
        if time.monotonic() - self._claimed_s >= CLAIM_S:
            self._claim()
        if self._is_paused or not self._spans or time.monotonic() < self._open_until_s:
            return False
        is_probe = self._failures_in_a_row >= OPEN_AFTER
        if self._retry_due(1 if is_probe else RETRIES) and is_probe:
            return True
        is_alone = is_probe or self._spans[0].position < self._alone_upto
        return self._feed(1 if is_alone else BATCH)

    def _claim(self) -> None:
        claim = self._cursors.claim(self.tailed.name, self.member)
        self._claimed_s, self._spans, self._is_paused = time.monotonic(), list(claim.spans), claim.is_paused
        with self._database.read() as connection:
            partitions = [number for span in self._spans for number in span.partitions]
            failures = open_failures(connection, self.tailed.name, partitions)
        self._failures = {failure.position: failure for failure in failures}
        retrying = [failure for failure in failures if failure.state is DeliveryState.RETRYING]
        self._held = {failure.run_id: failure.position for failure in retrying}

    # --- new events

    def _feed(self, limit: int) -> bool:
        span = self._spans[0]
        with self._database.read() as connection:
            batch = self._reader.read(connection, span, self.tailed.selection.types, limit)
            is_late = self.tailed.delivery == "best_effort" and batch.head - span.position > self._observer.max_queue
            dropped = count_rows(connection, span, batch.head, self.tailed.selection.types) if is_late else 0
            facts = self._facts.read(connection, batch.rows)
        if is_late:
            log.warning("observer '%s' is too slow: %d events are left out", self.tailed.name, dropped)
            self._advance(
                CursorProgress(before=span, after=replace(span, position=batch.head, gaps=()), dropped=dropped)
            )
            return True
        after = CursorSpan(partitions=span.partitions, position=batch.position, gaps=batch.gaps)
        if after == span and not batch.rows:
            return False
        outcome = self._deliver(batch.rows, facts)
        if outcome.count < len(batch.rows):
            after = cursor_behind(span, after, batch.rows, outcome.count)
        progress = CursorProgress(before=span, after=after, failures=outcome.failures)
        progress = replace(progress, delivered=outcome.delivered, dropped=outcome.dropped)
        if outcome.count == 1:
            self._store_one(batch.rows[0], progress)
            return after.position < batch.head
        try:
            self._advance(progress)
        except NotWritten:
            if not outcome.count:  # nothing was delivered that could be left out
                raise
            self._replace_observer()
            self._disregard(outcome.failures)
            self._alone_upto = max(self._alone_upto, batch.rows[outcome.count - 1].position)
            return True
        return after.position < batch.head

    def _store_one(self, row: TailedRow, progress: CursorProgress, following: Sequence[FailedDelivery] = ()) -> None:
        """Store what came of one event: where the observer cannot write it, that it was not taken.

        ``following``: what is due next, unless the event is tried again first.
        """
        try:
            self._advance(self._with_following(progress, following))
        except NotWritten as error:
            self._replace_observer()
            outcome, self._failures_in_a_row = BatchOutcome(), self._unwritten_in_a_row  # its hooks may well succeed
            self._note_failure(row, error.__cause__ or error, outcome)
            self._unwritten_in_a_row = self._failures_in_a_row
            left_out = replace(progress, delivered=0, dropped=outcome.dropped, failures=outcome.failures, cleared=())
            self._advance(self._with_following(left_out, following), writes=False)

    def _with_following(self, progress: CursorProgress, following: Sequence[FailedDelivery]) -> CursorProgress:
        if any(failure.state is DeliveryState.RETRYING for failure in progress.failures):
            return progress
        for failure in following:
            self._failures[failure.position], self._held[failure.run_id] = failure, failure.position
        return replace(progress, failures=[*progress.failures, *following])

    def _disregard(self, failures: Sequence[FailedDelivery]) -> None:
        """Forget failures that were not stored."""
        for failure in failures:
            self._failures.pop(failure.position, None)
            self._held.pop(failure.run_id, None)

    def _advance(self, progress: CursorProgress, *, writes: bool = True) -> None:
        on_commit = self._observer.on_commit if writes else None
        self._cursors.advance(self.tailed.name, self.member, progress, on_commit)
        if writes and progress.delivered:
            self._unwritten_in_a_row = 0
        self._spans = merged([progress.after, *(span for span in self._spans if span != progress.before)])

    # --- deliveries

    def _deliver(self, rows: Sequence[TailedRow], facts: dict[int, Facts], *, is_whole: bool = False) -> BatchOutcome:
        """Deliver rows in order and flush; a failed one holds the later rows of its run back.

        Unless ``is_whole``, it ends early where the observer is slow, or fails again and again.
        """
        outcome, pending, began_s = BatchOutcome(), list[TailedRow](), time.monotonic()
        for row in rows:
            outcome.count += 1
            if self._is_wanted(row, facts) and self._call(row, facts, outcome):
                pending.append(row)
            if not is_whole and (self._is_open or time.monotonic() - began_s > BATCH_S):
                break
        if pending and not self._is_flushed(pending[-1]):
            # One of them is what cannot be written: each by itself shows which.
            pending = [
                row for row in pending if self._is_wanted(row, facts) and self._call(row, facts, outcome, flushes=True)
            ]
        outcome.delivered = len(pending)
        return outcome

    def _is_wanted(self, row: TailedRow, facts: dict[int, Facts]) -> bool:
        facts_of_row, types = facts.get(row.position), self.tailed.selection.types
        if types and row.payload.event_type not in types:
            return False
        if facts_of_row is None or row.position >= self._held.get(row.run_id, row.position + 1):
            return False
        return self.tailed.selection.takes(*facts_of_row)

    def _call(self, row: TailedRow, facts: dict[int, Facts], outcome: BatchOutcome, *, flushes: bool = False) -> bool:
        """Return whether the observer took the event."""
        agent, run, _ = facts[row.position]
        self.call = PendingCall(row, time.monotonic())
        try:
            self._observer.on_response(agent, row.payload, run)
            if flushes:
                self._observer.flush()
        except BaseException as error:  # also SystemExit: an observer ends nothing but its own work
            self._require_partitions()
            self._note_failure(row, error, outcome)
            return False
        self.call = None
        self._require_partitions()
        self._failures_in_a_row = 0
        return True

    def _is_flushed(self, last: TailedRow) -> bool:
        self.call = PendingCall(last, time.monotonic())
        try:
            self._observer.flush()
        except BaseException as error:
            self._require_partitions()
            log.warning("observer '%s' has not taken a batch: %s", self.tailed.name, reason_of(error))
            return False
        finally:
            self.call = None
        self._require_partitions()
        return True

    def _require_partitions(self) -> None:
        if self.is_abandoned:
            raise CursorLost(self.tailed.name)

    def _note_failure(self, row: TailedRow, error: BaseException, outcome: BatchOutcome) -> None:
        self.call = None
        self._failures_in_a_row += 1
        if self._failures_in_a_row == 1:
            text = "observer '%s' has not taken event %d of run %s: %s"
            log.warning(text, self.tailed.name, row.payload.seq, row.run_id, reason_of(error))
        log.debug("observer '%s' raised in run %s", self.tailed.name, row.run_id, exc_info=error)
        if self._failures_in_a_row >= OPEN_AFTER:
            pause_s = min(LONGEST_PAUSE_S, 2.0 ** min(self._failures_in_a_row - OPEN_AFTER, 10))
            self._open_until_s = time.monotonic() + pause_s
            text = "observer '%s' failed %d times in a row and gets nothing for %g s"
            log.warning(text, self.tailed.name, self._failures_in_a_row, pause_s)
        if isinstance(error, NotTaken) and error.is_over:
            self._pause(error)
        if self.tailed.delivery == "best_effort":
            outcome.dropped += 1
            return
        is_final = self.tailed.delivery == "reliable" and isinstance(error, Permanent)
        retry_for_s = 0.0 if is_final else self.tailed.retry_for_s
        again_in_s = getattr(error, "again_in_s", 0.0)
        failure = failed(row, reason_of(error), self._failures.get(row.position), retry_for_s, again_in_s=again_in_s)
        self._failures[row.position] = failure
        outcome.failures.append(failure)
        if failure.state is DeliveryState.RETRYING:
            self._held[row.run_id] = row.position
        else:
            text = "observer '%s' did not take event %d of run %s, which is a dead letter now"
            log.warning(text, self.tailed.name, row.payload.seq, row.run_id)

    def _pause(self, error: NotTaken) -> None:
        text = "observer '%s' wants no more events and is paused: %s; `./callboard observers resume %s` continues"
        log.error(text, self.tailed.name, reason_of(error), self.tailed.name)
        self._cursors.pause(self.tailed.name, is_paused=True)
        self._is_paused = True

    @property
    def _is_open(self) -> bool:
        """Whether the observer gets nothing for a while."""
        return self._is_paused or time.monotonic() < self._open_until_s

    # --- failed deliveries

    def _retry_due(self, limit: int) -> bool:
        """Try the failed deliveries again whose time has come, and return whether there were any."""
        now_ms = epoch_ms()
        due = [each for each in self._failures.values() if each.next_ms is not None and each.next_ms <= now_ms]
        for failure in sorted(due, key=lambda failure: failure.position)[:limit]:
            if not self._is_open:
                self._retry(failure)
        return bool(due)

    def _retry(self, failure: FailedDelivery) -> None:
        """Deliver the event, and behind it what its run has had since; of a dead letter the event alone."""
        span = next(span for span in self._spans if partition_of(failure.run_id) in span.partitions)
        is_single = failure.state is DeliveryState.AGAIN
        first, upto = failure.position, failure.position if is_single else span.position
        if not is_single:
            self._held.pop(failure.run_id, None)
        delivered, failures = 0, list[FailedDelivery]()
        while first <= upto and failure.run_id not in self._held:
            with self._database.read() as connection:
                rows = rows_of_run(connection, failure.run_id, first, upto)
                facts = self._facts.read(connection, rows)
            if not rows:
                break
            outcome = self._deliver(rows, facts, is_whole=True)
            delivered, failures = delivered + outcome.delivered, failures + outcome.failures
            first = rows[-1].position + 1
        cleared = {failure.position} - {each.position for each in failures}
        for position in cleared:
            del self._failures[position]
        progress = CursorProgress(before=span, after=span, delivered=delivered, failures=failures, cleared=cleared)
        try:
            self._advance(progress)
        except NotWritten:
            self._replace_observer()
            self._disregard(failures)
            self._failures[failure.position] = failure
            self._retry_alone(failure, span, upto)

    def _retry_alone(self, failure: FailedDelivery, span: CursorSpan, upto: int) -> None:
        """Deliver and store the event by itself; the next one of its run is due then, in the same way."""
        with self._database.read() as connection:
            rows = rows_of_run(connection, failure.run_id, failure.position, upto)
            facts = self._facts.read(connection, rows)
        outcome = self._deliver(rows[:1], facts, is_whole=True)
        cleared = {failure.position} - {each.position for each in outcome.failures}
        following = [due_now(row) for row in rows[1:2]]
        progress = CursorProgress(before=span, after=span, delivered=outcome.delivered, failures=outcome.failures)
        self._store_one(rows[0], replace(progress, cleared=cleared), following)
        if self._failures.get(failure.position) is failure:  # it was stored
            del self._failures[failure.position]
