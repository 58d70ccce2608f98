"""Forks: recreate in a child what it must not share with its parent, such as locks and objects with threads.

A child has copies of the parent's objects and none of its threads. So modules recreate their process-wide state in the
child and leave the parent's objects untouched: sockets and database connections are shared with the parent, and closing
them would break it. What a child must not inherit at all is closed before the fork.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""Seconds a fork waits for resources in use."""
_inherited: list[Any] = []
"""Objects of the parent, kept so that no finalizer closes what the parent still uses."""


def after_fork(renew: Callable[[], None]) -> Callable[[], None]:
    """Call ``renew`` in each process that is forked from this one, before other code runs there."""
    os.register_at_fork(after_in_child=renew)
    return renew


_forked_s: float | None = None


@after_fork
def _note_fork() -> None:
    global _forked_s
    _forked_s = time.time()


def forked_s() -> float | None:
    """Return when this process was forked, in seconds since 1970; None: it was not, since Callboard was imported."""
    return _forked_s


def leave_to_parent(thing: Any) -> None:
    """Keep an object of the parent alive and untouched for the lifetime of this child."""
    _inherited.append(thing)


class ForkGate:
    """A gate for uses of a resource that a child must not inherit open: a fork waits for them and blocks new ones.

    ``close`` is called before the fork, when there is no use, and has to close the resource.
    """

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._changed = threading.Condition()
        self._in_use = self._forks = 0
        self._mine = threading.local()
        with _adding:
            _gates.add(self)

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            # A thread inside would wait for the fork that waits for it.
            self._changed.wait_for(lambda: depth > 0 or self._forks == 0)
            self._in_use += 1
        self._mine.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._mine.depth -= 1
        with self._changed:
            self._in_use -= 1
            if self._forks:
                self._changed.notify_all()

    def before(self) -> None:
        """Block new uses, wait for those of other threads, and close the resource."""
        with self._changed:
            self._forks += 1
            is_free = self._changed.wait_for(lambda: self._in_use == 0, PATIENCE_S)
        if is_free:
            self._close()
        else:
            log.warning("the process forks while its database is in use; the child may find it locked")

    def after(self) -> None:
        """Unblock the parent's uses."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def in_child(self) -> None:
        """Reset the state: the child has one thread."""
        self._changed = threading.Condition()
        self._in_use, self._forks = getattr(self._mine, "depth", 0), 0


_gates: WeakSet[ForkGate] = WeakSet()
_adding = threading.Lock()
_forking = threading.local()


def _before() -> None:
    with _adding:
        _forking.gates = list(_gates)  # one that is made meanwhile is not this fork's
    for gate in _forking.gates:
        gate.before()


def _after_in_parent() -> None:
    for gate in _forking.gates:
        gate.after()
    _forking.gates = []


def _after_in_child() -> None:
    global _adding
    _adding = threading.Lock()
    for gate in list(_gates):
        gate.in_child()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
