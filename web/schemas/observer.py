"""Observers that tail the log."""

from __future__ import annotations

from typing import Literal

from web.calls.fields import Answer, Maybe


class FeedingThread(Answer):
    """A thread that feeds an observer."""

    host: str
    pid: int
    version: str
    """The release of its process."""


class ListedDelivery(Answer):
    """A delivery that failed: it is tried again, or is a dead letter."""

    id: int
    run_id: str
    seq: int
    """The number of the event in its run."""
    type: str
    state: str
    """``dead``: it is not tried again."""
    attempts: int
    error: str
    first_at: str
    next_at: Maybe[str] = None
    """When it is tried again; absent of a dead letter."""


class TailingObserver(Answer):
    """An observer that tails the log."""

    name: str
    class_path: str
    delivery: str
    selection: dict[str, list[str]]
    """Which events it takes; empty: all."""
    state: Literal["running", "paused", "stopped"]
    """``stopped``: no process feeds it."""
    threads: list[FeedingThread]
    position: int
    """Of the last row of the log that it has had."""
    behind: int
    """Positions from there to the end of the log."""
    behind_s: float
    """Seconds since the first event that it has not had."""
    delivered: int
    dropped: int
    retrying: int
    """Deliveries that failed and are tried again."""
    dead: int
    """Dead letters."""
    is_late: bool
    """Whether a person should look at it."""
    letters: Maybe[list[ListedDelivery]] = None
    """With ``name``: the first 100 deliveries that failed, the oldest first."""


class ObserverList(Answer):
    """The observers that tail the log, by name."""

    observers: list[TailingObserver]
