"""For what and for whom a run works, from its lease."""

from __future__ import annotations

from dataclasses import dataclass

from bus.journal.owner import Lease
from config.identity.contexts import DeclaredContext, GoldenContext, SecurityContext, reference_of, trace_id_of_run
from config.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContexts:
    """The contexts of one run."""

    declared: DeclaredContext | None
    """What is declared of the run; None where that is unknown and may not be completed."""
    golden: GoldenContext | None
    """None: no tool may be called."""
    security: SecurityContext | None
    """None: the run may not be worked on."""


def contexts_of(lease: Lease, settings: Settings) -> RunContexts:
    """Return the contexts of a claimed run."""
    trace_id, declared = lease.trace_id or trace_id_of_run(lease.run_id), _declared(lease, settings)
    golden = declared.golden(lease.principal, trace_id) if declared is not None else None
    return RunContexts(declared=declared, golden=golden, security=_security(lease, declared, trace_id, settings))


def _declared(lease: Lease, settings: Settings) -> DeclaredContext | None:
    """Return what is declared of a run: by its row, or of a run of an earlier release by the settings of this process.

    What its row has and cannot be read is completed by nothing, since it may have been stricter.
    """
    if lease.context_json is not None:
        return DeclaredContext.from_json(lease.context_json)
    return None if settings.require_contexts else settings.declared_context(lease.tenant)


def _security(
    lease: Lease, declared: DeclaredContext | None, trace_id: str, settings: Settings
) -> SecurityContext | None:
    if settings.require_contexts and (lease.credential is None or lease.trace_id is None):
        return None
    token_ref = declared.token_ref if declared is not None else None
    initiator_id = declared.initiator_id if declared is not None else None
    return SecurityContext(
        initiator_id=initiator_id or lease.principal,
        roles=lease.roles,
        token_ref=token_ref or reference_of(lease.credential or "", lease.credential_id),
        trace_id=trace_id,
    )
