"""Every metric by its fixed name, with what it counts, its labels, and the bounds of a histogram's buckets; and rows
of a day's counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from config.clock import stamp

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
TOKENS_PER_SECOND = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric; its name is ``callboard_`` and its key, a counter's also ``_total``."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(text: str, *labels: str) -> Metric:
    return Metric(kind="counter", help=text, labels=labels)


def _gauge(text: str, *labels: str) -> Metric:
    return Metric(kind="gauge", help=text, labels=labels)


def _histogram(text: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Metric:
    return Metric(kind="histogram", help=text, labels=labels, buckets=buckets)


COUNTED: dict[str, Metric] = {
    "runs_started": _counter("Runs that were accepted.", "kind", "agent", "tenant"),
    "runs_ended": _counter("Runs that ended.", "kind", "agent", "tenant", "status"),
    "run_duration_seconds": _histogram("From a run's acceptance to its end.", "kind", "status"),
    "activity_executions": _counter("Calls of models and tools that ended.", "type", "name", "outcome"),
    "activity_retries": _counter("Calls of models and tools that were made again.", "type", "name"),
    "activity_duration_seconds": _histogram("From a call's start to its end.", "type", "name"),
    "time_to_first_token_seconds": _histogram("From a model call's start to its first piece of text.", "model"),
    "output_tokens_per_second": _histogram(
        "Output tokens of a model call by the time from its first piece.", "model", buckets=TOKENS_PER_SECOND
    ),
    "tokens": _counter("Tokens of the runs that ended.", "agent", "direction"),
    "cost_usd": _counter("Cost of the runs that ended, where the price is known.", "agent", "tenant"),
    "governance_evaluations": _counter("Tool calls that the policy decided about.", "verdict"),
    "policy_violations": _counter("Calls and runs that the policy refused.", "verdict"),
    "guardrails_applied": _counter("Texts that a guardrail redacted, blocked or judged.", "action"),
    "stops": _counter("Runs that were stopped before their end.", "by"),
    "approvals_asked": _counter("Questions to persons."),
    "approvals_answered": _counter("Answers to questions.", "decision"),
}
"""What the observer counts from the log."""
MEASURED: dict[str, Metric] = {
    "runs_open": _gauge("Runs that have not ended.", "status"),
    "queue_depth": _gauge("Runs that wait for a worker.", "tenant"),
    "queue_oldest_age_seconds": _gauge("Since the oldest waiting run was accepted.", "tenant"),
    "workers": _gauge("Worker processes that are alive."),
    "worker_slots": _gauge("Runs that the workers execute at once, at most."),
    "worker_slots_busy": _gauge("Runs that the workers execute now."),
    "observer_lag_seconds": _gauge("Since the first event that the observer has not had.", "observer"),
    "observer_dead_letters": _gauge("Deliveries that were given up.", "observer"),
    "observer_dropped": _counter("Events that a best-effort observer was not given.", "observer"),
    "database_up": _gauge("1 where the database answers."),
    "redis_up": _gauge("1 where Redis answers; absent where none is configured."),
    "scaling_signal": _gauge("What a fleet is scaled by.", "signal"),
    "scaling_threshold": _gauge("Above it, scale out.", "signal"),
}
"""What is read when the metrics are asked for."""
OF_PROCESS: dict[str, Metric] = {
    "http_requests": _counter("Requests that this web process answered.", "method", "status"),
    "http_request_duration_seconds": _histogram("From a request to its answer, without streams.", "method"),
    "http_active_connections": _gauge("Requests and streams that this web process serves now."),
}
"""What a web process counts of itself."""
METRICS = COUNTED | MEASURED | OF_PROCESS
SCALING = {
    "worker_cpu": 0.7,
    "worker_memory": 0.8,
    "queue_depth": 100.0,
    "api_requests_per_second": 1000.0,
    "api_response_seconds": 0.5,
    "api_cpu": 0.7,
}
"""The six signals, each with the value above which a fleet is scaled out."""


def full_name(key: str) -> str:
    """Return the name as Prometheus has it, without ``_total``."""
    return f"callboard_{key}"


# --- rows of a day

DAY_MS = 86_400_000
FIRST_TOKEN = "time_to_first_token_seconds"


def rows_of_slots(sums: Iterable[tuple[int, str, str, float]]) -> dict[str, Any]:
    """Return a row for each slot of ``slot_sums``, and how long model calls took to their first piece of text in all
    of them."""
    slots: dict[int, dict[str, Any]] = {}
    all_counts: dict[str, float] = defaultdict(float)
    for slot_ms, name, part, value in sums:
        row = slots.setdefault(slot_ms, {"runs": {}, "tool_calls": {}, "counts": defaultdict(float)})
        key, _, bound = name.partition(":")
        if key == "runs_started":
            row["started"] = round(value)
        elif key == "runs_ended" and part:
            row["runs"][part] = round(value)
        elif key == "activity_executions" and part.startswith("tool "):
            row["tool_calls"][part.removeprefix("tool ")] = round(value)
        elif key == FIRST_TOKEN and bound != "sum":
            row["counts"][bound] += value
            all_counts[bound] += value
        elif key in ("tokens", "cost_usd"):
            row[f"{part}_tokens" if key == "tokens" else key] = value
    return {"rows": [_row(slot_ms, row) for slot_ms, row in sorted(slots.items())], **_quantiles(all_counts)}


def _row(slot_ms: int, row: Mapping[str, Any]) -> dict[str, Any]:
    tokens = {name: round(row.get(name, 0)) for name in ("input_tokens", "output_tokens")}
    facts = {
        "at": stamp(slot_ms),
        "started": row.get("started", 0),
        "runs": row["runs"],
        "tool_calls": row["tool_calls"],
        **tokens,
    }
    return facts | {"cost_usd": row.get("cost_usd", 0.0)} | _quantiles(row["counts"])


def _quantiles(counts: Mapping[str, float]) -> dict[str, float]:
    if not sum(counts.values()):
        return {}
    return {f"first_token_p{percent}_s": round(quantile(counts, percent / 100), 4) for percent in (50, 95)}


def quantile(counts: Mapping[str, float], share: float) -> float:
    """Return the value below which this share of the values is, from counts by the upper bound of their bucket.

    Within a bucket values are taken as evenly spread, as Prometheus does; beyond the last bound it is that bound.
    """
    rank, below, lower = share * sum(counts.values()), 0.0, 0.0
    for upper in COUNTED[FIRST_TOKEN].buckets:
        count = counts.get(f"{upper:g}", 0.0)
        if count and below + count >= rank:
            return lower + (upper - lower) * (rank - below) / count
        below, lower = below + count, upper
    return lower
