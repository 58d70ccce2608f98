"""The handler of LookAtTasksMessage: has this worker look at the waits for tasks at once."""

from __future__ import annotations

from agents.process import current_process
from bus.celery_app import handles
from bus.messages.look_at_tasks import LookAtTasksMessage


@handles(LookAtTasksMessage)
def look_at_tasks(message: LookAtTasksMessage) -> None:
    """Wake this process's watcher, which reads in SQL what there is to do; return at once.

    Delivered twice, it looks twice: a task is revoked while its wait is there, and a run is requeued once, since its
    row decides. Lost, or taken by a worker that dies: every worker looks by itself within ``reap_s``.
    """
    journal = current_process().journal
    journal.loop.call_soon(journal.owner.task_waits.look_soon)
