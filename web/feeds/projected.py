"""A run's log for one viewer, with its events translated to another wire format."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from bus.journal import Line
from config.errors import CallboardError
from web.feeds.backlog import Backlog
from web.feeds.viewers import Viewer

if TYPE_CHECKING:
    from bus.journal import Journal

log = logging.getLogger(__name__)

Project = Callable[[Line], bytes]
"""Returns the frames of an event in the other format; empty where it has none."""


class ProjectedFeed:
    """Streams a run from its first event to its end, as fast as the viewer reads: its task waits for buffer space."""

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
            async with aclosing(self._journal.follow(self._run_id, self._thread_id, 0)) as batches:
                async for batch in batches:
                    await self._write(viewer, b"".join(self._project(line) for line in batch))
            viewer.finish()
        except CallboardError as error:  # such as a run that was removed while it was watched
            log.info("viewer dropped: %s", error, extra={"run_id": self._run_id})
            viewer.drop()
        except Exception:
            log.exception("viewer dropped", extra={"run_id": self._run_id})
            viewer.drop()

    async def _write(self, viewer: Viewer, data: bytes) -> None:
        viewer.write(data)
        if viewer.stuck_since:
            self._backlog.hold(viewer, data, len(data))
            await viewer.room()
            self._backlog.release(viewer)
