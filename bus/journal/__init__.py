"""The journal: accepted runs, their owners, their steps, and the numbered event log that all readers follow.

SQL is the source of truth. Redis holds the newest part of the log and hints; either may be lost at any moment.

This module is the journal's interface: code outside ``bus`` imports from here and from nothing deeper. A process has
one ``Journal``:

- ``clients`` start runs, stop them and answer their questions: ``accept``, ``control``, ``decide``.
- ``owner`` is this process as the owner of runs: ``claim_and_begin``, ``writer``, ``lease_manager``, and ``unowned``
  with the runs that it may take.
- ``readers`` follow logs, read pages of them, and list runs and threads: ``follow``, ``page``, ``runs``, ``threads``.
- ``stores`` keep what belongs to other rooms: workers and their tools, manifests, logins, links, sticky approvals.
- ``live`` sends wake-ups, live events and hints: ``relay``, ``hot_log``, ``publish``.

The other names are the values that these take and return, and the errors that callers handle.

A name's module is imported when the name is first used: a web process imports what requests need before it has a
``Journal``, and the terminal what its command needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.journal.acceptance.accept import NewRun
    from bus.journal.acceptance.callers_transaction import CallersTransaction
    from bus.journal.approvals import (
        ANSWERED_BY,
        BEFORE,
        DEFAULT_LINK_S,
        FORM,
        MOST_LINK_S,
        NO_ANSWER,
        USED_UP,
        Decision,
        PersonAnswer,
        Question,
        form_digest,
        stored_question,
    )
    from bus.journal.controls import CONTROLS, Control
    from bus.journal.decisions.decisions import Decided
    from bus.journal.endings import Took, end_commit, end_event, result_of_cut_off
    from bus.journal.errors import (
        ANSWER_REFUSED,
        APPROVER_REFUSED,
        ARGUMENTS_DIFFER,
        CONNECTION_UNUSABLE,
        CURSOR_AHEAD,
        CURSOR_INVALID,
        DECISION_REFUSED,
        EDIT_REFUSED,
        IDEMPOTENCY_CONFLICT,
        LINK_NOT_YOURS,
        LINK_OVER,
        LINK_UNKNOWN,
        RUN_OPEN,
        SCOPE_REFUSED,
        STICKY_UNKNOWN,
        THREAD_OF_OTHER_AGENT,
        TOO_MANY_RUNS,
        ApprovalDecided,
        ApprovalOver,
        ApprovalUnknown,
        CodeVersion,
        PrincipalDisabled,
        RunUnknown,
        StaleOwner,
        StickyOver,
        ThreadUnknown,
    )
    from bus.journal.idempotency import IdempotencyKey, canonical_digest
    from bus.journal.journal import Journal
    from bus.journal.live.database_id import database_id, is_shared
    from bus.journal.live.hotlog import HotLog
    from bus.journal.log.commit import Commit
    from bus.journal.log.line import Line, parse_cursor
    from bus.journal.log.progress import OpenStep, Progress
    from bus.journal.log.writer import RunWriter
    from bus.journal.ownership.admission import pool_problem
    from bus.journal.ownership.claims import Begun, ClaimTerms, Refused, Waiting
    from bus.journal.ownership.leases import Claim, FirstCommit
    from bus.journal.ownership.tools import LoadedTool, ToolMetadata
    from bus.journal.ownership.workers import WorkerRow, Workers, abandoned_calls, missing_keys, serves
    from bus.journal.paging.pages import PAGE_BYTES
    from bus.journal.queries.board import Board
    from bus.journal.queries.decided_calls import DecidedCall
    from bus.journal.queries.run_record import RunRecord, read_record, run_of_thread
    from bus.journal.queries.runs import STATUSES, RunFilter, Runs
    from bus.journal.queries.until import MessagesUntil
    from bus.journal.queries.wait_reasons import WaitReason
    from bus.journal.records.new_call import NO_MODEL, TOOL, AcceptedCall, NewCall
    from bus.journal.records.originals import Unsealed, unseal_originals
    from bus.journal.records.steps import StepEnded, StepStarted, Totals, steps_of
    from bus.journal.records.task_wait import TaskWait
    from bus.journal.records.threads import HistoryItem, Past
    from bus.journal.states.codes import STOPPED, Ending, Reason, RunStatus
    from bus.journal.states.lease import Lease
    from bus.journal.states.release import DRAINED, Release
    from bus.journal.sticky import StickyApproval
    from bus.journal.storage.mcp_logins import McpLogins, SealedLogin
    from bus.journal.storage.new_internal_event import NewInternalEvent
    from bus.journal.unowned.task_waits import KnownWait, TaskWaits
    from bus.journal.unowned.transitions import CommitResult
    from bus.journal.version import require_readable_journal

_NAMES = {
    "acceptance.accept": "NewRun",
    "approvals": "ANSWERED_BY BEFORE DEFAULT_LINK_S FORM MOST_LINK_S NO_ANSWER USED_UP PersonAnswer Decision Question "
    "form_digest stored_question",
    "acceptance.callers_transaction": "CallersTransaction",
    "controls": "CONTROLS Control",
    "decisions.decisions": "Decided",
    "endings": "Took end_commit end_event result_of_cut_off",
    "errors": (
        "ANSWER_REFUSED APPROVER_REFUSED ARGUMENTS_DIFFER CONNECTION_UNUSABLE CURSOR_AHEAD CURSOR_INVALID "
        "DECISION_REFUSED EDIT_REFUSED IDEMPOTENCY_CONFLICT LINK_NOT_YOURS LINK_OVER LINK_UNKNOWN RUN_OPEN "
        "SCOPE_REFUSED STICKY_UNKNOWN THREAD_OF_OTHER_AGENT TOO_MANY_RUNS ApprovalDecided ApprovalOver "
        "ApprovalUnknown CodeVersion PrincipalDisabled RunUnknown StaleOwner StickyOver ThreadUnknown"
    ),
    "idempotency": "IdempotencyKey canonical_digest",
    "journal": "Journal",
    "live.database_id": "database_id is_shared",
    "live.hotlog": "HotLog",
    "log.commit": "Commit",
    "log.line": "Line parse_cursor",
    "paging.pages": "PAGE_BYTES",
    "log.progress": "OpenStep Progress",
    "log.writer": "RunWriter",
    "storage.mcp_logins": "McpLogins SealedLogin",
    "records.new_call": "NO_MODEL TOOL AcceptedCall NewCall",
    "storage.new_internal_event": "NewInternalEvent",
    "records.originals": "Unsealed unseal_originals",
    "ownership.admission": "pool_problem",
    "ownership.claims": "Begun ClaimTerms Refused Waiting",
    "ownership.leases": "Claim FirstCommit",
    "states.lease": "Lease",
    "ownership.tools": "LoadedTool ToolMetadata",
    "ownership.workers": "WorkerRow Workers abandoned_calls missing_keys serves",
    "queries.board": "Board",
    "queries.decided_calls": "DecidedCall",
    "queries.run_record": "RunRecord read_record run_of_thread",
    "queries.runs": "STATUSES RunFilter Runs",
    "queries.until": "MessagesUntil",
    "queries.wait_reasons": "WaitReason",
    "states.codes": "STOPPED Ending Reason RunStatus",
    "states.release": "DRAINED Release",
    "unowned.transitions": "CommitResult",
    "records.steps": "StepEnded StepStarted Totals steps_of",
    "records.task_wait": "TaskWait",
    "unowned.task_waits": "KnownWait TaskWaits",
    "sticky": "StickyApproval",
    "records.threads": "HistoryItem Past",
    "version": "require_readable_journal",
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
