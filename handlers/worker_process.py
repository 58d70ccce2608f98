"""What a worker process does besides handling messages: warm up, say that it is alive, leave tidily."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from typing import Any

from celery import signals

from agents.models.warm_up import warm_up
from agents.process import Process, process
from bus.celery_app import refuse_greenlets, require_broker_setting
from bus.heap import settle_heap
from bus.journal import workers
from bus.journal.workers import WorkerRow
from config.errors import CallboardError, PoolRefused
from config.logs import configure_logging
from config.rooms import require_own_rooms
from config.settings import settings
from handlers.run_agent import RunAgentHandler
from observers.invoker import drain

log = logging.getLogger(__name__)


@signals.celeryd_init.connect(weak=False)
def refuse_pools(conf: Any = None, options: Any = None, **_: Any) -> None:
    """Let nobody start on a pool that cannot work, before anything else happens."""
    pool = str((options or {}).get("pool") or getattr(conf, "worker_pool", ""))
    try:
        if any(name in pool for name in ("gevent", "eventlet")):
            raise PoolRefused(
                f"Callboard does not run on the {pool} pool: agents share one event loop in a real thread. "
                "Use `--pool threads` (the default), prefork or solo."
            )
        refuse_greenlets()
        require_broker_setting(settings())
        require_own_rooms()
    except CallboardError as wrong:
        raise SystemExit(f"error: {wrong} [{wrong.code}]") from None


@signals.setup_logging.connect(weak=False)
def log_our_way(**_: Any) -> None:
    """Take logging over from Celery."""
    configure_logging(settings(), "worker")
    for chatty in ("celery.app.trace", "celery.worker.strategy"):  # two lines a run, with all arguments
        logging.getLogger(chatty).setLevel(logging.WARNING)


@signals.worker_init.connect(weak=False)
def begin(sender: Any = None, **_: Any) -> None:
    """Warm the process up. A prefork parent only imports: threads and connections do not survive a fork."""
    if _forks(sender):
        warm_up(None)
        return
    _begin(_pool_name(sender), getattr(sender, "concurrency", None) or settings().slots)


@signals.worker_process_init.connect(weak=False)
def begin_child(**_: Any) -> None:
    """Warm a prefork child up; it works on one run at a time."""
    _begin("prefork", 1)


@signals.worker_shutting_down.connect(weak=False)
def stop_claiming(**_: Any) -> None:
    """Note that no more runs should be taken; Celery takes no more messages by itself."""
    log.info("worker stops taking runs")


@signals.worker_process_shutdown.connect(weak=False)
@signals.worker_shutdown.connect(weak=False)
def leave(**_: Any) -> None:
    """Deliver what observers still have to see, and take our name off the list of the living."""
    here = _alive
    if here is None:
        return
    drain(2.0)
    try:
        workers.forget(here.journal.database, here.journal.owner)
    except CallboardError as wrong:
        log.warning("the worker's row stays until it is old: %s", wrong)
    here.journal.close()


_alive: Process | None = None


def _begin(pool: str, slots: int) -> None:
    global _alive
    began = time.monotonic()
    try:
        _alive = here = process()
    except CallboardError as wrong:
        raise SystemExit(f"error: {wrong} [{wrong.code}]") from None
    warm_up(here.journal.loop)
    here.journal.loop.run(RunAgentHandler(here).rehearse(), timeout_s=60)
    settle_heap()
    here.journal.relay.start()
    row = WorkerRow(id=here.journal.owner, host=socket.gethostname(), pid=os.getpid(), pool=pool, slots=slots, busy=0)
    here.journal.loop.submit(_say_alive(here, row))
    log.info("worker is ready pool=%s slots=%s after_s=%.1f", pool, slots, time.monotonic() - began)


async def _say_alive(here: Process, row: WorkerRow) -> None:
    """Renew this process's row for as long as the process lives."""
    journal = here.journal
    while True:
        try:
            await journal.loop.write(workers.seen, journal.database, row.with_busy(journal.keeper.busy))
        except CallboardError as wrong:
            log.warning("could not say that the worker is alive: %s", wrong)
        await asyncio.sleep(here.settings.beat_s)


def _forks(sender: Any) -> bool:
    return _pool_name(sender) == "prefork"


def _pool_name(sender: Any) -> str:
    module = getattr(getattr(sender, "pool_cls", None), "__module__", "")
    return module.rpartition(".")[2] or "threads"
