"""The worker's row in SQL: it shows that the worker is alive and which queues it serves."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from agents.process import Process
from bus.journal import WorkerRow
from bus.queues import served_queues
from config.errors import CallboardError
from config.project import own_version

log = logging.getLogger(__name__)


async def renew_row(process: Process, pool: str, slots: int) -> None:
    """Renew this process's row for as long as the process lives."""
    journal, queues = process.journal, served_queues(process.settings)
    row = WorkerRow(
        id=journal.owner,
        host=socket.gethostname(),
        pid=os.getpid(),
        pool=pool,
        slots=slots,
        busy=0,
        queue=queues.default,
        queues=queues.names,
        version=own_version(),
    )
    while True:
        try:
            await journal.loop.write(journal.workers.renew, row.with_busy(journal.lease_manager.busy))
        except CallboardError as error:
            log.warning("the worker's row could not be renewed: %s", error)
        await asyncio.sleep(process.settings.beat_s)
