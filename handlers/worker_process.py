"""What a worker process does besides handling messages: warm up, say that it is alive, leave tidily."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from typing import Any

from celery import signals

from agents.models.lite import is_imported
from agents.models.releases import require_sound_release
from agents.models.warm_up import needs_litellm, warm_up, warm_up_later, warm_up_to_fork
from agents.process import Process, process
from bus.celery_app import refuse_greenlets, require_broker_setting
from bus.celery_rules import broken_rules
from bus.heap import FreeMemory, return_large_blocks, settle_heap
from bus.journal import workers
from bus.journal.workers import WorkerRow
from bus.pulse import start_pulse
from config.errors import CallboardError, PoolRefused
from config.logs import configure_logging
from config.rooms import require_own_rooms
from config.settings import settings
from config.version import own_version
from handlers.desk import Desk, open_desk
from handlers.drain import CHILD_SIGNAL, Drain, ParentDrain, end_without_teardown
from handlers.poller import Poller
from handlers.run_agent import RunAgentHandler
from handlers.upkeep import take_up_fitting, tell_untold
from observers.invoker import drain

log = logging.getLogger(__name__)

FITTING_EVERY = 12
"""Looks between two for runs that wait for other code; the first is when the worker starts."""


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
        require_sound_release()
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
def warn_of_configuration(sender: Any = None, **_: Any) -> None:
    """Say what is wrong with Celery's configuration here; nobody else sees this process's command line."""
    for broken in broken_rules(sender.app.conf, settings(), os.environ):
        log.warning("Celery is not configured as it has to be: %s", broken.text)


@signals.worker_init.connect(weak=False)
def begin(sender: Any = None, **_: Any) -> None:
    """Warm the process up; a prefork parent so that its children inherit it, without threads or connections."""
    global _drain
    if _forks(sender):
        _drain = ParentDrain(sender, settings().drain_s)
        warm_up_to_fork()
        settle_heap()  # Celery collects garbage before each child: over all of LiteLLM, one child after the other
        start_pulse(None, settings().lease_s)
        return
    _begin(_pool_name(sender), getattr(sender, "concurrency", None) or settings().slots)


@signals.worker_process_init.connect(weak=False)
def begin_child(**_: Any) -> None:
    """Warm a prefork child up; it works on one run at a time."""
    asked = threading.Event()
    signal.signal(CHILD_SIGNAL, lambda *_: asked.set())
    _begin("prefork", 1)
    drain_of_child = _drain
    assert isinstance(drain_of_child, Drain)
    signal.signal(CHILD_SIGNAL, lambda *_: drain_of_child.begin())
    if asked.is_set():  # while this child was still warming up
        drain_of_child.begin()


@signals.worker_shutting_down.connect(weak=False)
def stop_claiming(**_: Any) -> None:
    """Let every run go at the end of its step; Celery takes no more messages by itself."""
    if _drain is not None:
        _drain.begin()


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


@signals.worker_shutdown.connect(weak=False)
def end(sender: Any = None, **_: Any) -> None:
    """End the process soon after Celery is done; its prefork children end like this by themselves."""
    end_without_teardown(int(getattr(sender, "exitcode", None) or 0))


_alive: Process | None = None
_drain: Drain | ParentDrain | None = None


def _begin(pool: str, slots: int) -> None:
    global _alive
    began = time.monotonic()
    try:
        _alive = here = process()
    except CallboardError as wrong:
        raise SystemExit(f"error: {wrong} [{wrong.code}]") from None
    warms_first = is_imported() or needs_litellm(here.registry, os.environ)
    if warms_first:
        warm_up(here.journal.loop)
    here.journal.loop.run(RunAgentHandler(here).rehearse(), timeout_s=60)
    settle_heap()
    take_up_work(here, slots)
    start_pulse(here.journal.loop, here.settings.lease_s)
    here.journal.loop.submit(_say_alive(here, pool, slots))
    log.info("worker is ready pool=%s slots=%s after_s=%.1f", pool, slots, time.monotonic() - began)
    if not warms_first:
        warm_up_later(here.journal.loop, here.settings.state)


def take_up_work(here: Process, slots: int) -> Drain:
    """Begin to look after runs besides those that messages bring: lost ones, waiting ones, ended ones."""
    global _drain
    journal, desk = here.journal, open_desk(slots)
    _drain = own = Drain(here, desk)
    journal.relay.start()
    journal.reaper.start()
    journal.loop.submit(_poll(here, desk))
    journal.loop.submit(_keep_up(here))
    return own


async def _poll(here: Process, desk: Desk) -> None:
    await Poller(here, desk).run()


async def _keep_up(here: Process) -> None:
    """See to what nobody else does, as often as the reaper looks."""
    return_large_blocks()
    looks, memory = 0, FreeMemory()
    while True:
        try:
            await here.journal.loop.read(memory.give_back)
            await here.journal.loop.read(tell_untold, here)
            if looks % FITTING_EVERY == 0:
                await here.journal.loop.read(take_up_fitting, here)
        except CallboardError as wrong:
            log.warning("upkeep is tried again: %s", wrong)
        except Exception:  # whatever it is, the next look must come
            log.exception("upkeep stumbled")
        looks += 1
        await asyncio.sleep(here.settings.reap_s)


async def _say_alive(here: Process, pool: str, slots: int) -> None:
    """Renew this process's row for as long as the process lives."""
    journal = here.journal
    row = WorkerRow(
        id=journal.owner, host=socket.gethostname(), pid=os.getpid(), pool=pool, slots=slots, busy=0,
        queue=here.settings.queue, version=own_version(),
    )  # fmt: skip
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
