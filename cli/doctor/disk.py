"""Where things are: the state folder, and the disk under it and under a SQLite file."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url

from config.migrate import make_folder
from config.settings import Settings
from web.terminal.looks.finding import Found
from web.terminal.looks.mounts import Mount, mount_of

MOUNTINFO = Path("/proc/self/mountinfo")


def look_at_state_folder(settings: Settings) -> Found:
    """Make the folder and yield who can read it."""
    make_folder(settings)
    others = settings.state.stat().st_mode & 0o077
    if others:
        yield "warn", f"{settings.state} can be read by others (mode {others:03o}); run chmod 700 {settings.state}"
    else:
        yield "ok", str(settings.state)


def look_at_disks(settings: Settings, mountinfo: str | None = None) -> Found:
    """Yield which of our files are on a network disk; ``mountinfo`` is the kernel's list unless it is given."""
    if mountinfo is None:
        if not MOUNTINFO.exists():  # not Linux: nobody to ask
            return
        mountinfo = MOUNTINFO.read_text(errors="surrogateescape")
    file = sqlite_file(settings)
    under_file = mount_of(file, mountinfo) if file is not None else None
    if under_file is not None and under_file.is_network:
        yield (
            "fail",
            f"the database {file} is on a network disk ({_shown(under_file)}), whose locks do not hold what SQLite "
            "needs: it loses or corrupts runs. Put it on a disk of this machine (CALLBOARD_STATE_DIR or "
            "CALLBOARD_DATABASE_URL), or use Postgres.",
        )
    under_state = mount_of(settings.state, mountinfo)
    if under_state is not None and under_state.is_network:
        yield (
            "warn",
            f"the state folder {settings.state} is on a network disk ({_shown(under_state)}); sockets, locks and the "
            "embedded Redis's file may not work there. Put it on a disk of this machine with CALLBOARD_STATE_DIR.",
        )
    elif under_state is not None and not (under_file and under_file.is_network):
        yield "ok", f"{under_state.kind}, of this machine"


def sqlite_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite database, or None where it is another one or in memory."""
    url = make_url(settings.database)
    if url.get_backend_name() != "sqlite" or not url.database or url.database.startswith((":memory:", "file:")):
        return None
    return Path(url.database).resolve()


def _shown(mount: Mount) -> str:
    return f"{mount.kind} at {mount.point}"
