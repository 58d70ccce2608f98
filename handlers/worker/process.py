"""The life of a worker process on Celery's signals: start, taking runs, drain, exit."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery import signals
from celery.concurrency.thread import TaskPool
from celery.utils.text import str_to_list

from agents.compatibility import LoadedAgent, try_load
from agents.governance.guardrails.guardrails import guardrails_of
from agents.governance.guardrails.scan import scan_of
from agents.models.lite import is_imported
from agents.models.releases import require_sound_release
from agents.process import Process, current_process
from agents.tools.execution.executor import ABANDONED
from agents.tools.mcp.server_states import files_of, server_states
from agents.tools.spans.hooks import enable_hooks
from bus.broker.celery_rules import broken_rules
from bus.celery_app import refuse_greenlets, require_broker_setting, serve_queues
from bus.gc_tuning import collect_rarely, freeze_gc
from bus.journal import Journal
from bus.journal.stores import LoadedTool, WorkerRow, pool_problem, seed_node_types
from bus.liveness import start_liveness
from bus.loop import stop_process_loop
from bus.queues import served_queues
from bus.redis_wire import with_running_redis
from bus.thread_pool import ThreadPool
from config.at_exit import close_all
from config.definitions.agent import AgentDefinition
from config.errors import CallboardError
from config.folders import require_own_folders
from config.logs import configure_logging
from config.settings import Settings, settings
from config.settings.project import own_version
from handlers.worker.drain import CHILD_SIGNAL, Drain, ParentDrain, end_without_teardown
from handlers.worker.maintenance import maintain, watch_lost_calls
from handlers.worker.run_agent_handler import Poller
from handlers.worker.slots import open_slot_pool
from handlers.worker.task_watcher import TaskWatcher
from handlers.worker.tool_catalogue import loaded_tools
from handlers.worker.warm_up import needs_litellm, warm_up, warm_up_later, warm_up_to_fork
from observers.discovery import observers_for
from observers.invoker import drain, dropped_payloads
from observers.metrics.process_load import ProcessLoad, memory_share

if TYPE_CHECKING:
    from observers.tailing.host import ObserverHost
    from observers.tailing.tailed import Tailed

log = logging.getLogger(__name__)

IMPORTS_S = 20.0
"""Seconds that a starting worker waits for the imports of its agents' tools."""


@signals.celeryd_init.connect(weak=False)
def read_command_line(instance: Any = None, conf: Any = None, options: Any = None, **_: Any) -> None:
    """Serve the queues that ``celery worker -Q`` and ``-X`` name, like those of ``CALLBOARD_QUEUES``.

    Exits with an error if this worker cannot run agents: for its pool, LiteLLM's release, the broker or the folders.
    """
    values = options or {}
    chosen, excluded = (str_to_list(values.get(name)) or () for name in ("queues", "exclude_queues"))
    try:
        refuse_greenlets(str(values.get("pool") or getattr(conf, "worker_pool", "")))
        require_sound_release()
        require_broker_setting(with_running_redis(settings()))
        require_own_folders()
        if chosen or excluded:
            serve_queues(instance.app, chosen, excluded)
    except CallboardError as error:
        raise SystemExit(f"error: {error} [{error.code}]") from None


@signals.celeryd_init.connect(weak=False)
def start_quickly(**_: Any) -> None:
    """Collect no garbage while this process imports what its agents need."""
    collect_rarely()


@signals.worker_init.connect(weak=False)
@signals.setup_logging.connect(weak=False)
def log_our_way(**_: Any) -> None:
    """Take logging over from Celery, which sets it up behind ``worker_init``, where this process begins its work."""
    configure_logging(settings(), "worker")
    for chatty in ("celery.app.trace", "celery.worker.strategy"):  # two lines a run, with all arguments
        logging.getLogger(chatty).setLevel(logging.WARNING)


@signals.worker_init.connect(weak=False)
def warn_of_configuration(sender: Any = None, **_: Any) -> None:
    """Log what is wrong with Celery's configuration, whose command line only this process sees, and with the pool."""
    for _verdict, broken in broken_rules(sender.app.conf, with_running_redis(settings()), os.environ):
        log.warning("Celery is not configured as it has to be: %s", broken)
    if (problem := pool_problem(settings())) is not None:
        log.warning("%s", problem)


@signals.worker_init.connect(weak=False)
def begin(sender: Any = None, **_: Any) -> None:
    """Warm the process up; a prefork parent does it for its children, without opening threads or connections."""
    global _drain
    if _pool_name(sender) == "prefork":
        _drain = ParentDrain(sender, settings().drain_s)
        warm_up_to_fork()
        freeze_gc()  # Celery collects garbage before each fork, which takes long with LiteLLM loaded
        start_liveness(None, settings().lease_s)
        return
    pool = _pool_name(sender)
    if sender.pool_cls in ("threads", TaskPool):
        sender.pool_cls = ThreadPool
    _begin(pool, getattr(sender, "concurrency", None) or settings().slots)


@signals.worker_process_init.connect(weak=False)
def begin_child(**_: Any) -> None:
    """Warm a prefork child up; it works on one run at a time."""
    event = threading.Event()
    signal.signal(CHILD_SIGNAL, lambda *_: event.set())
    drain_of_child = _begin("prefork", 1)
    signal.signal(CHILD_SIGNAL, lambda *_: drain_of_child.begin())
    if event.is_set():  # the signal came while this child was warming up
        drain_of_child.begin()


@signals.worker_shutting_down.connect(weak=False)
def stop_claiming(**_: Any) -> None:
    """Begin to drain; Celery itself takes no more messages."""
    if _drain is not None:
        _drain.begin()


@signals.worker_process_shutdown.connect(weak=False)
@signals.worker_shutdown.connect(weak=False)
def leave(**_: Any) -> None:
    """Let the runs go, deliver events to observers, close the sessions with MCP servers, delete the worker's row.

    Celery waits for its tasks alone, and the poller may have begun another run: also in a prefork child that ends
    after ``--max-tasks-per-child`` tasks.
    """
    process = _alive
    if process is None:
        return
    if isinstance(_drain, Drain):  # a child whose start failed has that of its parent
        _drain.wait()
    if _observer_host is not None:
        _observer_host.stop()
    drain(2.0)
    close_all()
    try:
        process.journal.stores.workers.forget(process.journal.owner.id)
    except CallboardError as error:
        log.warning("the worker's row stays until it expires: %s", error)
    process.journal.close()


@signals.worker_shutdown.connect(weak=False)
def end(sender: Any = None, **_: Any) -> None:
    """Exit without teardown after Celery is done; prefork children do so by themselves.

    The loop stops first: the interpreter shuts the executors down, which the worker's periodic tasks still use.
    """
    stop_process_loop()
    end_without_teardown(int(getattr(sender, "exitcode", None) or 0))


_alive: Process | None = None
_observer_host: ObserverHost | None = None
_drain: Drain | ParentDrain | None = None


def drain_of_this_process() -> Drain:
    """Return the drain of the work that this process took up when its Celery worker was made."""
    if not isinstance(_drain, Drain):
        raise RuntimeError("this process works on no run by itself")
    return _drain


def _begin(pool: str, slots: int) -> Drain:
    global _alive
    began = time.monotonic()
    try:
        _alive = process = current_process()
    except CallboardError as error:
        raise SystemExit(f"error: {error} [{error.code}]") from None
    if process.settings.spans:
        enable_hooks()  # before a thread imports the tools' modules: half of an imported module has nothing to hook
    if is_imported():  # a prefork parent did it, so that the calls take hundredths of a second
        warm_up(process.journal.loop)
    loaded = process.journal.loop.run(rehearse(process), timeout_s=60)
    freeze_gc()
    own = _take_up_work(process, slots)
    _feed_observers(process)
    _serve_metrics(process)
    start_liveness(process.journal.loop, process.settings.lease_s)
    process.journal.loop.submit(_renew_row(process, pool, slots, loaded_tools(loaded)))
    log.info("worker is ready pool=%s slots=%s after_s=%.1f", pool, slots, time.monotonic() - began)
    if not is_imported():  # after the tools' modules: two threads that import each other's modules get halves of them
        is_needed = needs_litellm(process.registry, os.environ)
        warm_up_later(process.journal.loop, None if is_needed else process.settings.state)
    return own


async def rehearse(process: Process) -> list[LoadedAgent]:
    """Warm up: import tools, find observers, and claim a run that does not exist, so that the first run is fast.

    Returns the agents that can be used.
    """
    journal = process.journal
    loading = [asyncio.create_task(_try_agent(process, agent_id)) for agent_id in process.registry.ids()]
    if loading:  # a module whose import hangs delays its own agent's runs, not the worker
        await asyncio.wait(loading, timeout=IMPORTS_S)
    shipped = ("sse", "logger") if process.settings.builtins else ()
    await journal.loop.read(observers_for, shipped, process.settings, journal.live.hot_log)
    await journal.owner.claim("run_that_does_not_exist")
    await journal.live.hot_log.read_after("no-tenant", "run_that_does_not_exist", 0)
    return [agent for task in loading if task.done() and (agent := task.result()) is not None]


async def _try_agent(process: Process, agent_id: str) -> LoadedAgent | None:
    loaded = await process.journal.loop.read(try_load, process, agent_id)
    if isinstance(loaded, CallboardError):
        log.warning("agent cannot be used: %s", loaded)
        return None
    await process.journal.loop.read(_prepare_guardrails, process.settings, loaded[0])
    return loaded


def _prepare_guardrails(chosen: Settings, definition: AgentDefinition) -> None:
    """Compile what the agent's texts are checked for, which would otherwise delay the streams of the first runs."""
    scan_of(guardrails_of(chosen, definition.guardrails).output).prepare()


def _take_up_work(process: Process, number: int) -> Drain:
    """Start the poller, the maintenance and the worker's row; return the drain."""
    global _drain
    journal, slots = process.journal, open_slot_pool(number)
    _drain = own = Drain(process, slots)
    journal.live.relay.start()
    journal.owner.reaper.start()
    journal.loop.submit(Poller(process, slots).run())
    journal.loop.submit(TaskWatcher(process).run())
    journal.loop.submit(maintain(process))
    journal.loop.submit(watch_lost_calls(process.settings))
    return own


def _feed_observers(process: Process) -> None:
    """Feed the observers of ``CALLBOARD_OBSERVE`` from the log; one that cannot be loaded gets nothing."""
    global _observer_host
    if not process.settings.observed:
        return
    from observers.tailing.host import ObserverHost
    from observers.tailing.tailed import tailed_observers

    observers: dict[str, Tailed] = {}
    for name in process.settings.observed:
        try:
            observers |= {tailed.name: tailed for tailed in tailed_observers(name, process.settings)}
        except CallboardError as error:
            log.error("observer '%s' is not fed: %s", name, error)
    _observer_host = ObserverHost(process.settings, process.journal.database)
    for tailed in observers.values():
        try:
            _observer_host.start(tailed)
        except CallboardError as error:
            log.error("observer '%s' is not fed: %s", tailed.name, error)


def _serve_metrics(process: Process) -> None:
    """Serve ``/metrics`` where a port is set; another worker process of this machine may do so already."""
    if not process.settings.metrics_port:
        return
    from prometheus_client import start_http_server

    from observers.metrics.exposition import Exposition

    place = process.settings.metrics_port, process.settings.host
    try:
        start_http_server(*place, registry=Exposition(process.journal.database))
    except OSError as error:
        log.debug("this process serves no metrics: %s", error)


async def _renew_row(process: Process, pool: str, slots: int, tools: Sequence[LoadedTool]) -> None:
    """Renew this process's row for as long as the process lives; write its tools behind the first row."""
    journal, queues = process.journal, served_queues(process.settings)
    row = WorkerRow(
        id=journal.owner.id,
        host=socket.gethostname(),
        pid=os.getpid(),
        pool=pool,
        slots=slots,
        busy=0,
        queue=queues.default,
        queues=queues.names,
        version=own_version(),
    )
    is_listed, files, load = False, files_of(process.settings), ProcessLoad()
    while True:
        try:
            servers = await server_states(files, journal)
            await journal.loop.write(process.registry.register)
            keys = await journal.loop.read(_missing_keys, process)
            now = replace(row, busy=journal.owner.lease_manager.busy, abandoned=ABANDONED.counts())
            now = replace(now, cpu_share=load.cpu_share(), memory_share=memory_share(), dropped=dropped_payloads())
            now = replace(now, mcp_servers=servers, missing_keys=keys, draining=drain_of_this_process().has_begun)
            await journal.loop.write(journal.stores.workers.renew, now)
            if not is_listed:
                await journal.loop.write(journal.stores.tools.replace, row.id, tools)
                await journal.loop.write(_seed, journal)
                is_listed = True
        except CallboardError as error:
            log.warning("the worker's row could not be renewed: %s", error)
        await asyncio.sleep(process.settings.beat_s)


def _seed(journal: Journal) -> None:
    with journal.database.write() as connection:
        seed_node_types(connection)


def _missing_keys(process: Process) -> dict[str, list[str]]:
    """Return the keys that this worker lacks for the models of the agents whose runs come to it."""
    queues = served_queues(process.settings)
    used = (agent for agent in process.registry.usable() if queues.has(agent.queue))
    return process.model_keys.missing(used, os.environ)


def _pool_name(sender: Any) -> str:
    module = getattr(getattr(sender, "pool_cls", None), "__module__", "")
    return module.rpartition(".")[2] or "threads"
