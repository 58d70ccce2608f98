"""What workers see to besides runs: ends nobody told the observers, and runs that wait for code like ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
from sqlalchemy import bindparam, or_, select, update

from agents.fitting import load_agent, misfit, require_known_form
from agents.process import Process
from bus.journal.events import unheard
from bus.journal.leases import expired
from bus.journal.ownerless import Written, lock_run, write
from bus.journal.parting import stop_waiting_for_code
from bus.journal.progress import read_progress
from bus.payloads import StatusPayload
from config.errors import CallboardError, CodeVersion, Permanent
from config.tables import runs
from handlers.audience import audience
from handlers.desk import desk
from observers.base import AgentFacts, RunFacts
from observers.invoker import ObserverInvoker

log = logging.getLogger(__name__)

BATCH = 50


# --- ends that were written without an owner ------------------------------------------------------


def tell_untold(here: Process, *, clock: Callable[[], float] = time.monotonic) -> int:
    """Tell the observers of runs that ended without an owner what they have not heard, and return how many runs.

    Each run is taken by one worker, as if it were claimed. If that one dies over it, or cannot tell it now, it is
    told again once that lease has run out, here or elsewhere; the other runs are told all the same.
    """
    until_s = clock() + here.settings.lease_s
    told = 0
    for row in _take_untold(here):
        if clock() >= until_s:
            break  # the database is slow, and the rest may be another worker's by now
        told += _is_told(here, row)
    return told


def _is_told(here: Process, row: Any) -> bool:
    """Tell of one end and return whether that is done with."""
    try:
        _tell_or_give_up(here, row)
        _mark_told(here, row.id)
    except CallboardError as wrong:
        log.warning("observers are told of an end later run_id=%s: %s", row.id, wrong)
        return False
    except Exception:  # whatever it is, the others must be told
        log.exception("observers could not be told of an end run_id=%s", row.id)
        return False
    return True


def _tell_or_give_up(here: Process, row: Any) -> None:
    """Tell of one end; where trying again would change nothing, say so instead."""
    try:
        _tell(here, row)
    except Permanent as wrong:
        log.error("observers cannot be told of an end run_id=%s: %s", row.id, wrong)


def _take_untold(here: Process) -> Sequence[Any]:
    database, journal = here.journal.database, here.journal
    free = or_(runs.c.lease_until.is_(None), expired(database))
    with database.read() as connection:
        untold = select(runs.c.id).where(~runs.c.observers_told, free).limit(BATCH)
        ids = list(connection.execute(untold).scalars())
    if not ids:
        return []
    mine = {
        "owner": journal.owner, "lease_boot": database.lease_boot(),
        "lease_until": database.lease_clock() + int(here.settings.lease_s * 1000),
    }  # fmt: skip
    with database.write() as connection:
        taking = update(runs).where(runs.c.id.in_(ids), ~runs.c.observers_told, free).values(**mine).returning(runs)
        return connection.execute(taking).all()


def _tell(here: Process, row: Any) -> None:
    """Tell what was written since the run's last owner, which no observer has heard: the end, and a person's answers.

    Done twice, all of it is told twice. Viewers were shown it by whoever wrote it; nothing goes to the hot log here.
    """
    observers, missing = audience(orjson.loads(row.observers_json), here.settings)
    if missing is not None:
        log.warning("an observer is missing here and not told of an end run_id=%s: %s", row.id, missing)
    facts = RunFacts(
        run_id=row.id, thread_id=row.thread_id, tenant=row.tenant, principal=row.principal, fence=row.fence,
        detached=row.detached, privileged=False, metadata=orjson.loads(row.metadata_json) if row.metadata_json else {},
    )  # fmt: skip
    agent = AgentFacts(id=row.agent_id, name=row.agent_name, model=row.model)
    invoker = ObserverInvoker(observers)
    with here.journal.read() as connection:
        payloads = unheard(connection, row.id, row.fence + 1)
    for payload in payloads:  # only now that nothing can go wrong any more: what was told cannot be taken back
        invoker.agent_on_response(facts, agent, payload)


def _mark_told(here: Process, run_id: str) -> None:
    with here.journal.database.write() as connection:
        connection.execute(_TOLD, {"its_id": run_id})


_TOLD = update(runs).where(runs.c.id == bindparam("its_id")).values(observers_told=True, owner=None, lease_until=None)


# --- runs that wait for code ----------------------------------------------------------------------


def take_up_fitting(here: Process) -> list[str]:
    """Send runs that wait for other code back to the queue where this process has what they need, and return them.

    Nobody is told but this process's own poller: a message could bring them to the worker that had to leave them.
    Where this process goes away before it takes them, other pollers find them.
    """
    taken = []
    for run_id in _waiting_for_code(here):
        written = _take_up(here, run_id)
        if written is not None:
            log.info("a run that waited for other code can go on here run_id=%s", run_id)
            here.journal.spread(written)
            desk().want(run_id)
            taken.append(run_id)
    return taken


def _waiting_for_code(here: Process) -> Iterator[str]:
    """Yield every run that waits for code, a page at a time: those that do not fit here hide none that does."""
    waiting = select(runs.c.id).where(runs.c.status == "waiting", runs.c.reason == CodeVersion.code)
    page, last = [""], ""
    while page:
        with here.journal.read() as connection:
            page = list(connection.execute(waiting.where(runs.c.id > last).order_by(runs.c.id).limit(BATCH)).scalars())
        yield from page
        last = page[-1] if page else last


def _take_up(here: Process, run_id: str) -> Written | None:
    if not _fits(here, run_id):
        return None
    with here.journal.database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None or row.status != "waiting" or row.reason != CodeVersion.code:
            return None
        goes_on = StatusPayload(status="queued", reason=CodeVersion.code)
        stop_waiting_for_code(connection, run_id)
        return write(connection, row, [goes_on], status="queued", reason=CodeVersion.code, detail=None)


def _fits(here: Process, run_id: str) -> bool:
    """Return whether this process could go on with the run, as far as that can be seen without beginning."""
    with here.journal.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run_id)).first()
    if row is None:
        return False
    try:
        require_known_form(row.journal)
        loaded = load_agent(here, row.agent_id, row.definition_digest)
    except CallboardError:
        return False
    with here.journal.read() as connection:
        return misfit(loaded, row.definition_digest, read_progress(connection, run_id)) is None
