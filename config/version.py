"""Which Callboard this is."""

from __future__ import annotations

from config.project import project


def own_version() -> str:
    """Return the version of this checkout."""
    return str(project()["version"])
