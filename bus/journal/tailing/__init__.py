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
        ObserverCursors,
        ObserverState,
        merged,
        observer_states,
    )
    from bus.journal.tailing.failures import (
        DeliveryState,
        FailedDelivery,
        dead_letters,
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
        values_of,
    )
    from bus.journal.tailing.whole_runs import RunReader
else:
    __getattr__ = on_demand(globals())
