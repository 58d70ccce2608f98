"""Tickets: each opens the events of one run once, within 30 s, in the name of the caller that asked for it."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert

from bus.identity.credentials.credential import Caller, from_json, to_json
from bus.identity.credentials.key_form import KeyForm
from config.database.engine import WALL_MS, wall_ms
from config.database.tables import feed_tickets

LIFETIME_MS = 30_000


def issue(connection: Connection, form: KeyForm, caller: Caller, run_id: str) -> tuple[str, int]:
    """Return a new ticket, and when it expires in milliseconds since 1970; expired ones are deleted."""
    connection.execute(delete(feed_tickets).where(feed_tickets.c.expires_ms <= WALL_MS))
    ticket, expires_ms = form.make_ticket(), wall_ms(connection) + LIFETIME_MS
    row = {"digest": form.digest(ticket), "run_id": run_id, "caller_json": to_json(caller), "expires_ms": expires_ms}
    connection.execute(insert(feed_tickets), row)
    return ticket, expires_ms


def take(connection: Connection, form: KeyForm, ticket: str, run_id: str) -> Caller | None:
    """Return the caller that a ticket stands for, and use the ticket up; None: it is not valid for this run."""
    ours = feed_tickets.c.digest == form.digest(ticket), feed_tickets.c.run_id == run_id
    taking = delete(feed_tickets).where(*ours, feed_tickets.c.expires_ms > WALL_MS)
    caller_json = connection.execute(taking.returning(feed_tickets.c.caller_json)).scalar_one_or_none()
    return None if caller_json is None else from_json(caller_json)
