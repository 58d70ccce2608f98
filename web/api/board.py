"""The board: a stream of the summaries of all runs that the caller may see."""

from __future__ import annotations

from flask import Blueprint, Response

from web import parameters
from web.process import current_process
from web.security import current_who
from web.sse import StreamResponse

board = Blueprint("board", __name__)


@board.get("/v1/events")
def watch() -> Response:
    """Stream a snapshot, then each changed summary. A new connection starts with a snapshot again."""
    parameters.only("after", "last_event_id")
    who, hub = current_who(), current_process().hub
    hub.viewers.require_room()
    return StreamResponse(hub.viewers, lambda: hub.board_feed(who))
