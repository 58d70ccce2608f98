"""Writes docs/run-states.md from the table: ``python -m bus.journal.states.document``."""

from __future__ import annotations

from bus.journal.states.codes import Reason
from bus.journal.states.table import ENDED, LOST, NONE, RUNNING, STATES, TABLE
from config.folders import ROOT

PAGE = ROOT / "docs" / "run-states.md"
HEAD = """# The states of a run

`python -m bus.journal.states.document` writes this page from `bus/journal/states/table.py`; a test compares them. The
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
