"""Owner ids: each names its process, so that another process of the same machine can see that it has ended.

``own_<machine>_<pid>_<started>_<random>``. The machine is this boot of this kernel and this pid namespace,
so that equal pids of two machines or containers differ; a reused pid has another start time. Except on Linux, and
where a process may not be inspected (``hidepid``, another user's), only the lease decides.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from functools import lru_cache

from config.clock import boot_id
from config.ids import new_id

_FORM = re.compile(r"own_([0-9a-f]{12})_(\d+)_(\d+)_\w+")


def new_owner_id() -> str:
    """Return an id for this process."""
    pid = os.getpid()
    try:
        started = _started(pid)
    except OSError:
        started = None
    if started is None:
        return new_id("own")
    return f"own_{machine_id()}_{pid}_{started}_{new_id('x')[-12:]}"


def is_gone(owner: str | None) -> bool:
    """Return whether this owner was a process of this machine that has ended; False where that cannot be seen."""
    form = _FORM.fullmatch(owner or "")
    if form is None or sys.platform != "linux" or form[1] != machine_id():
        return False
    pid = int(form[2])
    try:
        return _started(pid) != form[3]
    except OSError:
        return not _may_live(pid)


@lru_cache(maxsize=1)
def machine_id() -> str:
    """Return what processes that see each other's pids have in common."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{boot_id()} {namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str | None:
    """Return the start time of a process in ticks since boot; None for a zombie process.

    Raises:
        OSError: there is no such process, it may not be inspected, or this process is out of file descriptors.
    """
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        facts = file.read().rpartition(")")[2].split()
    return None if facts[0] in "ZX" else facts[19]


def _may_live(pid: int) -> bool:
    """Return whether there is such a process, zombies included."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: larger than any pid
        return False
    except OSError:  # it is another user's
        pass
    return True
