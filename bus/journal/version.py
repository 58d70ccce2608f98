"""The version of the journal's format. A worker resumes runs of its own and older versions; newer ones wait."""

from __future__ import annotations

from collections.abc import Mapping

from bus.journal.errors import CodeVersion
from bus.journal.records.steps import AGENT, TOOL, WORKFLOW

JOURNAL_VERSION = 4
"""To be raised when the format of steps, events or history changes so that older code would misread it."""
OF_KIND: Mapping[str, int] = {AGENT: 1, TOOL: 2, WORKFLOW: 4}
"""The version that each kind of run is written in: code of version 1 would begin an agent's turn for a tool's call,
and code of version 3 for a workflow."""
WITH_ORIGIN = 3
"""The version of a run that continues from another one: code of version 2 would make its recorded calls again."""


def require_readable_journal(journal: int) -> None:
    """Check that this code can read the run's journal; called before the journal is read.

    Raises:
        CodeVersion: newer code wrote it.
    """
    if journal > JOURNAL_VERSION:
        raise CodeVersion(
            f"this run's journal has form {journal}, and this worker's code reads {JOURNAL_VERSION}; update the worker."
        )
