"""Counts the log's events, each once: what it counted is written in the transaction that moves its cursor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar

from sqlalchemy import Connection

from bus.journal.tailing import Series, add_values, forget_old_slots, model_calls, values_of
from bus.payloads import (
    ApprovalPayload,
    ControlPayload,
    EndPayload,
    ErrorPayload,
    MessagePayload,
    Payload,
    StatusPayload,
    ToolPayload,
    ToolResultPayload,
)
from config.redaction import REDACTED
from observers.base import AgentFacts, AgentObserver, RunFacts, Tailing
from observers.metrics.names import COUNTED

MAX_VALUES = 200
"""Values of a label that have series of their own; the others are counted as ``other``."""
OTHER = "other"
FORGET_EVERY = 300
"""Commits between two deletions of old slots."""
BLOCKING = {"input_blocked": "blocked", "output_blocked": "blocked", "result_blocked": "blocked"}


class MetricsObserver(AgentObserver):
    """Counts runs, calls, tokens, decisions and stops; ``/metrics`` reads the sums."""

    name: ClassVar[str] = "metrics"
    tailing: ClassVar[Tailing] = Tailing(
        poll_s=2.5,  # by default a worker feeds it, beside its runs; Prometheus asks every 15 s or so
        types=("status", "tool", "tool_result", "message", "error", "approval", "control", "end"),
    )

    def __init__(self) -> None:
        self._counts: dict[tuple[Series, int], float] = defaultdict(float)
        self._messages: dict[str, tuple[str, str, int]] = {}
        """Of model calls by their step: the run, the message, and when the message was written (ms)."""
        self._values: dict[str, set[str]] = defaultdict(set)
        """Of each label those with series of their own, as they were read last."""
        self._commits = 0

    def on_status(self, agent: AgentFacts, payload: StatusPayload, context: RunFacts) -> None:
        if payload.seq == 1:
            self._count(payload, "runs_started", context.kind, agent.id, context.tenant)

    def on_tool(self, agent: AgentFacts, payload: ToolPayload, context: RunFacts) -> None:
        verdict = str((payload.policy or {}).get("verdict", "allow"))
        if (payload.attempt or 1) == 1:
            self._count(payload, "governance_evaluations", verdict)
        else:
            self._count(payload, "activity_retries", "tool", payload.name)
        if verdict in ("block", "halt"):
            self._count(payload, "policy_violations", verdict)

    def on_tool_result(self, agent: AgentFacts, payload: ToolResultPayload, context: RunFacts) -> None:
        if payload.recorded_in is not None:  # a repeated run made no call
            return
        self._count(payload, "activity_executions", "tool", payload.name, payload.outcome)
        if payload.duration_ms is not None:
            self._observe(payload, "activity_duration_seconds", payload.duration_ms / 1000, "tool", payload.name)
        self._note_guardrails(payload, payload.code, payload.result)

    def on_message(self, agent: AgentFacts, payload: MessagePayload, context: RunFacts) -> None:
        if payload.role == "assistant" and payload.step_id:
            self._messages[payload.step_id] = context.run_id, payload.message_id, _ms(payload.at)
        if payload.validation is not None:
            self._count(payload, "guardrails_applied", "judged")
        self._note_guardrails(payload, None, payload.content)

    def on_error(self, agent: AgentFacts, payload: ErrorPayload, context: RunFacts) -> None:
        if payload.call_id is None and payload.code.startswith("model_"):
            self._count(payload, "activity_executions", "model", agent.model, "failed")
            if payload.retry_in_ms is not None:
                self._count(payload, "activity_retries", "model", agent.model)
        self._note_guardrails(payload, payload.code, None)

    def on_approval(self, agent: AgentFacts, payload: ApprovalPayload, context: RunFacts) -> None:
        if payload.decision is None:
            self._count(payload, "approvals_asked")
        else:
            self._count(payload, "approvals_answered", payload.decision)

    def on_control(self, agent: AgentFacts, payload: ControlPayload, context: RunFacts) -> None:
        if payload.verb == "stop" and payload.state == "consumed":
            self._count(payload, "stops", "client")

    def on_end(self, agent: AgentFacts, payload: EndPayload, context: RunFacts) -> None:
        self._count(payload, "runs_ended", context.kind, agent.id, context.tenant, payload.status)
        if payload.duration_ms is not None:
            seconds = payload.duration_ms / 1000
            self._observe(payload, "run_duration_seconds", seconds, context.kind, payload.status)
        if payload.reason == "policy_refused":
            self._count(payload, "stops", "policy")
        for direction in ("input", "output"):
            tokens = (payload.usage or {}).get(f"{direction}_tokens")
            if tokens:
                self._count(payload, "tokens", agent.id, direction, by=tokens)
        if payload.cost_usd:
            self._count(payload, "cost_usd", agent.id, context.tenant, by=payload.cost_usd)

    def _note_guardrails(self, payload: Payload, code: str | None, content: Any) -> None:
        if code in BLOCKING:
            self._count(payload, "guardrails_applied", BLOCKING[code])
        if isinstance(content, str) and REDACTED in content:
            self._count(payload, "guardrails_applied", "redacted")

    # --- counting

    def _count(self, payload: Payload, key: str, *values: str, by: float = 1.0) -> None:
        self._add(_ms(payload.at), key, key, values, by)

    def _observe(self, payload: Payload, key: str, value: float, *values: str) -> None:
        self._add_to_histogram(_ms(payload.at), key, value, values)

    def _add_to_histogram(self, at_ms: int, key: str, value: float, values: tuple[str, ...]) -> None:
        bucket = next((bound for bound in COUNTED[key].buckets if value <= bound), float("inf"))
        self._add(at_ms, key, f"{key}:{bucket:g}", values, 1.0)
        self._add(at_ms, key, f"{key}:sum", values, value)

    def _add(self, at_ms: int, key: str, name: str, values: tuple[str, ...], by: float) -> None:
        labels = tuple(zip(COUNTED[key].labels, values, strict=True))
        self._counts[Series(name, labels), at_ms] += by

    # --- the transaction that moves the cursor

    def on_commit(self, connection: Connection) -> None:
        """Add what was counted since the last commit to the sums."""
        messages = [(run_id, message_id, step_id) for step_id, (run_id, message_id, _) in self._messages.items()]
        for step_id, call in model_calls(connection, messages).items():
            at_ms = self._messages[step_id][2]
            self._add(at_ms, "activity_executions", "activity_executions", ("model", call.model, "done"), 1.0)
            self._add_to_histogram(at_ms, "activity_duration_seconds", call.duration_ms / 1000, ("model", call.model))
            if call.first_token_ms is not None:
                seconds = call.first_token_ms / 1000
                self._add_to_histogram(at_ms, "time_to_first_token_seconds", seconds, (call.model,))
                writing_s = max(0.001, call.duration_ms / 1000 - seconds)
                if call.output_tokens:
                    rate = call.output_tokens / writing_s
                    self._add_to_histogram(at_ms, "output_tokens_per_second", rate, (call.model,))
        if self._counts:
            add_values(connection, dict(self._bounded(connection)))
        self._counts.clear()
        self._messages.clear()
        self._commits += 1
        if self._commits % FORGET_EVERY == 1:
            forget_old_slots(connection)

    def _bounded(self, connection: Connection) -> Iterator[tuple[tuple[Series, int], float]]:
        """Yield the counts, those of a label's later values as ``other``: a label may have a million values."""
        if self._has_new_values():  # other threads may have added some, too
            self._values.clear()
            for series, _, _ in values_of(connection):
                for label, value in series.labels:
                    self._values[label].add(value)
        bounded: dict[tuple[Series, int], float] = defaultdict(float)
        for (series, at_ms), count in self._counts.items():
            labels = tuple((label, self._bounded_value(label, value)) for label, value in series.labels)
            bounded[Series(series.name, labels), at_ms] += count
        yield from bounded.items()

    def _has_new_values(self) -> bool:
        pairs = (pair for series, _ in self._counts for pair in series.labels)
        return any(
            len(self._values[label]) < MAX_VALUES and _short(value) not in self._values[label] for label, value in pairs
        )

    def _bounded_value(self, label: str, value: str) -> str:
        values, short = self._values[label], _short(value)
        if short not in values and len(values) >= MAX_VALUES:
            return OTHER
        values.add(short)
        return short


def _short(value: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in value[:100])


@lru_cache(maxsize=4096)
def _ms(at: str) -> int:
    """Return a time of an event in ms since 1970, to the second: counts of one second are one."""
    return int(datetime.fromisoformat(at[:19] + "+00:00").timestamp()) * 1000
