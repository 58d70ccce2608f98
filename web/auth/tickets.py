"""Tickets of streams, which go into an address where a client cannot send headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.identity.credentials import tickets
from bus.identity.credentials.credential import Caller
from bus.identity.credentials.key_form import KeyForm
from bus.identity.validity import ended

if TYPE_CHECKING:
    from bus.journal import Journal

ENDPOINT = "events.of_run"
"""The one endpoint that takes a ticket."""
PARAMETER = "ticket"


def caller_of(journal: Journal, form: KeyForm, ticket: str, run_id: str) -> Caller | None:
    """Return who asked for the ticket, if it is valid for this run and its credential still is.

    What this deployment did not make is refused without a query.
    """
    if not form.is_ticket(ticket):
        return None
    with journal.database.write() as connection:
        caller = tickets.take(connection, form, ticket, run_id)
    if caller is None or ended(journal.database, [caller], journal.settings.tls_principals):
        return None
    return caller
