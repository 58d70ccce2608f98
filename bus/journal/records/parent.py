"""What a child run has of its parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from config.tracing import span_id_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Parent:
    """Of which run, and of which of its steps, a new run is the child, and what it inherits."""

    child_id: str
    """The id of the new run."""
    run_id: str
    step_id: str
    credential: str | None
    credential_id: str | None
    trace_id: str | None
    correlation_id: str | None
    labels: frozenset[str]
    """What the parent has read."""
    max_rounds: int | None = None
    """Most rounds with tools that the parent has left for it; None: no limit but the agent's own."""

    timeout_ms: int | None = None
    """Milliseconds after which the child is stopped; None: the call has no limit of its own."""

    def columns(self) -> dict[str, Any]:
        """Return the columns of the new run's row."""
        return {
            "id": self.child_id,
            "parent_id": self.run_id,
            "parent_step": self.step_id,
            "credential": self.credential,
            "credential_id": self.credential_id,
            "trace_id": self.trace_id,
            "parent_span": span_id_of(self.step_id),
            "correlation_id": self.correlation_id,
            "labels_json": _json(sorted(self.labels)) if self.labels else None,
            "budget_json": _json({"rounds": self.max_rounds}) if self.max_rounds is not None else None,
        }


def _json(data: Any) -> str:
    return orjson.dumps(data).decode()
