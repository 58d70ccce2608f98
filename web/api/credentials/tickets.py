"""Tickets: a link to a run's events for clients that cannot send headers, such as a browser's EventSource."""

from __future__ import annotations

from flask import Blueprint, Response, url_for

from bus.identity.credentials.tickets import issue
from bus.journal.errors import RunUnknown
from config.clock import stamp
from web.api.answers import answer
from web.auth.authentication import current_caller, current_key_form, current_principal
from web.calls.call import call
from web.calls.fields import Answer
from web.process import current_process
from web.schemas.paths import RunId


class Ticket(Answer):
    """What opens the events of one run, once."""

    ticket: str
    expires_at: str
    """When it can no longer be used, UTC."""
    url: str
    """The address of the run's events with the ticket."""


tickets = Blueprint("tickets", __name__)


@tickets.post("/v1/runs/<run_id>/ticket")
@call({201: Ticket}, problems=(RunUnknown,))
def create(run_id: RunId) -> Response:
    """Return a ticket for the run's events: valid for 30 s and once, and as long as the caller's credential."""
    journal, form = current_process().journal, current_key_form()
    journal.readers.runs.bounds(current_principal(), run_id, 0)
    with journal.database.write() as connection:
        ticket, expires_ms = issue(connection, form, current_caller(), run_id)
    url = url_for("events.of_run", run_id=run_id, ticket=ticket)
    return answer({"ticket": ticket, "expires_at": stamp(expires_ms), "url": url}, 201)
