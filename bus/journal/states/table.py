"""The table of the run's state machine: each transition's states, who makes it, and what it writes.

It is the specification: ``tests/bus/journal/states/test_table.py`` walks every cell on each database, and
``docs/run-states.md`` is written from it (``document.py``). A state without a cell refuses the transition: nothing of
the run changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

QUEUED, RUNNING, WAITING = "queued", "running", "waiting"
LOST = "lost"
"""The status ``running`` with a lease that expired; the owner may still live, and its writes still count."""
SUCCEEDED, FAILED, CANCELLED, DEAD = "succeeded", "failed", "cancelled", "dead"
NONE = "none"
"""There is no such run: not yet, or no more."""
ENDED = (SUCCEEDED, FAILED, CANCELLED, DEAD)
STATES = (NONE, QUEUED, RUNNING, LOST, WAITING, *ENDED)


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table, in the order of its columns."""

    name: str
    to: Mapping[str, tuple[str, ...]]
    """By the state before: the states that may follow, the usual one first."""
    by: str
    """The actor: client, worker, reaper, ..."""
    guard: str
    """The condition besides the state."""
    writes: str
    """What is committed with it."""


def _same(*states: str) -> dict[str, tuple[str, ...]]:
    return {state: (state,) for state in states}


def _held(*after: str) -> dict[str, tuple[str, ...]]:
    """Return where an owner leads its run, also after its lease expired."""
    return {RUNNING: after, LOST: after}


TABLE = (
    Transition(
        "accept",
        {NONE: (QUEUED,)},
        "client",
        "the idempotency key is new",
        "thread, user's message, run, event 1, outbox row",
    ),
    Transition(
        "defer polling", _same(QUEUED), "a process that waits for the run's turn", "", "a lease without an owner"
    ),
    Transition(
        "claim",
        {QUEUED: (RUNNING,)},
        "worker",
        "it is the oldest open run of its thread",
        "owner, lease, fence + 1, 1000 numbers; `withdrawn` of missing numbers, `status running`, first step",
    ),
    Transition("extend lease", _held(RUNNING), "owner (heartbeat)", "fence", "lease"),
    Transition("reserve numbers", _same(RUNNING, LOST), "owner", "fence", "the last number given out"),
    Transition("commit", _same(RUNNING, LOST), "owner", "fence, number of commits", "events, pieces, steps, messages"),
    Transition(
        "clear suspicion", _same(RUNNING, LOST), "owner", "fence; the run has crashed", "the note of its last crash"
    ),
    Transition(
        "finish",
        _held(SUCCEEDED, FAILED, CANCELLED),
        "owner",
        "fence, number of commits",
        "results of open calls, `error`, `end`, totals; the thread's next run is announced",
    ),
    Transition(
        "release", _held(QUEUED), "owner whose process ends", "fence, number of commits", "`status moved`, outbox row"
    ),
    Transition(
        "wait",
        _held(WAITING, QUEUED),
        "owner",
        "fence, number of commits; queued where a stop was requested meanwhile",
        "`approval`, `status waiting`, questions, timers",
    ),
    Transition(
        "stop",
        {QUEUED: (CANCELLED,), RUNNING: (RUNNING,), LOST: (CANCELLED,), WAITING: (CANCELLED,)},
        "client",
        "",
        "with a live owner: the request; else results of open calls, `end`, totals",
    ),
    Transition(
        "requeue",
        {LOST: (QUEUED, CANCELLED, DEAD)},
        "reaper",
        "grace of the lease; cancelled where a stop was requested, dead where the run is a suspect",
        "the crash, outbox row; or results of open calls, `end`, totals",
    ),
    Transition(
        "fail claimed",
        _held(FAILED),
        "owner that cannot continue what an earlier owner left",
        "fence",
        "results of open calls, `error`, `end`, totals",
    ),
    Transition(
        "answer",
        {WAITING: (QUEUED, WAITING)},
        "client",
        "the question is open; waiting while another one is",
        "decision, `approval`, `status queued`, outbox row",
    ),
    Transition(
        "expire",
        {WAITING: (FAILED,)},
        "reaper (timer)",
        "the question is open, or no code came",
        "results of open calls, `error`, `end`, totals",
    ),
    Transition(
        "resume",
        {WAITING: (QUEUED,)},
        "worker with the code that the run waits for",
        "the reason is `code_version`",
        "`status queued`; the timer is deleted",
    ),
    Transition(
        "notify observers",
        _same(FAILED, CANCELLED, DEAD),
        "worker",
        "the end was written without an owner, and its observers were not notified",
        "which worker notifies them, then that it did",
    ),
    Transition(
        "remove", dict.fromkeys(ENDED, (NONE,)), "client, retention", "", "all rows of the run but its messages"
    ),
)
