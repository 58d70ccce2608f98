"""What workers see to besides runs: ends nobody told the observers, and runs that wait for code like ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from sqlalchemy import bindparam, or_, select, update

from agents.fitting import load_agent, misfit, require_known_form
from agents.process import Process
from bus.journal.leases import expired
from bus.journal.ownerless import Written, lock_run, write
from bus.journal.parting import stop_waiting_for_code
from bus.journal.progress import read_progress
from bus.payloads import StatusPayload, decode
from config.errors import CallboardError, CodeVersion
from config.tables import events, runs
from handlers.desk import desk
from observers.base import AgentFacts, RunFacts
from observers.discovery import observers_for
from observers.invoker import ObserverInvoker

log = logging.getLogger(__name__)

BATCH = 50


# --- ends that were written without an owner ------------------------------------------------------


def tell_untold(here: Process) -> int:
    """Tell the observers of runs that ended without an owner what they have not heard, and return how many runs.

    Each run is taken by one worker, as if it were claimed; if that one dies over it, the next one tells again.
    """
    told = 0
    for row in _take_untold(here):
        try:
            _tell(here, row)
        except CallboardError as wrong:
            log.warning("observers could not be told of an end run_id=%s: %s", row.id, wrong)
        _mark_told(here, row.id)
        told += 1
    return told


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
    """Tell what was written under the run's last fence, which no observer of an owner has heard."""
    observers = observers_for(tuple(orjson.loads(row.observers_json)), here.settings)
    facts = RunFacts(
        run_id=row.id, thread_id=row.thread_id, tenant=row.tenant, principal=row.principal, fence=row.fence,
        detached=row.detached, privileged=False, metadata=orjson.loads(row.metadata_json) if row.metadata_json else {},
    )  # fmt: skip
    agent = AgentFacts(id=row.agent_id, name=row.agent_name, model=row.model)
    invoker = ObserverInvoker(observers)
    query = select(events.c.data_json).where(events.c.run_id == row.id, events.c.fence == row.fence)
    with here.journal.read() as connection:
        lines = list(connection.execute(query.order_by(events.c.seq)).scalars())
    for line in lines:
        invoker.agent_on_response(facts, agent, decode(line))


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
