"""The engine of a run: built from the settings, and asked when the run begins and ends."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from agents.errors import POLICY_REFUSED
from agents.governance.engine.governance import RULE, Governance, GovernedRun
from bus.journal.owner import Lease
from bus.payloads import EndPayload
from config.identity.contexts import GoldenContext, SecurityContext
from config.policy_decision import Verdict
from config.settings import Settings


def governance_of(
    settings: Settings,
    run: Lease | Row[Any],
    run_id: str,
    golden: GoldenContext | None,
    security: SecurityContext | None = None,
) -> Governance | None:
    """Return what asks the engine about a run, from its lease or its row; None where the settings name no engine."""
    if settings.governance_url is None:
        return None
    from agents.governance.engine.remote import engine_of  # with the HTTP client of requests to given addresses

    governed = GovernedRun(
        run_id=run_id,
        thread_id=run.thread_id,
        agent_id=run.agent_id,
        tenant=run.tenant,
        principal=run.principal,
        queue=run.queue or settings.queue,
        trace_id=run.trace_id,
        correlation_id=run.correlation_id or run.trace_id,
        context=golden.as_json() if golden is not None else None,
        security=security.as_json() if security is not None else None,
    )
    return Governance(engine_of(settings), governed, settings.governance_policy)


async def report_start(governance: Governance | None, workflow_input: Any) -> None:
    """Send that the run begins; without an answer it does, as each call of it is asked about.

    Raises:
        POLICY_REFUSED: the engine stops it.
    """
    answer = (
        await governance.report("WorkflowStarted", workflow_input=workflow_input) if governance is not None else None
    )
    if answer is not None and (answer.verdict in (Verdict.BLOCK, Verdict.HALT) or not answer.is_valid):
        raise POLICY_REFUSED(rule=answer.rule or RULE, reason=answer.reason)


async def report_end(governance: Governance | None, end: EndPayload | None) -> None:
    """Send how the run ended, where it has; the answer has no effect."""
    if governance is None or end is None:
        return
    if end.status == "succeeded":
        await governance.report("WorkflowCompleted", workflow_output=end.output, status=end.status)
    else:
        await governance.report("WorkflowFailed", status=end.status, error=end.reason)
