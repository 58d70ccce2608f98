"""A shim between the supervisor and each child: the kernel signals the child when the supervisor dies.

    python -I -S child.py SUPERVISOR_PID SIGNAL PROGRAM ARGUMENT...

A `preexec_fn` instead would run Python between fork and exec of a threaded process, which can deadlock. Linux only
(prctl); elsewhere the supervisor ends its children when it exits.
"""

import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def guarded(argv: Sequence[str], parent_died: signal.Signals = signal.SIGTERM) -> list[str]:
    """Return the command that runs ``argv`` as a child that does not outlive this process."""
    shim = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(parent_died))]
    return [*shim, *argv] if sys.platform == "linux" else list(argv)


def die_with(parent: int, number: int) -> None:
    """Make the kernel send this process a signal when its parent dies; end it if that is the case already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[1]), int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
