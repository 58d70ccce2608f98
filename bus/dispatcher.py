"""The route table: which transport takes the message of a run, decided by its queue and by whether a caller waits."""

from __future__ import annotations

from collections.abc import Mapping

from bus.routes import Transport

INLINE = "(inline)"
"""The route of runs whose caller waits in this process. A queue cannot have this name."""
OTHERS = "*"
"""The route of every queue that has none of its own."""


class Dispatcher:
    """Maps a queue to a transport; the caller of `Runner.run` does not see which one is used."""

    def __init__(self, routes: Mapping[str, Transport]) -> None:
        self._routes = routes

    def route(self, queue: str | None, *, detached: bool) -> Transport:
        """Return the transport of a run: inline where its caller waits and this process has that route."""
        if not detached and INLINE in self._routes:
            return self._routes[INLINE]
        return self._routes.get(queue or OTHERS, self._routes[OTHERS])
