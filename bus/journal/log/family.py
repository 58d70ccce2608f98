"""What a run's parent and children learn of the run's commits, as its writer tells them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from bus.journal.states.lease import Lease
from bus.journal.states.release import Release
from bus.payloads import EndPayload


class Family:
    """A run without a parent and without children; ``unowned.children`` has that of a journal."""

    def note(self, connection: Connection, lease: Lease, end: EndPayload | None, release: Release | None) -> Any:
        """Write in the run's transaction what the parent learns of the run's end or release; return what to publish."""

    def publish(self, noted: Any) -> None:
        """Publish what ``note`` returned for the run's last commit; on the loop, after that commit."""


NO_FAMILY = Family()
