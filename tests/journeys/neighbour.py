"""This process as one more worker, which takes over without the seconds a worker process needs to begin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select

from agents.handle import RunHandle
from agents.process import current_process
from bus.journal.readers import steps_of
from bus.payloads import Payload, ResponsePayload, WithdrawnPayload
from config.database.tables import runs
from handlers.worker.run_agent_handler import Poller
from handlers.worker.slots import SlotPool
from tests.app_harness import AppHarness


@contextmanager
def neighbour(harness: AppHarness) -> Iterator[None]:
    """Look for lost runs and take queued ones, as every worker does."""
    journal, slots = harness.runner.journal, SlotPool(100)
    journal.owner.reaper.start()
    polling = journal.loop.submit(Poller(current_process(), slots).run())
    yield
    slots.close()
    polling.result(10)


def run_row(harness: AppHarness, handle: RunHandle) -> Any:
    """Return the run's row as it is now."""
    with harness.runner.journal.database.read() as connection:
        return connection.execute(select(runs).where(runs.c.id == handle.run_id)).one()


def step_rows(harness: AppHarness, handle: RunHandle) -> list[Any]:
    """Return the run's steps in order."""
    with harness.runner.journal.database.read() as connection:
        return list(steps_of(connection, handle.run_id))


def until(is_so: Callable[[], bool], timeout_s: float, what: str) -> float:
    """Return after how many seconds it was so."""
    began_s = time.monotonic()
    while not is_so():
        assert time.monotonic() - began_s < timeout_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)  # another process; only what it writes tells
    return time.monotonic() - began_s


def read_until_it_speaks(handle: RunHandle) -> int:
    """Return the number of the run's first piece of text, once it is there."""
    return next(event.seq for event in handle.events() if isinstance(event, ResponsePayload))


def standing(events: Sequence[Payload]) -> list[Payload]:
    """Return the events that were not withdrawn: those every viewer agrees on, whenever it came."""
    withdrawn = [event for event in events if isinstance(event, WithdrawnPayload)]
    gone = {n for event in withdrawn for first, last in event.ranges for n in range(first, last + 1)}
    return [event for event in events if event.seq not in gone]


def shown(events: Sequence[Payload]) -> str:
    """Return the text a viewer shows who saw these events."""
    return "".join(event.content for event in standing(events) if isinstance(event, ResponsePayload))
