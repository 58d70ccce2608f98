"""The slots of a worker process: they limit how many runs it works on at once, from messages and polls alike."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from config.forks import after_fork


class SlotPool:
    """The slots that the message handler and the poller share; safe for any thread."""

    def __init__(self, number: int, *, is_worker: bool = True) -> None:
        """``is_worker``: a poller takes what was refused."""
        self._free = self._number = number
        self._is_worker = is_worker
        self._lock = threading.Condition(threading.Lock())
        self._deferred: set[str] = set()
        self._present: Counter[str] = Counter()  # the runs that this process claims or works on, with a slot or inline
        self._suspect: str | None = None  # the one of them beside which no other suspect may be
        self._alone: str | None = None  # the run beside which no other may be: it is present, or waits for that
        self._refused: set[str] = set()  # runs that were not admitted
        self.is_closed = False
        """Whether this process drains, so that no run is taken any more."""
        self.on_deferred: Callable[[], None] = lambda: None
        """Called when a slot is free again for a run that was deferred."""
        self.on_refused: Callable[[str], None] = lambda run_id: None
        """Called with the id of each run that came after the pool was closed."""

    @property
    def free(self) -> int:
        """Number of runs that can be taken now."""
        with self._lock:
            return 0 if self.is_closed else self._free

    def take(self, run_id: str) -> bool:
        """Take a slot for this run and return whether there was one."""
        with self._lock:
            if not self.is_closed and self._free > 0:
                self._free -= 1
                self._deferred.discard(run_id)
                return True
            if not self.is_closed:
                self._deferred.add(run_id)
                return False
        self.on_refused(run_id)
        return False

    def give_back(self) -> None:
        with self._lock:
            self._free += 1
            is_wanted = bool(self._deferred)
            self._lock.notify_all()
        if is_wanted:
            self.on_deferred()

    def want(self, run_id: str) -> None:
        """Make this process's poller take a run as soon as there is a slot, before other pollers see it twice."""
        with self._lock:
            if self.is_closed:
                return
            self._deferred.add(run_id)
        self.on_deferred()

    def defer(self, run_ids: Collection[str]) -> None:
        """Note that these runs, whose wake-ups came to this process, wait for a slot here."""
        with self._lock:
            if not self.is_closed:
                self._deferred.update(run_ids)
                return
        for run_id in run_ids:
            self.on_refused(run_id)

    def deferred(self) -> set[str]:
        """Return and forget the runs that found no slot or were passed to ``want`` since the last call."""
        with self._lock:
            run_ids, self._deferred = self._deferred, set()
            return run_ids

    def close(self) -> None:
        """Take no more runs; those whose wake-up waits for a slot here are refused."""
        with self._lock:
            self.is_closed = True
            self._lock.notify_all()
            refused = self._deferred | self._refused
            self._deferred, self._refused = set(), set()
        for run_id in refused:
            self.on_refused(run_id)

    def wait(self) -> None:
        """Return when the pool is closed and all slots were given back: this process neither claims nor has a run."""
        with self._lock:
            self._lock.wait_for(lambda: self.is_closed and self._free == self._number)

    @property
    def reserved_for(self) -> str | None:
        """The run that waits until this process works on no other, so that no other is admitted."""
        return self._alone if self._alone not in self._present else None

    def admit(self, run_id: str, *, is_suspect: bool = False, must_be_alone: bool = False, again: bool = False) -> bool:
        """Note that this process claims or works on a run from now on; return False where it may not share the process.

        Two suspects never share a process: otherwise the crash of one could end the other as ``dead``. Where a run has
        to be alone, a worker admits no other until those that it works on have left. ``again``: the run is admitted
        already, and is a suspect, as its row says; where it may not stay, it has left. Each admission has its
        ``leave``: a second message for a run that this process works on changes nothing.
        """
        with self._lock:
            others = self._present.keys() - {run_id}
            must_be_alone = must_be_alone or run_id == self._alone  # the process keeps a place for it
            if must_be_alone and others and self._alone is None and self._is_worker:
                self._alone = run_id
            is_kept = self._alone not in (None, run_id) or (is_suspect and self._suspect not in (None, run_id))
            if is_kept or (must_be_alone and others):
                self._refused.add(run_id)
                is_empty_for_one = again and self._leave_once(run_id)
            else:
                if not again:
                    self._present[run_id] += 1
                self._suspect = run_id if is_suspect else self._suspect
                self._alone = run_id if must_be_alone else self._alone
                return True
        if is_empty_for_one:
            self._retry()
        return False

    def _leave_once(self, run_id: str) -> bool:
        """Take one admission back, and return whether the run that has to be alone can begin now."""
        self._present[run_id] -= 1
        if self._present[run_id] <= 0:
            del self._present[run_id]
        return self._alone is not None and not self._present

    def clear(self, run_id: str) -> None:
        """Admit other runs beside one that had to be alone; beside another suspect, admit the next suspect."""
        with self._lock:
            is_change = run_id in (self._alone, self._suspect)
            if self._alone == run_id:
                self._alone = None
            elif self._suspect == run_id:
                self._suspect = None
        if is_change:
            self._retry()

    def leave(self, run_id: str) -> None:
        """Note that this process works on the run no more, or that another process does."""
        with self._lock:
            is_empty_for_one = self._leave_once(run_id)
            if run_id in self._present:  # by another message
                return
            is_change = is_empty_for_one or run_id in (self._alone, self._suspect)
            self._suspect = None if self._suspect == run_id else self._suspect
            self._alone = None if self._alone == run_id else self._alone
        if is_change:
            self._retry()

    def _retry(self) -> None:
        """Have the poller take the runs that were refused."""
        with self._lock:
            is_wanted = bool(self._refused)
            self._deferred |= self._refused
            self._refused = set()
        if is_wanted:
            self.on_deferred()

    @contextmanager
    def slot_for(self, run_id: str) -> Iterator[bool]:
        """Hold a slot while the body runs; yield False where there is none."""
        has_slot = self.take(run_id)
        try:
            yield has_slot
        finally:
            if has_slot:
                self.give_back()


_slot_pool = SlotPool(1_000_000, is_worker=False)


@after_fork
def _renew() -> None:
    """Give a forked child its own pool: the parent's may be partly taken, and locked."""
    global _slot_pool
    _slot_pool = SlotPool(1_000_000, is_worker=False)


def slot_pool() -> SlotPool:
    """Return this process's pool; without ``open_slot_pool`` it has no limit."""
    return _slot_pool


def open_slot_pool(number: int) -> SlotPool:
    """Set this process's number of slots."""
    global _slot_pool
    _slot_pool = SlotPool(number)
    return _slot_pool
