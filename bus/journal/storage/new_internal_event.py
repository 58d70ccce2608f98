"""An internal event before it is logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class NewInternalEvent:
    """An event as a client logs it."""

    correlation_id: str
    """What the event has in common with other events and with runs."""
    event_type: str
    source: str
    payload: Mapping[str, Any]
