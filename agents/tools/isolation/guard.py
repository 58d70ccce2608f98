"""Executes one command under limits, and ends every process that it started, also after its worker was killed.

The worker starts this file as ``python -I -S guard.py SETTINGS COMMAND...``, so it imports nothing but the standard
library. It is the subreaper of the command's processes, so a daemon that forked twice and opened a session of its own
is still found. The kernel sends it SIGTERM when the thread that started it ends, which a worker's SIGKILL does as well.

Exit status: the command's; 128 and the signal's number where a signal ended it; 127 where it cannot be found, 126 where
it cannot be executed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

SUBREAPER, DEATH_SIGNAL = 36, 1
"""Numbers of Linux's prctl."""
END_S = 5.0
"""Seconds that killed processes may take to disappear."""
CLEANUP_S = 20.0
"""Seconds that the command after an interrupted one may take."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
PARENT_S = 0.5
"""Seconds between two looks at the parent, where the kernel sends no signal at its death."""


class Interrupted(BaseException):
    """The worker is gone or ends the call, or the time is up."""


def main() -> int:
    """Execute the command of the command line, and return the status to exit with."""
    options, command = json.loads(sys.argv[1]), sys.argv[2:]
    code: int | None = None
    try:
        try:
            _listen(options["wall_s"])
            code = _run(command, options)
        except Interrupted:
            pass
        _listen_no_more()
    except Interrupted:  # between the two; it is raised once
        _listen_no_more()
    has_ended = _end_all()
    if options["cleanup"] and (code is None or not has_ended):
        _clean_up(options["cleanup"])
    if options["removed"]:
        _remove(options["removed"])
    return 128 + signal.SIGKILL if code is None else code


def _run(command: list[str], options: dict[str, Any]) -> int:
    is_linux = _tell_kernel(signal.SIGTERM)
    if os.getppid() != options["parent"]:  # it died before prctl
        raise Interrupted
    return _wait_for(_start(command, options, is_linux), options, is_linux)


def _listen(wall_s: float) -> None:
    def interrupt(*_: object) -> None:
        for number in _ENDING:  # not SIG_IGN, which Python reports as an error for a signal that has arrived too
            signal.signal(number, lambda *_: None)
        raise Interrupted

    for number in _ENDING:
        signal.signal(number, interrupt)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def _listen_no_more() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # calls the handlers of signals that have arrived
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _tell_kernel(at_death: int) -> bool:
    """Become the parent of orphaned descendants, and get a signal at the parent's death; return whether that works."""
    if sys.platform != "linux":
        return False
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return bool(prctl(DEATH_SIGNAL, int(at_death), 0, 0, 0) == 0 and prctl(SUBREAPER, 1, 0, 0, 0) == 0)


# --- the command ------------------------------------------------------------------------------------


def _start(command: list[str], options: dict[str, Any], is_linux: bool) -> int:
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _execute(command, options, guard if is_linux else None)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the command's alone, so that its end ends them
        os.dup2(nothing, standard)
    return child


def _execute(command: list[str], options: dict[str, Any], guard: int | None) -> NoReturn:
    code = NOT_EXECUTABLE
    try:
        for number in (*_ENDING, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        if guard is not None and _tell_kernel(signal.SIGKILL) and os.getppid() != guard:
            os._exit(128 + signal.SIGKILL)
        _limit(options["limits"], options["processes"])
        os.execvp(command[0], command)
    except FileNotFoundError:
        code = NOT_FOUND
        os.write(2, f"there is no program {command[0]!r}, or none that its first line names".encode())
    except BaseException as error:
        with suppress(BaseException):
            os.write(2, f"{command[0]!r} cannot be executed: {error}".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _limit(limits: dict[str, int], processes: int | None) -> None:
    """Set the limits: ``limits`` by their names in ``resource``; ``processes`` more than the user has now."""
    import resource

    if processes is not None:
        limits = {**limits, "RLIMIT_NPROC": processes + _tasks_of_user()}
    for name, most in {**limits, "RLIMIT_CORE": 0}.items():
        with suppress(ValueError, OSError, AttributeError):  # the system lacks this limit, or has a lower one
            resource.setrlimit(getattr(resource, name), (most, most))


def _tasks_of_user() -> int:
    """Return the number of threads of this user, which the kernel's limit counts."""
    count, user = 0, os.getuid()
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():
        if entry.name.isdigit():
            with suppress(OSError):  # gone meanwhile
                if entry.stat().st_uid == user:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count


def _wait_for(child: int, options: dict[str, Any], is_linux: bool) -> int:
    """Return the command's exit status; reap the processes that its end leaves to this one."""
    while True:
        pid, status = os.waitpid(-1, 0 if is_linux else os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if pid == 0:
            if os.getppid() != options["parent"]:
                raise Interrupted
            time.sleep(PARENT_S)


# --- the end ----------------------------------------------------------------------------------------


def _end_all() -> bool:
    """Kill every descendant, and return whether none is left; each is stopped first, so that none forks meanwhile."""
    until_s = time.monotonic() + END_S
    while not _is_alone():
        if time.monotonic() > until_s:
            return False
        stopped: set[int] = set()
        while (pids := _descendants() - stopped) and time.monotonic() < until_s:
            _signal(pids, signal.SIGSTOP)
            stopped |= pids
        _signal(stopped, signal.SIGKILL)
        time.sleep(0.002)
    return True


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def _is_alone() -> bool:
    """Reap what has ended; return whether no child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _descendants() -> set[int]:
    """Return the processes beneath this one; none where the system has no ``/proc``."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc") if os.path.isdir("/proc/self") else ():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parents.setdefault(_parent_of(entry.name), []).append(int(entry.name))
    pids: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = [pid for pid in parents.get(waiting.pop(), ()) if pid not in pids]
        pids.update(below)
        waiting += below
    return pids


def _parent_of(pid: str) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def _clean_up(command: list[str]) -> None:
    """Execute ``command`` and wait for it: it removes what is no process of ours."""
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            os.execvp(command[0], command)
        finally:
            os._exit(NOT_FOUND)
    until_s = time.monotonic() + CLEANUP_S
    while time.monotonic() < until_s:
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG)[0]:
                break
        time.sleep(0.01)
    _end_all()


def _remove(folder: str) -> None:
    """Remove a folder with all that the command wrote there; no process of it is left to change it meanwhile."""
    import shutil

    with suppress(Exception):  # the command's status counts, whatever it left
        os.chdir("/")
        os.chmod(folder, 0o700)
        for above, names, _ in os.walk(folder):
            for path in (os.path.join(above, name) for name in names):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)  # the command may have closed it
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os._exit(main())
