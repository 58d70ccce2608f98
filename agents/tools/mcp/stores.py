"""The journal in which the client keeps definitions of tools and logins.

``agents/process.py`` opens it. That module stands above the tools, so it registers here how its journal is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from config.settings import Settings

if TYPE_CHECKING:
    from bus.journal import Journal


class OpenedJournal(Protocol):
    """A journal, and the settings it was opened with."""

    @property
    def settings(self) -> Settings: ...

    @property
    def journal(self) -> Journal: ...


_Source = TypeVar("_Source", bound=Callable[[], OpenedJournal | None])
_source: Callable[[], OpenedJournal | None] | None = None


def journal_source(source: _Source) -> _Source:
    """Have ``opened_journal`` ask ``source``, which returns None until the process has opened a journal."""
    global _source
    _source = source
    return source


def opened_journal() -> OpenedJournal | None:
    """Return the journal of this process; None in a command that has opened none, such as ``./callboard agents``."""
    return _source() if _source is not None else None
