"""Checks of the state folder, and of the disks under it and under a SQLite file."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url

from cli.doctor.finding import Verdicts, fail, ok, warn
from cli.doctor.mounts import mount_of
from config.database.migrate import make_folder
from config.settings import Settings

MOUNTINFO = Path("/proc/self/mountinfo")


def check_state_folder(settings: Settings) -> Verdicts:
    """Yield whether other users can read the state folder."""
    if not settings.state.exists():
        yield ok(f"{settings.state} does not exist yet; `./callboard up` or `./callboard run` creates it")
        return
    make_folder(settings)
    others = settings.state.stat().st_mode & 0o077
    if others:
        yield warn(f"{settings.state} can be read by others (mode {others:03o}); run chmod 700 {settings.state}")
    else:
        yield ok(str(settings.state))


def check_disks(settings: Settings, mountinfo: str | None = None) -> Verdicts:
    """Yield which of our files are on a network disk; ``mountinfo`` defaults to the kernel's list."""
    if mountinfo is None:
        if not MOUNTINFO.exists():  # not Linux
            return
        mountinfo = MOUNTINFO.read_text(errors="surrogateescape")
    file = sqlite_file(settings)
    under_file = mount_of(file, mountinfo) if file is not None else None
    if under_file is not None and under_file.is_network:
        yield fail(
            f"the database {file} is on a network disk ({under_file}), whose locks SQLite cannot rely on: "
            "runs get lost or corrupted. Put it on a local disk (CALLBOARD_STATE_DIR or CALLBOARD_DATABASE_URL), or "
            "use Postgres."
        )
    under_state = mount_of(settings.state, mountinfo)
    if under_state is not None and under_state.is_network:
        yield warn(
            f"the state folder {settings.state} is on a network disk ({under_state}); sockets, locks and the "
            "embedded Redis's file may not work there. Put it on a local disk with CALLBOARD_STATE_DIR."
        )
    elif under_state is not None and not (under_file and under_file.is_network):
        yield ok(f"{under_state.kind}, a local disk")


def sqlite_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite database; None for another database or one in memory."""
    url = make_url(settings.database)
    if url.get_backend_name() != "sqlite" or not url.database or url.database.startswith((":memory:", "file:")):
        return None
    return Path(url.database).resolve()
