"""The version of the journal's format. A worker resumes runs of its own and older versions; newer ones wait."""

from __future__ import annotations

from bus.journal.errors import CodeVersion

JOURNAL_VERSION = 1
"""To be raised when the format of steps, events or history changes so that older code would misread it."""


def require_readable_journal(journal: int) -> None:
    """Check that this code can read the run's journal; called before the journal is read.

    Raises:
        CodeVersion: newer code wrote it.
    """
    if journal > JOURNAL_VERSION:
        raise CodeVersion(
            f"this run's journal has form {journal}, and this worker's code reads {JOURNAL_VERSION}; update the worker."
        )
