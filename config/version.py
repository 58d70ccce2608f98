"""Which Callboard this is."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def own_version() -> str:
    """Return the installed version; ``unknown`` where the rooms run without an installation."""
    try:
        return version("callboard")
    except PackageNotFoundError:
        return "unknown"
