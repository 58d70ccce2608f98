"""The journal's interface for readers: lines of logs, and what lists and questions about runs take and return.

This file lists names alone; the methods of ``Journal.readers`` are in ``bus/journal/actors/readers.py``.
"""

from typing import TYPE_CHECKING

from bus.journal.on_demand import on_demand

if TYPE_CHECKING:
    from bus.journal.forks.recordings import RecordedRun, conversation_before, recorded_run
    from bus.journal.log.line import Line, parse_cursor
    from bus.journal.paging import ORDERS, PAGE_BYTES, MessagesUntil, RunPlace, StepPlace
    from bus.journal.queries.run_filters import GROUPS, STATUSES, RunFilter
    from bus.journal.queries.run_record import (
        RunRecord,
        SummaryRecord,
        descendants_of,
        read_controls,
        read_record,
        read_records,
        read_summaries,
        record_of,
        runs_of_thread,
    )
    from bus.journal.queries.runs import Runs
    from bus.journal.queries.wait_reasons import WaitReason
    from bus.journal.records.originals import unseal_originals
    from bus.journal.records.steps import steps_of
    from bus.journal.states.codes import RunStatus
else:
    __getattr__ = on_demand(globals())
