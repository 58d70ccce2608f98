"""Who owns a run: an id that tells which process it is, so that a neighbour can see that it is gone.

``own_<machine>_<pid>_<started>_<random>``. The machine is this boot of this kernel and this pid namespace,
so that equal pids of two machines or containers are never taken for each other; a pid that was given
again has another start. Elsewhere than on Linux nobody can see that, and the lease alone decides; so it
does where a process lives that may not be looked at (``hidepid``, another user's).
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
    return f"own_{_machine()}_{pid}_{started}_{new_id('x')[-12:]}"


def is_gone(owner: str | None) -> bool:
    """Return whether this owner was a process of this machine that has ended; False where nobody can tell."""
    form = _FORM.fullmatch(owner or "")
    if form is None or sys.platform != "linux" or form[1] != _machine():
        return False
    pid = int(form[2])
    try:
        return _started(pid) != form[3]
    except OSError:
        return not _may_live(pid)


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{boot_id()} {namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str | None:
    """Return when a process began, in ticks since boot; None when it waits to be buried.

    Raises:
        OSError: there is none, it may not be looked at, or this process has no file left to open.
    """
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        facts = file.read().rpartition(")")[2].split()
    return None if facts[0] in "ZX" else facts[19]


def _may_live(pid: int) -> bool:
    """Return whether there is such a process, dead ones that wait to be buried included."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: no pid is as large
        return False
    except OSError:  # it is another user's
        pass
    return True
