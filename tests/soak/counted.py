"""Whether the metrics observer, fed by workers that were killed all the time, has counted what the log has."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import orjson
from sqlalchemy import Connection, select

from bus.journal.tailing import observer_states, values_of
from config.database.engine import Database
from config.database.tables import events

CAUGHT_UP_S = 60.0


def miscounted(database: Database) -> Iterator[str]:
    """Wait until the observer has had all of the log, and yield each sum that is not the log's."""
    until_s = time.monotonic() + CAUGHT_UP_S
    while True:
        with database.read() as connection:
            states = [state for state in observer_states(connection) if state.name == "metrics"]
            if states and states[0].behind == 0 and not states[0].retrying:
                counted, logged = _counted(connection), _logged(connection)
                break
        if time.monotonic() > until_s:
            yield f"the metrics observer did not catch up: {states}"
            return
        time.sleep(0.5)
    for key in sorted(counted.keys() | logged.keys()):
        if counted[key] != logged[key]:
            yield f"metrics count {counted[key]:g} of {' '.join(key)}, and the log has {logged[key]}"


def _counted(connection: Connection) -> Counter[tuple[str, ...]]:
    sums: Counter[tuple[str, ...]] = Counter()
    for series, _, value in values_of(connection):
        labels = dict(series.labels)
        if series.name == "runs_ended":
            sums["end", labels["status"]] += int(value)
        elif series.name == "activity_executions" and labels["type"] == "tool":
            sums["tool_result", labels["outcome"]] += int(value)
        elif series.name == "runs_started":
            sums["status", "queued"] += int(value)
    return sums


def _logged(connection: Connection) -> Counter[tuple[str, ...]]:
    sums: Counter[tuple[str, ...]] = Counter()
    query = select(events.c.seq, events.c.type, events.c.data_json)
    for row in connection.execute(query.where(events.c.type.in_(("end", "tool_result", "status")))):
        event = orjson.loads(row.data_json)
        if row.type == "end":
            sums["end", event["status"]] += 1
        elif row.type == "tool_result" and "recorded_in" not in event:
            sums["tool_result", event["outcome"]] += 1
        elif row.type == "status" and row.seq == 1:
            sums["status", "queued"] += 1
    return sums
