"""Find the mount of a path in ``/proc/self/mountinfo`` (proc(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
    found: tuple[int, Mount] | None = None
    for mount in read_mounts(mountinfo):
        point = PurePosixPath(mount.point)
        depth = len(point.parts)
        if path.is_relative_to(point) and (found is None or depth >= found[0]):
            found = (depth, mount)
    return found[1] if found else None


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
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
