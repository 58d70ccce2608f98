"""The calls of the first context service design: log an event, and find what belongs together."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from flask import Blueprint, Response
from pydantic import Field
from typing_extensions import TypeAliasType

from bus.journal.clients import NewInternalEvent
from bus.journal.errors import IDEMPOTENCY_CONFLICT
from bus.journal.readers import RunStatus
from config.tracing import MAX_CORRELATION_CHARS, correlate
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import ListPlace, Repeatable, Whole, next_place, place_of, sized
from web.errors import STRATEGY_UNKNOWN
from web.process import current_process


class LoggedEvent(Answer):
    """An event that is committed."""

    event_id: str
    created_at: str


class EventFound(Answer):
    """An event that was logged."""

    kind: Literal["event"]
    id: str
    """Its ``event_id``."""
    event_type: str
    source: str
    payload: dict[str, Any]
    principal: str
    """Who logged it."""
    created_at: str


class RunFound(Answer):
    """A run that was started with the correlation id, also as ``correlation_id`` of its metadata."""

    kind: Literal["run"]
    id: str
    """Its ``run_id``."""
    agent: str
    """The id of its agent."""
    status: RunStatus
    principal: str
    """Whom it belongs to."""
    created_at: str


Found = TypeAliasType("Found", EventFound | RunFound)


class QueryResults(Answer):
    """A page of what was found, the newest first."""

    results: list[Found]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


context = Blueprint("context", __name__)

MAX_PAYLOAD_BYTES = 16 * 1024
MAX_QUERY_CHARS = 1000
STRATEGIES = ("correlation",)
"""How a query is answered; another strategy is another name here."""
Strategy = Annotated[str, Field(json_schema_extra={"enum": [*STRATEGIES]})]  # the call refuses others: 422
Label = Annotated[
    str, Field(pattern=rf"^[\x20-\x7e]{{1,{MAX_CORRELATION_CHARS}}}$", examples=["discord-1287", "message.created"])
]
"""A short text of printable ASCII characters."""


class InternalEvent(Input):
    """An event outside, in the form that adapters of platforms give it."""

    correlation_id: Label
    """What it has in common with other events and with runs."""
    event_type: Label
    """What happened."""
    source: Label
    """Where it happened."""
    payload: Annotated[dict[str, Any], Field(examples=[{"content": "Hello"}]), sized(MAX_PAYLOAD_BYTES)]
    """What the source says about it; up to 16 KiB."""


@context.post("/events")
@call({201: LoggedEvent}, problems=(IDEMPOTENCY_CONFLICT,))
def log(body: InternalEvent, headers: Repeatable) -> Response:
    """Log an event, which nothing changes afterwards: 201 with its id and time."""
    correlate(body.correlation_id)
    fields = {name: getattr(body, name) for name in InternalEvent.model_fields}
    event_id, created_at = current_process().journal.stores.internal_events.log(
        current_principal(), NewInternalEvent(**fields), headers.idempotency(body)
    )
    return answer({"event_id": event_id, "created_at": created_at}, 201)


class KnowledgeQuery(Input):
    """A question, and how to answer it."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS, examples=["discord-1287"])]
    """With the strategy ``correlation`` a correlation id."""
    strategies: Annotated[list[Strategy], Field(min_length=1, max_length=10)] = Field(["correlation"])
    """``correlation``, the one strategy: the events and the runs with this correlation id."""
    limit: Annotated[int, Whole(1, 200)] = 50
    """Most results of a page."""
    before: ListPlace = None
    """``next`` of the page before."""


@context.post("/query")
@call({200: QueryResults}, problems=(STRATEGY_UNKNOWN,))
def query(body: KnowledgeQuery) -> Response:
    """Return the events and runs with a correlation id that the caller sees, the newest first.

    A page ends at its limit or where the payloads reach a megabyte. 422 names the known strategies.
    """
    for strategy in body.strategies:
        if strategy not in STRATEGIES:
            raise STRATEGY_UNKNOWN(strategy=strategy, known=", ".join(STRATEGIES))
    process = current_process()
    with process.large_work():
        results, is_cut = process.journal.stores.internal_events.correlated(
            current_principal(), body.query, limit=body.limit, **place_of(body.before)
        )
        count = len(results) if is_cut else body.limit
        return answer({"results": results, **next_place(results, count, "created_at", "id")})
