"""Releases of LiteLLM that nobody may run: known by their number, so without importing them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from config.errors import ReleaseRefused

TROJANED = ("1.82.7", "1.82.8")
"""Of March 2026: both collected keys and sent them away, the second whenever any Python started."""
TROJAN_FILE = "litellm_init.pth"
"""What 1.82.8 put beside the packages; an upgrade may leave it there."""
REMEDY = "change every key this machine could read, then remove .venv and run ./callboard again"


def installed_release() -> str | None:
    """Return the version of LiteLLM that an import would find, or None when there is none."""
    try:
        return version("litellm")
    except PackageNotFoundError:
        return None


def require_sound_release() -> None:
    """LiteLLM may be imported.

    Raises:
        ReleaseRefused: it is one that steals keys.
    """
    found = installed_release()
    if found in TROJANED:
        raise ReleaseRefused(f"LiteLLM {found} is a trojaned release that steals keys; {REMEDY}.", version=found)
