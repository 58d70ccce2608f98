"""A log of many runs, written as rows: what observers tail, without agents that make it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import insert

from bus.journal.log.events import event_row
from bus.payloads import EndPayload, MessagePayload, Payload, StatusPayload
from config.clock import epoch_ms, stamp
from config.database.engine import Database
from config.database.tables import events, runs, threads
from config.ids import new_id

_BLANK: dict[str, Any] = {
    "kind": "agent",
    "agent_name": "Atlas",
    "definition_digest": "d" * 64,
    "model": "fake/model",
    "title": "Hello",
    "principal": "ana",
    "status": "running",
    "observers_json": "[]",
    "turn": 1,
    "fence": 1,
    "reserved_to": 1000,
    "crashes": 0,
    "steps": 0,
    "detached": False,
    "stop_requested": False,
    "observers_told": True,
}


class TailedLog:
    """Adds runs and their events to a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._keys = itertools.count(epoch_ms() % 1_000_000_000)

    def run(self, *, agent: str = "atlas", tenant: str = "default", labels: str | None = None, **values: Any) -> str:
        """Insert a run with a thread of its own, and return its id."""
        return self.runs(1, agent=agent, tenant=tenant, labels=labels, **values)[0]

    def runs(
        self, count: int, *, agent: str = "atlas", tenant: str = "default", labels: str | None = None, **values: Any
    ) -> list[str]:
        """Insert so many runs and return their ids."""
        ids, now_ms = [new_id("run") for _ in range(count)], epoch_ms()
        keys = [next(self._keys) for _ in ids]
        at = {"created_ms": now_ms, "tenant": tenant, "agent_id": agent}
        with self.database.write() as connection:
            thread = {"title": "", "next_message": 1, "updated_ms": now_ms, "principal": "ana", **at}
            connection.execute(insert(threads), [{"key": key, "id": f"thr_{key}", **thread} for key in keys])
            rows = zip(ids, keys, strict=True)
            own = {"labels_json": labels, **_BLANK, **at, **values}
            connection.execute(
                insert(runs), [{"id": id_, "thread_key": key, "thread_id": f"thr_{key}", **own} for id_, key in rows]
            )
        return ids

    def add(self, run_id: str, *payloads: Payload) -> None:
        """Commit events of one run in one transaction."""
        self.add_all((run_id, payload) for payload in payloads)

    def add_all(self, pairs: Iterable[tuple[str, Payload]]) -> None:
        """Commit events of several runs in one transaction, in order."""
        with self.database.write() as connection:
            connection.execute(insert(events), [event_row(payload, run_id, "thr", 1) for run_id, payload in pairs])

    def turn(self, run_ids: Sequence[str], messages: int = 1) -> int:
        """Commit a short life of each run: running, messages, the end; return how many events that are."""
        for number in range(messages + 2):
            self.add_all((run_id, _nth(number, messages)) for run_id in run_ids)
        return len(run_ids) * (messages + 2)


def _nth(number: int, messages: int) -> Payload:
    if number == 0:
        return status(1)
    if number <= messages:
        return message(number + 1)
    return end(number + 1)


def status(seq: int, status: str = "running") -> StatusPayload:
    return StatusPayload(seq=seq, at=stamp(), status=status, agent="atlas")


def message(seq: int, content: str = "Hello") -> MessagePayload:
    return MessagePayload(seq=seq, at=stamp(), role="assistant", content=content, message_id=f"msg_{seq}")


def end(seq: int) -> EndPayload:
    return EndPayload(seq=seq, at=stamp(), status="succeeded", steps=1, duration_ms=5)
