"""The journal's interface for observers that tail the log: all runs' events by position, and their durable cursors.

This file lists names alone.
"""

from typing import TYPE_CHECKING

from bus.journal.on_demand import on_demand

if TYPE_CHECKING:
    from bus.journal.ownership.workers import alive, new_owner_id
    from bus.journal.tailing.cursors import (
        CursorLost,
        CursorProgress,
        Member,
        NotWritten,
        ObserverCursors,
        merged,
    )
    from bus.journal.tailing.failures import (
        DeliveryState,
        FailedDelivery,
        dead_letters,
        due_now,
        failed,
        feed_again,
        open_failures,
    )
    from bus.journal.tailing.log_rows import (
        BATCH,
        CursorSpan,
        LogReader,
        TailedRow,
        count_rows,
        hand_overs,
        partition_of,
        rows_of_run,
        runs_by_id,
    )
    from bus.journal.tailing.metric_values import (
        TOTAL,
        EndedModelCall,
        QueueState,
        Series,
        add_values,
        forget_old_slots,
        model_calls,
        open_runs,
        queue_states,
        queued_by_owner,
        slot_sums,
        values_of,
    )
    from bus.journal.tailing.states import ObserverState, observer_states
    from bus.journal.tailing.whole_runs import RunReader
else:
    __getattr__ = on_demand(globals())
