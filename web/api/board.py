"""The board: what every run the caller may see is doing, as it changes."""

from __future__ import annotations

from flask import Blueprint, Response

from web import parameters
from web.process import here
from web.security import current_who
from web.sse import StreamResponse

board = Blueprint("board", __name__)


@board.get("/v1/events")
def watch() -> Response:
    """Stream a snapshot, then each summary that changes. A new connection begins with a snapshot again."""
    parameters.only("after", "last_event_id")
    who, hub = current_who(), here().hub
    hub.require_room()
    return StreamResponse(hub, lambda hub: hub.board_feed(who))
