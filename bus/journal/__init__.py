"""The journal: accepted runs, their owners, their steps, and the numbered event log that all readers follow.

SQL is the source of truth. Redis holds the newest part of the log and hints; either may be lost at any moment.

This module is the journal's interface: code outside ``bus`` imports from here and from nothing deeper. A process has
one ``Journal``:

- Clients call ``accept``, ``control`` and ``decide``.
- Readers call ``follow``, ``follow_blocking``, ``wait``, ``page`` and ``with_live``.
- Owners call ``claim_and_begin``, ``writer``, ``begin_writing``, ``clear_suspect``, ``fail_owned`` and ``disown``.
- ``runs``, ``threads`` and ``workers`` answer questions about them, and remove runs and threads.
- ``unowned`` has the runs that no process owns, for workers to claim, resume or deliver.

The other names are the values that these take and return, and the errors that callers handle.

A name's module is imported when the name is first used: a web process imports what requests need before it has a
``Journal``, and the terminal what its command needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.journal.accept import NewRun as NewRun
    from bus.journal.approvals import Decision as Decision
    from bus.journal.approvals import Question as Question
    from bus.journal.closing import end_commit as end_commit
    from bus.journal.closing import end_event as end_event
    from bus.journal.closing import result_of_cut_off as result_of_cut_off
    from bus.journal.controls import CONTROLS as CONTROLS
    from bus.journal.controls import Control as Control
    from bus.journal.decisions import Decided as Decided
    from bus.journal.errors import ApprovalDecided as ApprovalDecided
    from bus.journal.errors import ApprovalOver as ApprovalOver
    from bus.journal.errors import ApprovalUnknown as ApprovalUnknown
    from bus.journal.errors import CodeVersion as CodeVersion
    from bus.journal.errors import CursorAhead as CursorAhead
    from bus.journal.errors import CursorInvalid as CursorInvalid
    from bus.journal.errors import RunUnknown as RunUnknown
    from bus.journal.errors import StaleOwner as StaleOwner
    from bus.journal.idempotency import IdempotencyKey as IdempotencyKey
    from bus.journal.idempotency import canonical_digest as canonical_digest
    from bus.journal.journal import Journal as Journal
    from bus.journal.live.hotlog import writing_to as writing_to
    from bus.journal.log.commit import Commit as Commit
    from bus.journal.log.cursor import parse_cursor as parse_cursor
    from bus.journal.log.line import Line as Line
    from bus.journal.log.pages import PAGE_BYTES as PAGE_BYTES
    from bus.journal.log.progress import OpenStep as OpenStep
    from bus.journal.log.progress import Progress as Progress
    from bus.journal.log.writer import RunWriter as RunWriter
    from bus.journal.ownership.leases import Claim as Claim
    from bus.journal.ownership.leases import FirstCommit as FirstCommit
    from bus.journal.ownership.leases import Lease as Lease
    from bus.journal.ownership.workers import WorkerRow as WorkerRow
    from bus.journal.ownership.workers import Workers as Workers
    from bus.journal.queries.run_record import RunRecord as RunRecord
    from bus.journal.queries.run_record import read_record as read_record
    from bus.journal.queries.run_record import run_of_thread as run_of_thread
    from bus.journal.queries.runs import STATUSES as STATUSES
    from bus.journal.queries.runs import Runs as Runs
    from bus.journal.queries.wait_reasons import WaitReason as WaitReason
    from bus.journal.states.codes import Reason as Reason
    from bus.journal.states.ending import STOPPED as STOPPED
    from bus.journal.states.ending import Ending as Ending
    from bus.journal.states.release import DRAINED as DRAINED
    from bus.journal.states.release import Release as Release
    from bus.journal.states.unowned import CommitResult as CommitResult
    from bus.journal.steps import StepEnded as StepEnded
    from bus.journal.steps import StepStarted as StepStarted
    from bus.journal.steps import steps_of as steps_of
    from bus.journal.threads import HistoryItem as HistoryItem
    from bus.journal.threads import Past as Past
    from bus.journal.totals import Totals as Totals
    from bus.journal.version import require_readable_journal as require_readable_journal
    from bus.journal.who import Who as Who

_NAMES = {
    "accept": "NewRun",
    "approvals": "Decision Question",
    "closing": "end_commit end_event result_of_cut_off",
    "controls": "CONTROLS Control",
    "decisions": "Decided",
    "errors": (
        "ApprovalDecided ApprovalOver ApprovalUnknown CodeVersion CursorAhead CursorInvalid RunUnknown StaleOwner"
    ),
    "idempotency": "IdempotencyKey canonical_digest",
    "journal": "Journal",
    "live.hotlog": "writing_to",
    "log.commit": "Commit",
    "log.cursor": "parse_cursor",
    "log.line": "Line",
    "log.pages": "PAGE_BYTES",
    "log.progress": "OpenStep Progress",
    "log.writer": "RunWriter",
    "ownership.leases": "Claim FirstCommit Lease",
    "ownership.workers": "WorkerRow Workers",
    "queries.run_record": "RunRecord read_record run_of_thread",
    "queries.runs": "Runs STATUSES",
    "queries.wait_reasons": "WaitReason",
    "states.codes": "Reason",
    "states.ending": "Ending STOPPED",
    "states.release": "DRAINED Release",
    "states.unowned": "CommitResult",
    "steps": "StepEnded StepStarted steps_of",
    "threads": "HistoryItem Past",
    "totals": "Totals",
    "version": "require_readable_journal",
    "who": "Who",
}
"""The names above, by the module that defines them."""
MODULES = {name: f"bus.journal.{module}" for module, names in _NAMES.items() for name in names.split()}
"""The module of each name."""

if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Import the name from its module; called where the name was not used before."""
        if name not in MODULES:
            raise AttributeError(f"module 'bus.journal' has no attribute '{name}'")
        found = globals()[name] = getattr(importlib.import_module(MODULES[name]), name)
        return found
