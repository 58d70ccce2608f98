"""The end of a run before its work is done, as a value; ``bus.journal.endings`` builds the commit that ends the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bus.journal.states.codes import Reason

if TYPE_CHECKING:
    from bus.payloads import EndStatus
    from config.errors import CallboardError


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a run ends before its work is done."""

    status: EndStatus
    reason: str
    """A ``Reason``, or the error's code."""
    note: str
    """The sentence shown in the thread."""
    error: CallboardError | None = None

    @property
    def step_status(self) -> str:
        """The status that an open model step gets."""
        return "cancelled" if self.status == "cancelled" else "failed"

    @classmethod
    def failed(cls, error: CallboardError, status: EndStatus = "failed") -> Ending:
        """Return the end of a run for an error; ``status`` is failed, or dead after its last crash."""
        return cls(status=status, reason=error.code, note=str(error), error=error)


STOPPED = Ending(status="cancelled", reason=Reason.STOPPED, note="Stopped by the user.")
