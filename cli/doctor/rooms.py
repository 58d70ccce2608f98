"""Check that no installed package hides, or is hidden by, a folder of Callboard's."""

from __future__ import annotations

from cli.doctor.finding import Verdicts, ok, warn
from config.folders import foreign_packages, require_own_folders
from config.settings import Settings


def check_rooms(_: Settings) -> Verdicts:
    """Yield the installed packages that have the name of a folder of ours."""
    require_own_folders()
    found = foreign_packages()
    for room, file in found.items():
        yield warn(
            f"{file} has the name of our folder {room}/; ours wins while ./callboard starts things. Uninstall it."
        )
    if not found:
        yield ok("each import finds Callboard's own folder")
