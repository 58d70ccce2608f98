"""Writes docs/run-states.md from the table: ``python -m bus.journal.states.table``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.journal.states.codes import Reason
from config.folders import ROOT

QUEUED, RUNNING, WAITING = "queued", "running", "waiting"
LOST = "lost"
"""The status ``running`` with a lease that expired; the owner may still live, and its writes still count."""
SUCCEEDED, FAILED, CANCELLED, DEAD = "succeeded", "failed", "cancelled", "dead"
NONE = "none"
"""There is no such run: not yet, or no more."""
ENDED = (SUCCEEDED, FAILED, CANCELLED, DEAD)
STATES = (NONE, QUEUED, RUNNING, LOST, WAITING, *ENDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """One row of the table."""

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


TABLE = (
    Transition(
        name="accept",
        to={NONE: (QUEUED,)},
        by="client",
        guard="the idempotency key is new",
        writes="thread, user's message, run, event 1, outbox row; of a rerun or a retry, copies of recorded steps",
    ),
    Transition(
        name="defer polling",
        to=_same(QUEUED),
        by="a process that waits for the run's turn",
        guard="",
        writes="a lease without an owner",
    ),
    Transition(
        name="claim",
        to={QUEUED: (RUNNING,)},
        by="worker",
        guard="it is the oldest open run of its thread",
        writes="owner, lease, fence + 1, 1000 numbers; `withdrawn` of missing numbers, `status running`, first step",
    ),
    Transition(
        name="extend lease",
        to={RUNNING: (RUNNING,), LOST: (RUNNING,)},
        by="owner (heartbeat)",
        guard="fence",
        writes="lease",
    ),
    Transition(
        name="reserve numbers",
        to=_same(RUNNING, LOST),
        by="owner",
        guard="fence",
        writes="the last number given out",
    ),
    Transition(
        name="commit",
        to=_same(RUNNING, LOST),
        by="owner",
        guard="fence, number of commits",
        writes="events, pieces, steps, messages",
    ),
    Transition(
        name="clear suspicion",
        to=_same(RUNNING, LOST),
        by="owner",
        guard="fence; the run has crashed",
        writes="the note of its last crash",
    ),
    Transition(
        name="finish",
        to={RUNNING: (SUCCEEDED, FAILED, CANCELLED), LOST: (SUCCEEDED, FAILED, CANCELLED)},
        by="owner",
        guard="fence, number of commits",
        writes="results of open calls, `error`, `end`, totals; the thread's next run is announced",
    ),
    Transition(
        name="release",
        to={RUNNING: (QUEUED,), LOST: (QUEUED,)},
        by="owner whose process ends",
        guard="fence, number of commits",
        writes="`status moved`, outbox row",
    ),
    Transition(
        name="hand over",
        to={RUNNING: (QUEUED,), LOST: (QUEUED,)},
        by="owner whose agent hands over",
        guard="fence, number of commits",
        writes="the agent, its definition, model and queue; `handover`, `status moved`, outbox row; the thread's agent",
    ),
    Transition(
        name="wait",
        to={RUNNING: (WAITING, QUEUED), LOST: (WAITING, QUEUED)},
        by="owner",
        guard="fence, number of commits; queued where a stop was requested meanwhile, or its children have all ended",
        writes="`approval`, `status waiting`, questions, timers",
    ),
    Transition(
        name="pause",
        to={QUEUED: (WAITING,)},
        by="client",
        guard="with an owner, that makes it wait at the end of its step",
        writes="`control`, `status waiting`, a timer",
    ),
    Transition(
        name="unpause",
        to={WAITING: (QUEUED,)},
        by="client",
        guard="the reason is `paused`",
        writes="`control`, `status queued`, outbox row; the timer is deleted",
    ),
    Transition(
        name="steer",
        to=_same(WAITING),
        by="client",
        guard="it is an agent's",
        writes="the text, with its number in the thread; `control`",
    ),
    Transition(
        name="set",
        to=_same(QUEUED, WAITING),
        by="client",
        guard="its agent and its parent allow as many rounds; an owner does it with its answer",
        writes="the limits, the priority; `control`",
    ),
    Transition(
        name="stop",
        to={QUEUED: (CANCELLED,), RUNNING: (RUNNING,), LOST: (CANCELLED,), WAITING: (CANCELLED,)},
        by="client",
        guard="",
        writes="with a live owner: the request; else results of open calls, `end`, totals; then children stop",
    ),
    Transition(
        name="requeue",
        to={LOST: (QUEUED, CANCELLED, DEAD)},
        by="reaper",
        guard="grace of the lease; cancelled where a stop was requested, dead where it is a suspect that was alone",
        writes="the crash, outbox row; or results of open calls, `end`, totals",
    ),
    Transition(
        name="fail claimed",
        to={RUNNING: (FAILED,), LOST: (FAILED,)},
        by="owner that cannot continue what an earlier owner left",
        guard="fence",
        writes="results of open calls, `error`, `end`, totals",
    ),
    Transition(
        name="answer",
        to={WAITING: (QUEUED, WAITING)},
        by="client",
        guard="the question is open; waiting while another one is",
        writes="decision, `approval`, `status queued`, outbox row",
    ),
    Transition(
        name="expire",
        to={WAITING: (FAILED,)},
        by="reaper (timer)",
        guard="the question is open, no code came, the principal is still disabled, or the run is paused",
        writes="results of open calls, `error`, `end`, totals",
    ),
    Transition(
        name="resume",
        to={WAITING: (QUEUED,)},
        by="worker with the code that the run waits for, or any worker",
        guard="the reason is `code_version`; or `principal_disabled`, and the principal is enabled",
        writes="`status queued`; the timer is deleted",
    ),
    Transition(
        name="upgrade",
        to={WAITING: (QUEUED, WAITING)},
        by="client",
        guard="today's version of its agent behaves otherwise than the run's; waiting where the run is paused",
        writes="the version; `approval` void of each open or unused one, `status queued`, outbox row",
    ),
    Transition(
        name="take results",
        to={WAITING: (QUEUED,)},
        by="worker that sees that the run's tasks have ended",
        guard="the reason is `task`",
        writes="`status queued`, outbox row",
    ),
    Transition(
        name="child ends",
        to={WAITING: (QUEUED, WAITING)},
        by="the owner, client or reaper that ends a child, in the same transaction",
        guard="the reason is `child`, and no other child is open; else it stays waiting",
        writes="`child`; where it was the last one `status queued`, outbox row",
    ),
    Transition(
        name="notify observers",
        to=_same(FAILED, CANCELLED, DEAD),
        by="worker",
        guard="the end was written without an owner, and its observers were not notified",
        writes="which worker notifies them, then that it did",
    ),
    Transition(
        name="remove",
        to=dict.fromkeys(ENDED, (NONE,)),
        by="client, retention",
        guard="",
        writes="all rows of the run but its messages",
    ),
)


PAGE = ROOT / "docs" / "run-states.md"
HEAD = """# The states of a run

`python -m bus.journal.states.table` writes this page from `bus/journal/states/table.py`; a test compares them. The
functions are in `bus/journal/states/`, one for each transition, and nothing else writes to the table `runs`
([decision 38](decisions/0038-a-run-is-one-state-machine.md)).

`lost` is the status `running` with an expired lease. The run's owner may still live: until the reaper requeues the run,
a heartbeat makes it `running` again. `none` is no state: the run does not exist yet, or was removed.
"""


def document() -> str:
    return "\n".join([HEAD, *_diagram(), "", *_cells(), "", *_details(), "", *_reasons(), ""])


def _diagram() -> list[str]:
    """Return the transitions that change the state, as a diagram."""
    arrows: dict[tuple[str, str], list[str]] = {(RUNNING, LOST): ["lease expires"]}
    for transition in TABLE:
        for before, after in transition.to.items():
            for state in after:
                if state != before:
                    arrows.setdefault((before, state), []).append(transition.name)
    lines = [f"  {before} --> {after}: {', '.join(names)}" for (before, after), names in arrows.items()]
    return ["```mermaid", "stateDiagram-v2", *(line.replace(f" {NONE}", " [*]") for line in lines), "```"]


def _cells() -> list[str]:
    head = ["transition", *STATES]
    rows = [
        [transition.name, *(", ".join(f"`{after}`" for after in transition.to.get(state, ())) for state in STATES)]
        for transition in TABLE
    ]
    return ["An empty cell refuses: nothing of the run changes.", "", *_table(head, rows)]


def _details() -> list[str]:
    rows = [[transition.name, transition.by, transition.guard, transition.writes] for transition in TABLE]
    return _table(["transition", "by", "guard", "writes"], rows)


def _reasons() -> list[str]:
    ended = ", ".join(f"`{state}`" for state in ENDED)
    reasons = ", ".join(f"`{reason}`" for reason in Reason)
    return [
        f"The states that a run never leaves are {ended}. The reasons are {reasons}, and of a run that is `failed` or",
        "`dead` the code of its [error](errors.md). A sentence for people is in `detail`. Rows and logs of earlier",
        "releases have sentences as reasons; a reader shows those as they are.",
    ]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(document())
