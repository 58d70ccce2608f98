"""The parameters that say of which runs a list or a count is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from bus.journal.readers import RunStatus
from web.calls.fields import Input, Maybe
from web.calls.parameters import Filter, Moment, choice

if TYPE_CHECKING:
    from bus.journal.readers import RunFilter


class RunFilters(Input):
    """Which runs are meant: those that fit every parameter, of the runs that you see."""

    status: Maybe[Annotated[str, choice("open", *RunStatus)]] = None
    """Only runs in this state; ``open``: all that have not ended."""
    agent: Maybe[Filter] = None
    """Only runs of this agent."""
    thread_id: Maybe[Filter] = None
    """Only runs of this conversation."""
    owner: Maybe[Filter] = None
    """Only runs of this principal; absent: of all whose runs you see."""
    trace_id: Maybe[Filter] = None
    """Only runs with this trace id."""
    correlation_id: Maybe[Filter] = None
    """Only runs with this correlation id."""
    since: Maybe[Annotated[Moment, Field(examples=["24h"])]] = None
    """Only runs that were accepted then or later: a time (RFC 3339), or a length back from now, as ``30m``, ``1h``,
    ``7d``. With ``code`` only those that ended then or later."""
    until: Maybe[Annotated[Moment, Field(examples=["1h"])]] = None
    """Only runs that were accepted then or earlier, likewise."""
    q: Maybe[Filter] = None
    """Only runs with these words in the title, in any case; or with this beginning of their id, ``run_…``, or its last
    characters, six or more."""
    code: Maybe[Filter] = None
    """Only runs that failed with this code; ``any``: all that failed."""
    queue: Maybe[Filter] = None
    """Only runs for this queue."""
    kind: Maybe[Literal["agent", "tool", "workflow", ""]] = None
    """Only runs of this kind."""
    model: Maybe[Filter] = None
    """Only runs that were accepted with this model."""
    tool: Maybe[Filter] = None
    """Only runs that have called this tool."""

    def filters(self, default_queue: str) -> RunFilter:
        """Return the filter of the journal; an empty parameter restricts nothing."""
        filters: RunFilter = {name: getattr(self, name) or None for name in _SAME}  # type: ignore[assignment]
        text = (self.q or "").strip() or None
        return filters | {"since_ms": self.since, "until_ms": self.until, "text": text, "default_queue": default_queue}


_SAME = "status agent thread_id owner trace_id correlation_id code queue kind model tool".split()
