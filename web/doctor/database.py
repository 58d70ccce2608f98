"""Checks of the state folder and the database: it answers, has this code's schema, and lies on disks that fit.

The disks are those under the state folder and under a SQLite file (``/proc/self/mountinfo``, proc(5)).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from pathlib import Path, PurePosixPath

from sqlalchemy.engine import make_url

from config.database.engine import Database, open_database
from config.database.errors import DatabaseUnreachable, SchemaNew, SchemaOld
from config.database.migrate import HEAD, current_version, make_folder, require_current
from config.settings import Settings
from web.doctor import Check, Verdicts, fail, ok, warn

MOUNTINFO = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    """
    nfs nfs4 cifs smb3 smbfs 9p afs ceph lustre glusterfs beegfs gpfs gfs2 ocfs2 orangefs pvfs2 coda ncpfs davfs
    fuse.sshfs fuse.glusterfs fuse.ceph fuse.ceph-fuse fuse.cephfs fuse.s3fs fuse.rclone fuse.gcsfuse fuse.blobfuse
    fuse.blobfuse2 fuse.juicefs fuse.moosefs fuse.mfsmount fuse.lizardfs fuse.seaweedfs fuse.smbnetfs fuse.nfs
    fuse.davfs fuse.davfs2 fuse.mount.davfs fuse.gvfsd-fuse fuse.hdfs
    """.split()
)
"""File systems that are, or may be, served by another machine."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A mounted file system."""

    point: str
    kind: str
    """The file system's type: ext4, nfs4, fuse.sshfs."""
    source: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.point}"

    @property
    def is_network(self) -> bool:
        """Whether its files are on another machine."""
        return self.kind in NETWORK or (self.kind.startswith("fuse") and "://" in self.source)


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """Return the mount with the longest mount point above ``path``, the last of equals; None if there is none.

    ``path`` is absolute and need not exist.
    """
    above = [mount for mount in read_mounts(mountinfo) if path.is_relative_to(mount.point)]
    return max(reversed(above), key=lambda mount: len(PurePosixPath(mount.point).parts), default=None)


def read_mounts(mountinfo: str) -> list[Mount]:
    """Return every mount of the list in order, ignoring malformed lines.

    ``36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw``: the number of fields before the dash varies.
    """
    mounts = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if dash and len(fields) >= 5 and len(rest) >= 2:
            mounts.append(Mount(point=_plain(fields[4]), kind=rest[0], source=_plain(rest[1])))
    return mounts


def _plain(field: str) -> str:
    r"""Return the field with its escapes decoded; the kernel writes a blank as ``\040``."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field)


def check_database(settings: Settings) -> Verdicts:
    """Yield whether the database can be used."""
    with closing(open_database(settings.database)) as database:
        if not is_there(settings) or current_version(database) is None:
            yield warn("has no schema yet; `./callboard up` or `./callboard migrate` makes it")
        else:
            require_current(database)
            yield ok(f"{database.engine.dialect.name} answers, schema {HEAD}")


def reading_database(check: Callable[[Settings, Database], Verdicts]) -> Check:
    """Return the check with the database as its second argument.

    It is skipped without a word if the database does not exist yet, and with a warning if it cannot be used.
    """

    @wraps(check)
    def checked(settings: Settings) -> Verdicts:
        if not is_there(settings):
            return
        with closing(open_database(settings.database)) as database:
            try:
                require_current(database)
            except (DatabaseUnreachable, SchemaOld, SchemaNew):
                yield warn("could not be checked, because the database above cannot be used")
            else:
                yield from check(settings, database)

    return checked


def is_there(settings: Settings) -> bool:
    """Return whether the database exists: SQLite creates a missing file, and the doctor must not."""
    file = sqlite_file(settings)
    return file is None or file.exists()
