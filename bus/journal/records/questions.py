"""Questions to persons as lists show them: what is asked about, what decides, and who has approved so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, select

from bus.journal.paging import present
from config.clock import stamp
from config.database.tables import approvals, steps
from config.effects import OnExpiry
from config.policy_decision import Verdict

_OF_STEP = steps.c.id == approvals.c.step_id
EFFECT = select(steps.c.effect).where(_OF_STEP).scalar_subquery().label("effect")
POLICY = select(steps.c.decision_json).where(_OF_STEP).scalar_subquery().label("policy_json")
QUESTION: tuple[ColumnElement[Any], ...] = (*approvals.c, EFFECT, POLICY)
"""The columns of ``question_data``."""


def question_data(row: Row[Any]) -> dict[str, Any]:
    """Return a question as the API shows it."""
    schema = orjson.loads(row.schema_json) if row.schema_json is not None else None
    arguments = orjson.loads(row.arguments_json)
    fields = {
        "approval_id": row.id,
        "kind": row.kind,
        "call_id": row.call_id,
        "name": row.name,
        "effect": row.effect,
        "arguments": arguments,
        "digest": row.digest,
        "input_schema": schema,
        "decisions": orjson.loads(row.decisions_json),
        "reason": row.reason,
        "expires_at": stamp(row.expires_ms),
        "on_expiry": row.on_expiry or OnExpiry.FAIL,
        "approvers": row.approvers or 1,
        "scopes": scopes_of(row),
        "scope_s": row.scope_s,
        "approved_by": approved_by(row),
        "asked_at": stamp(row.created_ms),
    }
    about = orjson.loads(row.about_json) if row.about_json is not None else {}
    defaults = _defaults(schema, arguments) if row.kind == "call" and schema is not None else None
    return fields | about | present({"defaults": defaults or None, **_policy(row.policy_json)})


def _defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the arguments that the model left out."""
    properties = schema.get("properties", {}).items()
    return {
        name: part["default"]
        for name, part in properties
        if name not in arguments and isinstance(part, Mapping) and "default" in part
    }


def _policy(decision_json: str | None) -> dict[str, Any]:
    """Return the rule that requires the approval, and the labels that the call had when it was decided about."""
    decision = orjson.loads(decision_json) if decision_json is not None else {}
    rule = decision.get("rule") if decision.get("verdict") == Verdict.REQUIRE_APPROVAL else None
    return {"rule": rule, "labels": decision.get("seen")}


def approved_by(row: Row[Any]) -> list[str]:
    """Return the principals that have approved a call which several have to approve, in order."""
    return orjson.loads(row.approved_json) if row.approved_json is not None else []


def scopes_of(row: Row[Any]) -> list[str]:
    """Return for which later calls an approval may hold too."""
    return orjson.loads(row.scopes_json) if row.scopes_json is not None else []
