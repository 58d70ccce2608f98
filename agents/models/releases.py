"""Refuses compromised releases of LiteLLM, by their version number and without importing them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from agents.models.errors import ReleaseRefused

TROJANED = ("1.82.7", "1.82.8")
"""Releases of March 2026: both sent keys to an attacker, the second one at every start of Python."""
TROJAN_FILE = "litellm_init.pth"
"""The file that 1.82.8 put into site-packages; an upgrade may leave it there."""
REMEDY = "change every key this machine could read, then remove .venv and run ./callboard again"


def installed_release() -> str | None:
    """Return the version of LiteLLM that an import would find, or None when there is none."""
    try:
        return version("litellm")
    except PackageNotFoundError:
        return None


def require_sound_release() -> None:
    """Check that LiteLLM may be imported.

    Raises:
        ReleaseRefused: the installed release is malicious.
    """
    release = installed_release()
    if release in TROJANED:
        raise ReleaseRefused(f"LiteLLM {release} is a trojaned release that steals keys; {REMEDY}.", version=release)
