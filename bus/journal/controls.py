"""What a client may request of an open run, one row a verb: read by the journal, owners, HTTP and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bus.journal.states.codes import STOPPED, Ending
from bus.payloads import TERMINAL

if TYPE_CHECKING:
    from bus.journal.states.release import Release


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """A verb, and what it makes of a run: its end, or a state that the run is left in."""

    verb: str
    """``POST /v1/runs/{id}/<verb>`` and ``./callboard <verb> RUN``."""
    kind: str
    """In the table ``controls``, from which an owner learns of the request."""
    to: Ending | Release
    """An owner ends the run at once, or releases it at the end of its step; without an owner it is done at once."""
    request: str
    """What the owner is asked to do, as ``to stop``."""
    help: str
    """For the terminal."""
    before: str = "queued"
    """The state, beside ``running``, in which a ``Release`` applies."""

    def is_done(self, status: str) -> bool:
        """Return whether a run in this state needs nothing more: it has ended, or was left as requested."""
        return status in TERMINAL or status == self.to.status


STOP = Control(
    verb="cancel",
    kind="stop",
    to=STOPPED,
    request="to stop",
    help="Stop RUN. Repeating it, or cancelling an ended run, changes nothing.",
)
CONTROLS: Mapping[str, Control] = {control.verb: control for control in (STOP,)}
"""By their verb."""
