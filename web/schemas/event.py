"""Events: a model for each type, made of its declaration in `bus/payloads`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_type_hints

from pydantic import Field, create_model
from typing_extensions import TypeAliasType

from bus.payloads import EVENT_TYPES, Payload
from web.calls.fields import NOT_NULL, Answer
from web.schemas.run import RunSummary


class Envelope(Answer):
    """What every event has."""

    seq: int
    """Its number in its run, from 1; the cursor of a reader that has it."""
    run_id: str
    thread_id: str
    at: str
    """When it was numbered, UTC."""


def _model_of(kind: type[Payload]) -> type[Answer]:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {"type": (Literal[kind.type], ...)}
    for name, _ in kind.own_fields:
        default = ... if name in kind.required else None
        fields[name] = (Annotated[hints[name], NOT_NULL], default)
    name = f"{kind.__name__.removesuffix('Payload')}Event"
    model = create_model(name, __base__=Envelope, __doc__=kind.__doc__, **fields)
    model.described_in = kind
    return model


EVENTS = {name: _model_of(kind) for name, kind in EVENT_TYPES.items()}
"""The model of each type of event."""
EndEvent = EVENTS["end"]
if TYPE_CHECKING:
    Event = Answer
else:
    Event = TypeAliasType("Event", Annotated[Union[tuple(EVENTS.values())], Field(discriminator="type")])  # noqa: UP007
"""An event of any type that this release knows."""


class EventPage(Answer):
    """The events after the cursor: up to 500, or a megabyte."""

    events: list[Event]
    cursor: str
    """Where the next page begins."""
    ended: bool
    """Whether no event follows this page, and none will: the run has ended, and this is its last page."""


class BoardCounts(Answer):
    """How many runs the caller sees in each state, also where the board does not show all of them."""

    queued: int
    running: int
    waiting: int
    questions: int
    """Waiting runs that ask a person."""
    failed: int
    """Failed and dead runs that ended within the last 24 hours."""


class BoardSnapshot(Answer):
    """The first event of the board, ``snapshot``: what it shows."""

    runs: list[RunSummary]
    """Up to 100 of each group: questions, running, waiting, queued, failed within 24 hours, ended otherwise. Questions,
    waiting and queued runs are the oldest, the others the newest."""
    counts: BoardCounts


class BoardChange(Answer):
    """An event ``board``: the numbers, after the summaries that changed."""

    counts: BoardCounts
    gone: list[str]
    """The ids of runs that the board shows no more: removed, or behind others of their group."""


BoardEvent = TypeAliasType("BoardEvent", BoardSnapshot | RunSummary | BoardChange)
"""``snapshot``, then a ``run`` for each summary that changes, and a ``board`` where the numbers do."""
