"""The journal: accepted runs, their owners, their steps, and the numbered event log that all readers follow.

SQL is the source of truth. Redis holds the newest part of the log and hints; either may be lost at any moment.

This module is the journal's interface: code outside ``bus`` imports from here and from nothing deeper. A process has
one ``Journal``:

- Clients call ``accept``, ``control`` and ``decide``.
- Readers call ``follow``, ``follow_blocking``, ``wait``, ``page`` and ``with_live``.
- Owners call ``claim_and_begin``, ``writer``, ``begin_writing``, ``absolve``, ``fail_owned`` and ``disown``.
- ``runs``, ``threads`` and ``workers`` answer questions about them, and remove runs and threads.
- ``unowned`` has the runs that no process owns, for workers to claim, resume or deliver.

The other names are the values that these take and return, and the errors that callers handle.
"""

from bus.journal.accept import NewRun
from bus.journal.approvals import Decision, Question
from bus.journal.closing import end_commit, end_event, result_of_cut_off
from bus.journal.controls import CONTROLS, Control
from bus.journal.decisions import Decided
from bus.journal.errors import (
    ApprovalDecided,
    ApprovalOver,
    ApprovalUnknown,
    CodeVersion,
    CursorAhead,
    CursorInvalid,
    RunUnknown,
    StaleOwner,
)
from bus.journal.idempotency import IdempotencyKey, canonical_digest
from bus.journal.journal import Journal
from bus.journal.live.hotlog import writing_to
from bus.journal.log.commit import Commit
from bus.journal.log.cursor import parse_cursor
from bus.journal.log.line import Line
from bus.journal.log.pages import PAGE_BYTES
from bus.journal.log.progress import OpenStep, Progress
from bus.journal.log.writer import RunWriter
from bus.journal.ownership.claim import Claim, FirstCommit
from bus.journal.ownership.leases import Lease
from bus.journal.ownership.workers import WorkerRow, Workers
from bus.journal.queries.run_record import RunRecord, read_record, run_of_thread
from bus.journal.queries.runs import STATUSES, Runs
from bus.journal.queries.wait_reasons import WaitReason
from bus.journal.states.codes import Reason
from bus.journal.states.ending import STOPPED, Ending
from bus.journal.states.release import DRAINED, Release
from bus.journal.states.unowned import CommitResult
from bus.journal.steps import StepEnded, StepStarted, steps_of
from bus.journal.threads import HistoryItem, Past
from bus.journal.totals import Totals
from bus.journal.version import require_readable_journal
from bus.journal.who import Who

__all__ = [
    "CONTROLS",
    "DRAINED",
    "PAGE_BYTES",
    "STATUSES",
    "STOPPED",
    "ApprovalDecided",
    "ApprovalOver",
    "ApprovalUnknown",
    "Claim",
    "CodeVersion",
    "Commit",
    "CommitResult",
    "Control",
    "CursorAhead",
    "CursorInvalid",
    "Decided",
    "Decision",
    "Ending",
    "FirstCommit",
    "HistoryItem",
    "IdempotencyKey",
    "Journal",
    "Lease",
    "Line",
    "NewRun",
    "OpenStep",
    "Past",
    "Progress",
    "Question",
    "Reason",
    "Release",
    "RunRecord",
    "RunUnknown",
    "RunWriter",
    "Runs",
    "StaleOwner",
    "StepEnded",
    "StepStarted",
    "Totals",
    "WaitReason",
    "Who",
    "WorkerRow",
    "Workers",
    "canonical_digest",
    "end_commit",
    "end_event",
    "parse_cursor",
    "read_record",
    "require_readable_journal",
    "result_of_cut_off",
    "run_of_thread",
    "steps_of",
    "writing_to",
]
