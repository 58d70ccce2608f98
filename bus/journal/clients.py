"""The journal's interface for clients: what starts, stops and answers runs, and what comes of it.

This file lists names alone; the methods of ``Journal.clients`` are in ``bus/journal/actors/clients.py``.
"""

from typing import TYPE_CHECKING

from bus.journal.on_demand import on_demand

if TYPE_CHECKING:
    from bus.journal.acceptance.accept import THREAD
    from bus.journal.acceptance.callers_transaction import CallersTransaction
    from bus.journal.acceptance.children import AcceptedChild
    from bus.journal.acceptance.new_run import NewRun
    from bus.journal.controls import CONTROLS, SIGNAL, STEER, STOP, Control
    from bus.journal.decisions.decisions import Decided
    from bus.journal.forks.continued import RepeatedRun
    from bus.journal.forks.fork import Fork
    from bus.journal.forks.recordings import import_conversation
    from bus.journal.idempotency import IdempotencyKey
    from bus.journal.mailbox.busy import ITS_OWN_RUN, Delivery, IfBusy
    from bus.journal.records.parent import Parent
    from bus.journal.records.recorded_calls import Mode, Origin, RecordedCalls
    from bus.journal.records.steps import AGENT, NO_MODEL, WORKFLOW, NewCall
    from bus.journal.states.codes import STOPPED
    from bus.journal.storage.internal_events import NewInternalEvent
    from bus.journal.unowned.transitions import CommitResult
    from bus.journal.unowned.upgrade import RunVersion
else:
    __getattr__ = on_demand(globals())
