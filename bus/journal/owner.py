"""The journal's interface for the owners of runs: claims, commits, steps, and how a run ends, waits or is released.

This file lists names alone; the methods of ``Journal.owner`` are in ``bus/journal/actors/owner.py``.
"""

from typing import TYPE_CHECKING

from bus.journal.on_demand import on_demand

if TYPE_CHECKING:
    from bus.journal.live.hotlog import HotLog
    from bus.journal.log.children import ChildRun
    from bus.journal.log.commit import Commit
    from bus.journal.log.progress import NodeStep, OpenStep, Progress
    from bus.journal.log.writer import RunWriter
    from bus.journal.ownership.claims import Begun, ClaimTerms, Refused, Waiting
    from bus.journal.ownership.leases import Claim, FirstCommit
    from bus.journal.records.control_requests import ControlRequest
    from bus.journal.records.recorded_calls import RecordedOutcome
    from bus.journal.records.steps import AcceptedCall, AcceptedInput, StepEnded, StepStarted, Totals
    from bus.journal.records.task_wait import TaskWait
    from bus.journal.records.threads import HistoryItem, Past, Summary
    from bus.journal.run_end import Took, answering, end_commit, end_event, result_of_cut_off
    from bus.journal.states.codes import Ending, Reason
    from bus.journal.states.lease import Lease
    from bus.journal.states.release import DRAINED, HANDED_OVER, PAUSED, Handover, Release
    from bus.journal.sticky import StickyApproval
else:
    __getattr__ = on_demand(globals())
