"""Parents and children: a run's end reaches its parent in the same transaction, and its open children right after it.

A run that is stopped or fails has its children stopped, each in a transaction of its own behind the parent's, and so
on down to the last descendant. If this process dies between two of them, any process's reaper finds open children of
an ended parent and does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bus.journal.actors.live import Live
from bus.journal.controls import STOP, Control
from bus.journal.log.children import open_children
from bus.journal.log.family import Family
from bus.journal.mailbox.control import stop_child
from bus.journal.states.conditions import has_open_child
from bus.journal.states.lease import Lease
from bus.journal.states.release import Release
from bus.journal.unowned.transitions import CommitResult, note_children, note_parent
from bus.loop import ProcessLoop
from bus.payloads import EndPayload
from config.database.engine import Database
from config.errors import CallboardError

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """What is to be done behind a run's last commit."""

    written: Sequence[CommitResult | None] = ()
    """What was written for its parent, and in its own log, without an owner."""
    orphaned: str | None = None
    """The run itself, where it has left open children."""


class RunFamily(Family):
    """The parents and the children of the runs of one process's database."""

    def __init__(
        self, database: Database, loop: ProcessLoop, live: Live, control_local: Callable[[str, Control], bool]
    ) -> None:
        self._database, self._loop, self._live, self._control_local = database, loop, live, control_local

    def note(
        self, connection: Connection, lease: Lease, end: EndPayload | None, release: Release | None
    ) -> Noted | None:
        """Write for the parent that its child has ended or asks a person, and for a run that waits that its own do."""
        if end is not None:
            is_cut_off = end.status != "succeeded" and has_open_child(connection, lease.run_id)
            parent = note_parent(connection, lease, end.status)
            return Noted(written=[parent], orphaned=lease.run_id if is_cut_off else None)
        if release is None or release.status != "waiting":
            return None
        parent = note_parent(connection, lease, release.status) if release.questions else None
        return Noted(written=[note_children(connection, lease.run_id), parent])

    def publish(self, noted: Noted | None) -> None:
        """Publish what ``note`` has written, and stop the children of a run that was cut off."""
        if noted is None:
            return
        for written in noted.written:
            if written is not None:
                self._live.publish(written)
        if noted.orphaned is not None:
            self.stop_children(noted.orphaned)

    def stop_children(self, run_id: str) -> None:
        """Stop the open children of a run that has ended, or was asked to stop.

        That is done before this returns, or soon where the loop calls it.
        """
        if self._loop.is_loop_thread():
            self._loop.submit(self._loop.wait(self._stop_children, run_id))
        else:
            self._stop_children(run_id)

    def _stop_children(self, run_id: str) -> None:
        try:
            with self._database.read() as connection:
                children = open_children(connection, run_id)
            for child in children:
                self._stop(child)
        except CallboardError as error:
            log.warning("a reaper stops the children of a run run_id=%s: %s", run_id, error)

    def _stop(self, child: str) -> None:
        written = stop_child(self._database, child)
        if written is None:
            return
        self._live.publish(written)  # which stops the child's own children, where the child has ended by it
        if not written.is_end:
            self._loop.call_soon(lambda: self._reach(child))
            self._stop_children(child)

    def _reach(self, child: str) -> None:
        """Stop the child if this process owns it; otherwise nudge its owner to read the request now."""
        if not self._control_local(child, STOP):
            self._live.hot_log.nudge(self._live.keys.nudges, f"{STOP.kind} {child}")
