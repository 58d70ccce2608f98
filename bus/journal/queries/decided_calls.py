"""What the policy decided about a run's calls, and the facts that it looked at, as far as they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Row, select

from bus.journal.approvals import answers
from bus.journal.queries.run_contexts import golden_of
from bus.journal.records.steps import Totals, total_of
from config.clock import stamp
from config.database.tables import messages, runs, steps
from config.effects import Effect
from config.identity.principal import Role
from config.policy_decision import CallFacts

PAGE = 200
"""Decisions in a list without an explicit limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedCall:
    """A call of a model or a tool, with what is known of it."""

    run_id: str
    step_id: str
    number: int
    """Of the step in its run, from 1."""
    at_ms: int
    facts: CallFacts
    """Without the classification of the tool, which is not recorded."""
    decision: Mapping[str, Any]
    """As it was recorded; empty of a call that was made before there were policies."""


def decisions_of(connection: Connection, run_id: str, *, after: int = 0, limit: int = PAGE) -> list[dict[str, Any]]:
    """Return the run's decisions as the API shows them, in the order of the steps behind number ``after``."""
    columns = steps.c["id", "number", "kind", "name", "call_id", "effect", "status", "decision_json", "started_ms"]
    query = select(*columns).where(steps.c.run_id == run_id, steps.c.number > after, steps.c.decision_json.is_not(None))
    return [_shown(row) for row in connection.execute(query.order_by(steps.c.number).limit(limit))]


def _shown(row: Row[Any]) -> dict[str, Any]:
    fields = {
        "step_id": row.id,
        "number": row.number,
        "point": row.kind,
        "name": row.name,
        "call_id": row.call_id,
        "effect": row.effect,
        "status": row.status,
        "at": stamp(row.started_ms),
        **orjson.loads(row.decision_json),
    }
    return {name: value for name, value in fields.items() if value is not None}


def decided_calls(connection: Connection, run: Row[Any]) -> list[DecidedCall]:
    """Return the calls of a run, given as its row, that the policy was or would have been asked about, in order."""
    rows = connection.execute(select(steps).where(steps.c.run_id == run.id).order_by(steps.c.number)).all()
    arguments = _arguments(connection, run.id, rows)
    calls = []
    for index, row in enumerate(rows):
        if row.kind not in ("model", "sample", "tool") or (
            row.kind == "tool" and row.effect is None and not row.decision_json
        ):
            continue  # a call that was not valid
        decision = orjson.loads(row.decision_json) if row.decision_json else {}
        fields = {"arguments": arguments.get(row.id, {}), "labels": frozenset(decision.get("seen", ()))}
        fields["identity"] = decision.get("identity", "")
        facts = _facts(run, row, total_of(rows[: _asked_with(rows, index)]), fields)
        calls.append(
            DecidedCall(
                run_id=run.id, step_id=row.id, number=row.number, at_ms=row.started_ms, facts=facts, decision=decision
            )
        )
    return calls


def _asked_with(rows: Any, index: int) -> int:
    """Return the place of the first call of the answer that asked for this one: all of them are judged at once."""
    while rows[index].kind == "tool" and index and rows[index - 1].kind == "tool":
        index -= 1
    return index


def _facts(run: Row[Any], row: Row[Any], spent: Totals, fields: dict[str, Any]) -> CallFacts:
    names = orjson.loads(run.roles_json) if run.roles_json else []
    return CallFacts(
        point="tool" if row.kind == "tool" else "model",
        name=row.name,
        effect=Effect(row.effect)
        if row.effect in set(Effect)
        else Effect.PURE
        if row.kind != "tool"
        else Effect.UNSAFE,
        principal=run.principal,
        roles=frozenset(Role(name) for name in names if name in set(Role)),
        tenant=run.tenant,
        agent_id=run.agent_id,
        model=run.model,
        cost_usd=spent.cost_usd or 0.0,
        tokens=sum(spent.usage.get(name, 0) for name in ("input_tokens", "output_tokens")),
        steps=spent.steps,
        context=golden_of(run),
        **fields,
    )


def _arguments(connection: Connection, run_id: str, rows: Any) -> dict[str, dict[str, Any]]:
    """Return the arguments of each tool step before the policy changed them: a person's, else the model's."""
    written: dict[str, str] = {}
    query = select(messages.c.data_json).where(messages.c.run_id == run_id, messages.c.role.in_(("assistant", "user")))
    for (data_json,) in connection.execute(query):
        for call in orjson.loads(data_json).get("tool_calls") or ():
            written[call["call_id"]] = call.get("arguments_text") or "{}"
    answers_by_step = answers(connection, run_id)
    by_step = {}
    for row in rows:
        edited = answers_by_step[row.id].edited if row.id in answers_by_step else None
        by_step[row.id] = dict(edited) if edited is not None else _decoded(written.get(row.call_id, "{}"))
    return by_step


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


RUN_COLUMNS = runs.c["id", "principal", "tenant", "roles_json", "agent_id", "model", "context_json", "trace_id"]
"""What ``decided_calls`` reads of a run's row."""
