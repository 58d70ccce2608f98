"""The seam between asking for a run and working it off; the caller never learns which route was taken."""

from __future__ import annotations

from bus.messages import RunAgentMessage
from bus.routes import Route


class Dispatcher:
    """Chooses the route of a message."""

    def __init__(self, synchronous: Route, asynchronous: Route) -> None:
        self._synchronous = synchronous
        self._asynchronous = asynchronous

    def dispatch(self, message: RunAgentMessage, *, here: bool) -> None:
        """Send an accepted run's message on its way: handled in this process if ``here``, else by the fleet."""
        route = self._synchronous if here else self._asynchronous
        route.send(message)
