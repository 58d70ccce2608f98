"""The messages that wait in a conversation: list, edit, put first, send now, remove."""

from __future__ import annotations

from typing import Annotated, Literal

from flask import Blueprint, Response

from agents.errors import INPUT_EMPTY, INPUT_TOO_LARGE
from agents.governance.guardrails.errors import INPUT_BLOCKED
from bus.journal.errors import CONTROL_REFUSED, MESSAGE_TAKEN, RunUnknown, ThreadUnknown
from config.errors import BadRequest
from web.api.answers import answer
from web.api.threads import WhoseThread
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Whole
from web.process import current_process
from web.schemas.paths import RunId, Sentence, ThreadId
from web.schemas.run import ControlledRun


class QueuedMessage(Answer):
    """A message that waits."""

    kind: Literal["message", "steer"]
    """``steer``: a text for the conversation's open run, which its model has not got."""
    run_id: str
    """The run that it begins, or that it is for."""
    content: str
    at: str
    """When it was sent."""
    agent: Maybe[str] = None
    control_id: Maybe[str] = None
    """Of a steer."""
    by: Maybe[str] = None
    """Who sent the steer."""


class Queue(Answer):
    """A page of the messages that wait in a conversation, the next one first."""

    queue: list[QueuedMessage]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class WhichQueued(WhoseThread):
    """Which of the messages that wait to list."""

    limit: Annotated[int, Whole(1, 500)] = 200
    """Most messages of a page."""
    after: Annotated[int, Whole(0, 2**31 - 1)] = 0
    """``next`` of the page before."""


EDITING = RunUnknown, MESSAGE_TAKEN, CONTROL_REFUSED, INPUT_BLOCKED, INPUT_EMPTY, INPUT_TOO_LARGE
queues = Blueprint("queues", __name__)


@queues.get("/v1/threads/<thread_id>/queue")
@call({200: Queue}, problems=(ThreadUnknown,))
def listed(thread_id: ThreadId, query: WhichQueued) -> Response:
    """List the messages that wait; a page ends at its limit or at a megabyte."""
    process = current_process()
    with process.large_work():
        entries, following = process.journal.clients.queue_of(
            current_principal(), thread_id, owner=query.owner or None, after=query.after, limit=query.limit
        )
        rest = {"next": str(following)} if following is not None else {}
        return answer({"queue": entries, **rest})


def _require_owner(run_id: str, query: WhoseThread) -> None:
    """Return unless the thread that is meant belongs to another principal than the run.

    Raises:
        RunUnknown: it does.
    """
    if query.owner:
        run = current_process().journal.readers.runs.row(current_principal(), run_id)
        if run.principal != query.owner:
            raise RunUnknown(run_id=run_id)


class EditMessage(Input):
    """What to change about a message that waits."""

    content: Maybe[Sentence] = None
    """Its new text."""
    place: Maybe[Literal["first", "now"]] = None
    """``first``: before the others that wait. ``now``: also stop the run that the conversation is at."""


@queues.patch("/v1/threads/<thread_id>/queue/<run_id>")
@call({200: ControlledRun}, problems=EDITING)
def edit(thread_id: ThreadId, run_id: RunId, query: WhoseThread, body: EditMessage) -> Response:
    """Edit a message, move it, or both; 409 where its run has begun meanwhile, or cannot take another text.

    A request that is refused changes nothing.
    """
    from agents.delegation.queued_text import edit_queued  # brings the guardrails, which no process needs before

    process, principal = current_process(), current_principal()
    _require_owner(run_id, query)
    if body.content is not None:
        registry, change = process.runner.registry, (body.content, body.place)
        written = edit_queued(process.journal, registry, principal, thread_id, run_id, *change)
    elif body.place is not None:
        written = process.journal.clients.edit_queued(principal, thread_id, run_id, place=body.place)
    else:
        raise BadRequest("name what to change: `content`, `place` or both.")
    return answer({"run_id": written.run_id, "thread_id": written.thread_id, "status": written.status})


@queues.delete("/v1/threads/<thread_id>/queue/<run_id>")
@call({204: None}, problems=(RunUnknown, MESSAGE_TAKEN))
def remove(thread_id: ThreadId, run_id: RunId, query: WhoseThread) -> Response:
    """Take a message out of the conversation: its run is cancelled, and no model gets it."""
    _require_owner(run_id, query)
    current_process().journal.clients.remove_queued(current_principal(), thread_id, run_id)
    return Response(status=204)
