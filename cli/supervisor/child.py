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


def _become(parent: int, number: int, argv: list[str]) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent died before the call
        sys.exit(1)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    _become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
