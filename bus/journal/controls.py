"""What a client may request of an open run, one row a verb: read by the journal, owners, HTTP and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.journal.states.codes import STOPPED, Ending, LeftAs, Reason
from bus.payloads import TERMINAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """A verb, and what it makes of a run: its end, a state that the run is left in, or a text for it."""

    verb: str
    """``POST /v1/runs/{id}/<verb>`` and ``./callboard <verb> RUN``."""
    kind: str
    """In the table ``controls``, from which an owner learns of the request, and in the event that answers it."""
    to: Ending | LeftAs | None
    """An owner ends the run at once, or releases it at the end of its step; without an owner it is done at once. None:
    the owner takes it up between two steps, and until then it waits with the run."""
    request: str
    """What the owner is asked to do, as ``to stop``."""
    help: str
    """For the terminal."""
    before: str = "queued"
    """The state, beside ``running``, in which a ``LeftAs`` applies."""
    before_reason: Reason | None = None
    """The reason for that state; None: any."""
    takes_back: str | None = None
    """The kind of the control that it takes back, while an owner has not read that."""
    takes_text: bool = False
    """Whether it comes with a text for the model."""
    takes_limits: bool = False
    """Whether it comes with limits of the run, or its priority."""

    takes_signal: bool = False
    """Whether it comes with the name of a signal, and its data."""

    @property
    def takes_data(self) -> bool:
        """Whether it comes with anything, so that it has an address and a command of its own."""
        return self.takes_text or self.takes_limits or self.takes_signal

    def is_done(self, status: str) -> bool:
        """Return whether a run in this state needs nothing more: it has ended, or was left as requested."""
        return status in TERMINAL or (self.to is not None and status == self.to.status)

    def applies(self, status: str, reason: str | None) -> bool:
        """Return whether a ``LeftAs`` can be made of a run in this state, without an owner."""
        return status == self.before and self.before_reason in (None, reason)


STOP = Control(
    verb="cancel",
    kind="stop",
    to=STOPPED,
    request="to stop",
    help="Stop RUN. Repeating it, or cancelling an ended run, changes nothing.",
)
PAUSE = Control(
    verb="pause",
    kind="pause",
    to=LeftAs(status="waiting", reason=Reason.PAUSED),
    request="to pause",
    help="Leave RUN at the end of its step, without a worker, until it is resumed.",
)
RESUME = Control(
    verb="resume",
    kind="resume",
    to=LeftAs(status="queued", reason=Reason.RESUMED),
    request="to resume",
    help="Continue RUN, which was paused.",
    before="waiting",
    before_reason=Reason.PAUSED,
    takes_back="pause",
)
STEER = Control(
    verb="steer",
    kind="steer",
    to=None,
    request="to take a message",
    help="Give RUN a message, which its model gets between two steps.",
    takes_text=True,
)
SET = Control(
    verb="set",
    kind="set",
    to=None,
    request="to change its limits or its priority",
    help="Change RUN while it is open: how many rounds with tools it may have, or its priority.",
    takes_limits=True,
)
SIGNAL = Control(
    verb="signal",
    kind="signal",
    to=None,
    request="to take a signal",
    help="Give RUN, a workflow, the signal that one of its nodes waits for.",
    takes_signal=True,
)
CONTROLS: Mapping[str, Control] = {control.verb: control for control in (STOP, PAUSE, RESUME, STEER, SET, SIGNAL)}
"""By their verb."""
