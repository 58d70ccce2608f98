"""Names of calls for a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def counted_names(names: Iterable[str]) -> list[str]:
    """Return each name once, in the order of the calls; several calls of one as ``2 calls of order_supplies``."""
    return [name if number == 1 else f"{number} calls of {name}" for name, number in Counter(names).items()]
