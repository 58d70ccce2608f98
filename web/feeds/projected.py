"""A run in another dialect, for one viewer: the same numbered log in other events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bus.journal import Journal, Line
from web.feeds.backlog import Backlog
from web.feeds.viewers import Viewer

log = logging.getLogger(__name__)

Project = Callable[[Line], bytes]
"""Returns what an event is in the dialect: frames, or nothing."""


class ProjectedFeed:
    """Goes from the run's beginning to its end, at the pace its viewer reads: the task waits for room itself."""

    def __init__(self, journal: Journal, backlog: Backlog, run_id: str, thread_id: str, project: Project) -> None:
        self._journal = journal
        self._backlog = backlog
        self._run_id = run_id
        self._thread_id = thread_id
        self._project = project

    def attach(self, viewer: Viewer) -> None:
        viewer.task = asyncio.get_running_loop().create_task(self._pour(viewer))

    def paused(self, viewer: Viewer) -> None:
        """Do nothing: the viewer's task waits for room, and ends with the viewer."""

    resumed = detach = paused

    async def _pour(self, viewer: Viewer) -> None:
        try:
            async for batch in self._journal.follow(self._run_id, self._thread_id, 0):
                data = b"".join(self._project(line) for line in batch)
                if data:
                    viewer.write(data)
                    if viewer.stuck_since:
                        self._backlog.hold(viewer, data, len(data))
                        await viewer.room()
                        self._backlog.release(viewer)
            viewer.finish()
        except Exception:
            log.exception("viewer dropped", extra={"run_id": self._run_id})
            viewer.drop()
