"""The contexts of a run, made of its row."""

from __future__ import annotations

from typing import Any

import orjson

from config.database.tables import runs
from config.identity.contexts import DeclaredContext, GoldenContext, SecurityContext, reference_of, trace_id_of_run
from config.identity.principal import Principal, Role

CONTEXT_COLUMNS = runs.c["id", "principal", "trace_id", "context_json"]
"""What ``golden_of`` reads of a run's row."""
SEES_TOKENS = frozenset({Role.OPERATOR, Role.ADMIN})
"""The roles that see with which credential a run was started."""


def golden_of(row: Any) -> GoldenContext | None:
    """Return the golden context that a run was started with; None where its row has none."""
    declared = _declared(row)
    return declared.golden(row.principal, row.trace_id or trace_id_of_run(row.id)) if declared is not None else None


def run_contexts(row: Any, principal: Principal) -> dict[str, Any]:
    """Return ``context`` and ``security_context`` of a run, as far as its row has them and ``principal`` may see."""
    golden, contexts = golden_of(row), dict[str, Any]()
    if golden is not None:
        contexts["context"] = golden.as_json()
    if row.credential is not None and row.trace_id is not None:
        security = _security(row)
        contexts["security_context"] = security.as_json(with_token=not SEES_TOKENS.isdisjoint(principal.roles))
    return contexts


def _security(row: Any) -> SecurityContext:
    """Return the security context as the run was started: its owner has made another one, with the roles of then."""
    declared, names = _declared(row), orjson.loads(row.roles_json) if row.roles_json is not None else []
    return SecurityContext(
        initiator_id=(declared.initiator_id if declared is not None else None) or row.principal,
        roles=frozenset(Role(name) for name in names if name in set(Role)),
        token_ref=(declared.token_ref if declared is not None else None)
        or reference_of(row.credential, row.credential_id),
        trace_id=row.trace_id,
    )


def _declared(row: Any) -> DeclaredContext | None:
    return DeclaredContext.from_json(row.context_json) if row.context_json is not None else None
