"""A run in another dialect, for one viewer: the same numbered log, told differently."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from bus.journal.line import Line
from web.sse import Viewer

if TYPE_CHECKING:
    from web.hub import Hub

log = logging.getLogger(__name__)

Project = Callable[[Line], bytes]
"""Returns what an event is in the dialect: frames, or nothing."""


class ProjectedFeed:
    """Goes from the run's beginning to its end, at the pace its viewer reads."""

    def __init__(self, hub: Hub, run_id: str, thread_id: str, project: Project) -> None:
        self._hub = hub
        self._run_id = run_id
        self._thread_id = thread_id
        self._project = project

    def attach(self, viewer: Viewer) -> None:
        viewer.task = asyncio.get_running_loop().create_task(self._pour(viewer))

    def detach(self, viewer: Viewer) -> None:
        """Its task was cancelled, and nobody else watches this."""

    def choked(self, viewer: Viewer) -> None:
        """Its task waits for room."""

    def drained(self, viewer: Viewer) -> None:
        """Its task goes on by itself."""

    async def _pour(self, viewer: Viewer) -> None:
        try:
            async for batch in self._hub.journal.follow(self._run_id, self._thread_id, 0):
                data = b"".join(self._project(line) for line in batch)
                if data:
                    viewer.write(data)
                    if viewer.stuck_since:
                        self._hub.backlog.hold(viewer, data, len(data))
                        await viewer.room()
                        self._hub.backlog.release(viewer)
            viewer.finish()
        except Exception:
            log.exception("viewer dropped", extra={"run_id": self._run_id})
            viewer.drop()
