"""What carries out the calls of a capability."""

from __future__ import annotations

from typing import Any, Protocol


class CapabilityRunner(Protocol):
    """Carries out calls; ``call`` is the tool's function, so it is timed and cancelled like every tool's."""

    async def call(self, **arguments: Any) -> Any:
        """Return the result of one call, JSON data.

        When it is cancelled, or its worker dies, everything that it started is ended.

        Raises:
            CapabilityFailed, OutputNotJson: the call failed.
            ToolCutOff, OutputTooLong: it may have taken effect.
            SECRET_MISSING: nothing was started.
        """
        ...
