"""The guardrails of a run, as the steps use them."""

from __future__ import annotations

from typing import Any, Protocol


class Guardrails(Protocol):
    """Checks and redacts before anything is stored, published or logged."""

    def output(self, tool: str, result: Any) -> Any:
        """Return a tool's result, JSON data, without what may not be kept.

        Raises:
            ModelVisible: the result is kept back as a whole; the message says why.
        """
        ...


class _Unguarded:
    def output(self, tool: str, result: Any) -> Any:
        del tool
        return result


UNGUARDED: Guardrails = _Unguarded()
