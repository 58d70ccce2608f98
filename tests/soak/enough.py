"""Whether a soak was one: invariants hold of nothing too, so so much has to have happened in its minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import select

from config.database.engine import Database
from config.database.tables import runs
from tests.soak.faults import NAMES
from tests.soak.load import CONFLICT, Seen
from tests.soak.talk import KINDS, kind_of

WHOLE_ROUND_MINUTES = 2.0
"""In so many minutes each kind of fault is done at least once."""
LEAST = {
    "runs of each kind started": 2.0,
    "runs of each kind succeeded": 1.0,
    "runs stopped": 0.5,
    "viewers that saw something": 4.0,
    "viewers that saw an end": 2.0,
    "viewers that came back": 2.0,
    "crashes": 1.0,
    "answers taken": 1.0,
    f"second answers refused ({CONFLICT})": 1.0,
    "faults": 3.0,
}
"""What has to happen each minute, on average: about a tenth of what does on two idle cores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What happened; the keys are those of ``LEAST``."""

    counts: Mapping[str, int]
    done: Mapping[str, int]
    """How often each kind of fault was done."""


def tally(database: Database, seen: Seen, done: Mapping[str, int]) -> Tally:
    """Count what happened in a soak."""
    with database.read() as connection:
        rows = {row.id: row for row in connection.execute(select(runs.c.id, runs.c.status, runs.c.crashes))}
    kinds = {start.run_id: kind_of(start.sentence) for start in seen.started}
    succeeded = Counter(kinds.get(row.id) for row in rows.values() if row.status == "succeeded")
    started = Counter(kinds.values())
    counts = (
        min(started[kind] for kind in KINDS),
        min(succeeded[kind] for kind in KINDS),
        sum(1 for row in rows.values() if row.status == "cancelled"),
        sum(1 for watched in seen.watched if watched.events),
        sum(1 for watched in seen.watched if watched.has_ended),
        sum(1 for watched in seen.watched if watched.connections > 1),
        sum(row.crashes for row in rows.values()),
        sum(1 for answer in seen.answered if answer.is_taken),
        sum(1 for answer in seen.answered if not answer.is_taken),
        sum(done.values()),
    )
    return Tally(counts=dict(zip(LEAST, counts, strict=True)), done=done)


def too_little(tally: Tally, minutes: float) -> Iterator[str]:
    """Yield a sentence for everything that did not happen often enough to say anything."""
    for what, each_minute in LEAST.items():
        least = int(each_minute * minutes)
        if tally.counts[what] < least:
            yield f"too little {what}: {tally.counts[what]} in {minutes:g} minutes, where {least} are the least"
    missing = [name for name in NAMES if not tally.done.get(name)]
    if minutes >= WHOLE_ROUND_MINUTES and missing:
        yield f"too little faults never done: {', '.join(missing)}"
