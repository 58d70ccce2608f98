"""The metrics as Prometheus reads them: what was counted from the log, what is now, and this process's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bus.journal.tailing import (
    Series,
    alive,
    observer_states,
    open_runs,
    queue_states,
    values_of,
)
from config.database.engine import Database
from config.errors import CallboardError
from observers.metrics.names import COUNTED, METRICS, SCALING, Metric, full_name

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

Values = Mapping[str, Mapping[tuple[str, ...], Any]]
"""Of each metric by its key: its value by the values of its labels; of a histogram the counts by bound, and ``sum``."""
Measure = Callable[[], Values]


class Exposition:
    """What ``/metrics`` of one process says."""

    def __init__(self, database: Database, own: Measure = dict) -> None:
        """``own`` measures this process and what it is connected to."""
        self._database, self._own = database, own

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return the body and its content type: OpenMetrics where ``accept`` asks for it, else Prometheus's text."""
        from prometheus_client.exposition import choose_encoder  # 20 ms, which most processes never need

        encoder, content_type = choose_encoder(accept)
        return encoder(self), content_type

    def collect(self) -> Iterator[Family]:
        """Yield every metric with its values; without the database those that need none."""
        own = self._own()
        values = self._stored()
        for part in (own, _scaling(own, values)):
            for key, rows in part.items():
                values.setdefault(key, {}).update(rows)
        for key, metric in METRICS.items():
            if key in values:
                yield _family(key, metric, values[key])

    def _stored(self) -> dict[str, dict[tuple[str, ...], Any]]:
        values: dict[str, dict[tuple[str, ...], Any]] = defaultdict(dict)
        try:
            with self._database.read() as connection:
                for series, _, value in values_of(connection):
                    _put(values, series, value)
                _put_measured(values, connection)
            values["database_up"][()] = 1.0
        except CallboardError:
            values["database_up"][()] = 0.0
        return values


def _put(values: dict[str, dict[tuple[str, ...], Any]], series: Series, value: float) -> None:
    key, _, part = series.name.partition(":")
    if key not in COUNTED:  # of another release
        return
    labels = dict(series.labels)
    place = tuple(labels.get(label, "") for label in COUNTED[key].labels)
    if part:
        values[key].setdefault(place, {})[part] = value
    else:
        values[key][place] = value


def _put_measured(values: dict[str, dict[tuple[str, ...], Any]], connection: Any) -> None:
    for status, count in open_runs(connection).items():
        values["runs_open"][(status,)] = count
    for queue in queue_states(connection):
        values["queue_depth"][(queue.tenant,)] = queue.depth
        values["queue_oldest_age_seconds"][(queue.tenant,)] = queue.oldest_s
    workers = alive(connection)
    values["workers"][()] = len(workers)
    values["worker_slots"][()] = sum(row["slots"] for row in workers)
    values["worker_slots_busy"][()] = sum(row["busy"] for row in workers)
    for row in workers:
        for name, count in row["dropped"].items():
            values["observer_dropped"][(name,)] = values["observer_dropped"].get((name,), 0) + count
    for column, signal in (("cpu_share", "worker_cpu"), ("memory_share", "worker_memory")):
        shares = [share for row in workers if (share := row[column]) is not None]
        if shares:
            values["scaling_signal"][(signal,)] = sum(shares) / len(shares)
    for state in observer_states(connection):
        values["observer_lag_seconds"][(state.name,)] = state.behind_s
        values["observer_dead_letters"][(state.name,)] = state.dead
        values["observer_dropped"][(state.name,)] = values["observer_dropped"].get((state.name,), 0) + state.dropped


def _scaling(own: Values, values: Values) -> Values:
    """Return the depth of all queues as a signal, and the thresholds of all signals."""
    depth = float(sum(values.get("queue_depth", {}).values()))
    signals = {("queue_depth",): depth, **own.get("scaling_signal", {})}
    return {"scaling_signal": signals, "scaling_threshold": {(name,): above for name, above in SCALING.items()}}


def _family(key: str, metric: Metric, rows: Mapping[tuple[str, ...], Any]) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name, labels = full_name(key), list(metric.labels)
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(name, metric.help, labels=labels)
        for place, parts in sorted(rows.items()):
            histogram.add_metric(place, _cumulative(metric.buckets, parts), parts.get("sum", 0.0))
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family: Any = kind(name, metric.help, labels=labels)
    for place, value in sorted(rows.items()):
        family.add_metric(place, value)
    return family  # type: ignore[no-any-return]  # its base has no method that adds a value


def _cumulative(bounds: Iterable[float], counts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return how many values are up to each bound, as Prometheus wants them."""
    buckets, total = [], 0.0
    for bound in (*bounds, float("inf")):
        total += counts.get(f"{bound:g}", 0.0)
        buckets.append(("+Inf" if bound == float("inf") else str(bound), total))
    return buckets
