"""Maintenance of a worker: runs without an owner, the heads of the audit log, and what lost calls left.

It delivers the ends of runs without an owner to observers, and resumes those that waited for code. The heads of the
audit log belong to no run: this process's log and the observers that want them get them. Folders and containers that a
call left whose worker and guard were killed are removed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import orjson

from agents.compatibility import incompatibility, load_agent
from agents.governance.engine.governance import governance_of, report_end
from agents.process import Process
from agents.tools.isolation.call_folder import calls_folder, remove_lost_folders
from agents.tools.runners.container import remove_lost_containers
from bus.gc_tuning import FreeMemory, return_large_blocks
from bus.identity.audit.anchors import LOGGER, WORDS, AuditHead
from bus.identity.audit.due_heads import KnownHeads
from bus.identity.audit.recording import note_settings
from bus.journal.owner import Reason
from bus.payloads import EndPayload
from bus.queues import served_queues
from config.database.engine import Database
from config.definitions.errors import PluginUnknown
from config.errors import CallboardError, Permanent
from config.settings import Settings
from config.settings.container_engine import engine_of
from config.tracing import traced
from handlers.worker.slots import slot_pool
from observers.base import AgentObserver, facts_of
from observers.discovery import OBSERVERS, observers_for, resolve_observers
from observers.invoker import ObserverInvoker, queue_of
from observers.queue import name_of

log = logging.getLogger(__name__)

RESUME_EVERY = 12
"""Rounds of maintenance between two checks of all runs that wait for code; the first is at the worker's start."""
AT_ONCE = 50
"""Runs that wait for code or a model's key and are checked in each round."""


async def maintain(process: Process) -> None:
    """Run the maintenance every ``reap_s`` seconds for as long as the process lives."""
    return_large_blocks()
    loop, rounds, memory, heads = process.journal.loop, 0, FreeMemory(), KnownHeads()
    await loop.read(note_settings, process.journal.database, process.settings, "worker")
    while True:
        try:
            await loop.read(memory.give_back)
            await loop.read(deliver_undelivered, process)
            await loop.read(write_audit_heads, heads, process.journal.database, process.settings)
            await loop.read(resume_enabled, process)
            await loop.read(resume_compatible, process, None if rounds % RESUME_EVERY == 0 else AT_ONCE)
        except CallboardError as error:
            log.warning("maintenance is tried again: %s", error)
        except Exception:  # the task must survive any error
            log.exception("maintenance failed")
        rounds += 1
        await asyncio.sleep(process.settings.reap_s)


# --- ends that were written without an owner ------------------------------------------------------


def deliver_undelivered(process: Process, *, clock: Callable[[], float] = time.monotonic) -> int:
    """Deliver to observers the ends of runs that ended without an owner; return the number of runs.

    One worker at a time holds a lease on a run's delivery. If it dies or the delivery fails, any worker delivers again
    after that lease expired; the other runs are not affected. The governance engine gets the ends that were delivered.
    """
    until_s = clock() + process.settings.lease_s
    delivered = []
    for row in process.journal.owner.unowned.claim_undelivered():
        if clock() >= until_s:
            break  # the database is slow, and the other leases may have expired
        if _is_delivered(process, row):
            delivered.append(row)
    if process.settings.governance_url is not None:
        _report_ends(process, delivered)
    return len(delivered)


def _is_delivered(process: Process, row: Any) -> bool:
    """Deliver one run's events; return False where that has to be tried again."""
    try:
        _deliver_or_give_up(process, row)
        process.journal.owner.unowned.mark_delivered(row.id)
    except CallboardError as error:
        log.warning("observers get the end of a run later run_id=%s: %s", row.id, error)
        return False
    except Exception:  # an error of one run must not keep the others from being delivered
        log.exception("the end of a run could not be delivered to observers run_id=%s", row.id)
        return False
    return True


def _deliver_or_give_up(process: Process, row: Any) -> None:
    """Deliver one run's events; log the error where another try would fail too."""
    try:
        _deliver(process, row)
    except Permanent as error:
        log.error("the end of a run cannot be delivered to observers run_id=%s: %s", row.id, error)


def _deliver(process: Process, row: Any) -> None:
    """Deliver to observers what was written since the run's last owner: the end, and answers of persons.

    A second call delivers everything twice. The process that wrote these events has put them into the hot log.
    """
    observers, missing = resolve_observers(orjson.loads(row.observers_json), process.settings)
    if missing is not None:
        log.warning("an observer is not installed here and does not get the end run_id=%s: %s", row.id, missing)
    agent, facts = facts_of(row, row.id, orjson.loads(row.metadata_json or "{}"))
    invoker = ObserverInvoker(observers)
    for payload in process.journal.owner.unowned.undelivered(row):  # last, since a delivery cannot be undone
        invoker.agent_on_response(facts, agent, payload)


def _report_ends(process: Process, rows: Sequence[Any]) -> None:
    """Send the governance engine how these runs ended, all at once; what it does not get is not sent again."""
    unowned = process.journal.owner.unowned
    ends = [(row, payload) for row in rows for payload in unowned.undelivered(row) if isinstance(payload, EndPayload)]

    async def report() -> None:
        await asyncio.gather(*(_report_end(process, row, end) for row, end in ends))

    process.journal.loop.run(report())


async def _report_end(process: Process, row: Any, end: EndPayload) -> None:
    _, facts = facts_of(row, row.id, {})
    with traced(row.trace_id, row.correlation_id, row.id):
        await report_end(governance_of(process.settings, row, row.id, facts.golden), end)


# --- runs that wait for their principal ------------------------------------------------------------


def resume_enabled(process: Process) -> list[str]:
    """Queue the runs whose principal is enabled again, and return their ids; wake-ups are published."""
    unowned = process.journal.owner.unowned
    return [row.id for row in unowned.waiting_for_principals() if unowned.resume(row.id, Reason.PRINCIPAL_DISABLED)]


# --- runs that wait for code ----------------------------------------------------------------------


def resume_compatible(process: Process, at_most: int | None = None) -> list[str]:
    """Queue the runs that wait for code or a key and that this process can resume, and return their ids.

    No more than it has slots for: those that it leaves queued are taken by others, who would give them back.

    No wake-up is published, since an incompatible worker could get it; this process's poller takes them. If the process
    ends before, other pollers find them.
    """
    resumed: list[str] = []
    for row in islice(process.journal.owner.unowned.waiting_for_code(), at_most):
        if len(resumed) >= slot_pool().free:
            break
        if _is_compatible(process, row) and process.journal.owner.unowned.resume(row.id):
            log.info("a run that waited for code is compatible with this worker run_id=%s", row.id)
            slot_pool().want(row.id)
            resumed.append(row.id)
    return resumed


def _is_compatible(process: Process, row: Any) -> bool:
    """Return whether this process can resume the run, as far as its journal and agent show."""
    if not served_queues(process.settings).has(row.queue):
        return False
    try:
        progress = process.journal.owner.unowned.progress(row)
        loaded = load_agent(process, row.agent_id, row.definition_digest)
        process.model_keys.require(loaded[0], row.model)
    except CallboardError:
        return False
    return incompatibility(loaded, row.definition_digest, progress) is None


EVERY_S = 300.0
"""Seconds between two looks; the first one is at the worker's start."""


async def watch_lost_calls(settings: Settings) -> None:
    """Remove lost folders, and lost containers where they are on, for as long as the process lives."""
    engine = engine_of(settings.containers)
    while True:
        try:
            await asyncio.to_thread(remove_lost_folders, calls_folder(settings.state))
            if engine is not None:
                await asyncio.to_thread(remove_lost_containers, engine)
        except Exception:  # the task must survive any error
            log.exception("looking for what lost calls left failed")
        await asyncio.sleep(EVERY_S)


def write_audit_heads(head_store: KnownHeads, database: Database, settings: Settings) -> int:
    """Write the heads that are due in this process, which has one ``known``, and return how many."""
    heads = head_store.due(database)
    for head in heads:
        logging.getLogger(LOGGER).info(WORDS, extra=head.facts())
    for observer in _wanting(settings) if heads else ():
        for head in heads:
            queue_of(observer).call(partial(_give, observer, head))
    return len(heads)


def _wanting(settings: Settings) -> Iterable[AgentObserver]:
    """Return the installed observers that override the hook, each once."""
    by_id: dict[int, AgentObserver] = {}
    for name in OBSERVERS.names(settings):
        try:
            if OBSERVERS.find(name, settings).on_audit_head is not AgentObserver.on_audit_head:
                observer = observers_for([name], settings)[0]
                by_id[id(observer)] = observer
        except PluginUnknown as error:
            log.warning("observer '%s' does not get the heads of the audit log: %s", name, error)
    return by_id.values()


def _give(observer: AgentObserver, head: AuditHead) -> None:
    try:
        observer.on_audit_head(head)
    except BaseException as error:  # also SystemExit: an observer ends nothing but its own work
        log.warning("observer '%s' raised %s for a head of the audit log", name_of(observer), type(error).__name__)
