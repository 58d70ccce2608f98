"""Internal events: what clients log about events outside, found by correlation id beside the runs that have it.

An event is immutable; a trigger of the database refuses a change. A run has the ``correlation_id`` of its metadata, or
else its trace id takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Row, Select, insert, select
from sqlalchemy.exc import IntegrityError

from bus.identity.access import logged_for, require_may_log, rows_for
from bus.journal.idempotency import IdempotencyKey, remember, used_before
from bus.journal.paging import Pages, has_correlation, newest_first
from config.clock import stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import internal_events, runs
from config.identity.principal import Principal, Verb
from config.ids import new_id
from config.redaction.redacted_data import without_secrets
from config.text.stored_texts import stored_name


@dataclass(frozen=True, kw_only=True, slots=True)
class NewInternalEvent:
    """An event as a client logs it."""

    correlation_id: str
    """What the event has in common with other events and with runs."""
    event_type: str
    source: str
    payload: Mapping[str, Any]


class InternalEvents:
    """The internal events that a principal sees; each call uses a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def log(
        self, principal: Principal, event: NewInternalEvent, idempotency: IdempotencyKey | None = None
    ) -> tuple[str, str]:
        """Commit an event without secrets, and return its id and its time; those of the first request for a used key.

        Raises:
            FORBIDDEN: the credential of the principal does not start runs.
            BadRequest: a name of the event has a secret.
            IDEMPOTENCY_CONFLICT: the key was used with another body.
        """
        require_may_log(principal)
        try:
            return self._log(principal, event, idempotency)
        except IntegrityError:  # another request with this key was first
            return self._log(principal, event, idempotency)

    def _log(
        self, principal: Principal, event: NewInternalEvent, idempotency: IdempotencyKey | None
    ) -> tuple[str, str]:
        with self._database.write() as connection:
            if idempotency is not None and (earlier := used_before(connection, principal, idempotency)) is not None:
                its = select(internal_events.c.created_ms).where(internal_events.c.id == earlier.run_id)
                return earlier.run_id, stamp(connection.execute(its).scalar_one())
            row = _row(principal, event)
            created_ms = connection.execute(_INSERT, row).scalar_one()
            if idempotency is not None:
                remember(connection, principal, idempotency, row["id"])
            return row["id"], stamp(created_ms)

    def correlated(
        self,
        principal: Principal,
        correlation_id: str,
        *,
        limit: int,
        before_ms: int | None = None,
        before_id: str = "",
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the events and runs with a correlation id, the newest first, and whether the page is shortened.

        ``before_ms`` and ``before_id`` are the time and the id of the last one of the page before. A page is shortened
        where the payloads reach 1 MB.
        """
        page: dict[str, Any] = {"limit": limit, "before_ms": before_ms, "before_id": before_id}
        with self._database.read() as connection:
            logged, is_cut = _events(connection, principal, correlation_id, page)
            started = connection.execute(_runs(principal, correlation_id, page)).all()
        events = [*((_key(row), _event(row)) for row in logged), *((_key(row), _run(row)) for row in started)]
        events.sort(key=lambda keyed: keyed[0], reverse=True)
        if is_cut:  # older runs belong to the next page, behind the events that this one has no room for
            last = _key(logged[-1])
            events = [keyed for keyed in events if keyed[0] >= last]
        return [event for _, event in events[:limit]], is_cut


def _events(
    connection: Connection, principal: Principal, correlation_id: str, page: Mapping[str, Any]
) -> tuple[list[Row[Any]], bool]:
    c = internal_events.c
    selection = select(internal_events).where(
        logged_for(principal, internal_events), c.correlation_id == correlation_id
    )
    query = newest_first(selection, c.created_ms, c.id, **page)
    return Pages(query=query, text=c.payload_json, order=(c.created_ms.desc(), c.id.desc())).read(connection)


def _runs(principal: Principal, correlation_id: str, page: Mapping[str, Any]) -> Select[Any]:
    c = runs.c
    selection = select(c.id, c.principal, c.agent_id, c.status, c.created_ms)
    selection = selection.where(rows_for(principal, Verb.SEE, runs), has_correlation(correlation_id))
    return newest_first(selection, c.created_ms, c.id, **page)


def _key(row: Row[Any]) -> tuple[int, str]:
    return row.created_ms, row.id


def _row(principal: Principal, event: NewInternalEvent) -> dict[str, Any]:
    return {
        "id": new_id("evt"),
        "tenant": principal.tenant,
        "principal": principal.id,
        **{name: stored_name(getattr(event, name), f"`{name}`") for name in ("correlation_id", "event_type", "source")},
        "payload_json": orjson.dumps(without_secrets(event.payload)).decode(),
    }


def _event(row: Row[Any]) -> dict[str, Any]:
    return {
        "kind": "event",
        "id": row.id,
        "event_type": row.event_type,
        "source": row.source,
        "payload": orjson.loads(row.payload_json),
        "principal": row.principal,
        "created_at": stamp(row.created_ms),
    }


def _run(row: Row[Any]) -> dict[str, Any]:
    return {
        "kind": "run",
        "id": row.id,
        "agent": row.agent_id,
        "status": row.status,
        "principal": row.principal,
        "created_at": stamp(row.created_ms),
    }


_INSERT = insert(internal_events).values(created_ms=WALL_MS).returning(internal_events.c.created_ms)
