"""The effect classes of tools, as Callboard's glossary defines them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Effect(StrEnum):
    """What repeating a tool's call would do, from the safest class to the most dangerous."""

    PURE = "pure"
    """Nothing: it only reads or computes."""
    IDEMPOTENT = "idempotent"
    """Nothing more than calling it once."""
    KEYED = "keyed"
    """Nothing, if the caller sends the same ``idempotency_key()``."""
    UNSAFE = "unsafe"
    """Something, and its outcome cannot be found out. The default."""

    @property
    def annotations(self) -> dict[str, bool]:
        """MCP's hints that say the most of it which is true; ``destructiveHint`` is true where it is not known."""
        return dict(_ANNOTATIONS[self])


_ANNOTATIONS: Mapping[Effect, Mapping[str, bool]] = {
    Effect.PURE: {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False},
    Effect.IDEMPOTENT: {"readOnlyHint": False, "idempotentHint": True, "destructiveHint": True},
    # A client that knows no idempotency keys sends none, and then each call counts.
    Effect.KEYED: {"readOnlyHint": False, "idempotentHint": False, "destructiveHint": True},
    Effect.UNSAFE: {"readOnlyHint": False, "idempotentHint": False, "destructiveHint": True},
}
