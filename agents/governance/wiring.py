"""The engine of a run: built from the settings, and asked when the run begins and ends."""

from __future__ import annotations

from typing import Any

from agents.errors import PolicyRefused
from agents.governance.governance import RULE, Governance, GovernedRun
from bus.journal import Lease
from bus.payloads import EndPayload
from config.identity.contexts import GoldenContext, SecurityContext
from config.policy.decision import Verdict
from config.settings import Settings


def governance_of(
    settings: Settings, lease: Lease, golden: GoldenContext | None, security: SecurityContext | None
) -> Governance | None:
    """Return what asks the engine about the run of this lease; None where the settings name no engine."""
    if settings.governance_url is None:
        return None
    from agents.governance.engine import engine_of  # with the HTTP client of requests to given addresses

    run = GovernedRun(
        run_id=lease.run_id,
        thread_id=lease.thread_id,
        agent_id=lease.agent_id,
        tenant=lease.tenant,
        principal=lease.principal,
        queue=lease.queue or settings.queue,
        trace_id=lease.trace_id,
        correlation_id=lease.correlation_id or lease.trace_id,
        context=golden.as_json() if golden is not None else None,
        security=security.as_json() if security is not None else None,
    )
    return Governance(engine_of(settings), run, settings.governance_policy)


async def report_start(governance: Governance | None, asked: Any) -> None:
    """Send that the run begins; without an answer it does, as each call of it is asked about.

    Raises:
        PolicyRefused: the engine stops it.
    """
    answer = await governance.report("WorkflowStarted", workflow_input=asked) if governance is not None else None
    if answer is not None and (answer.verdict in (Verdict.BLOCK, Verdict.HALT) or not answer.is_valid):
        raise PolicyRefused(rule=answer.rule or RULE, reason=answer.reason)


async def report_end(governance: Governance | None, end: EndPayload | None) -> None:
    """Send how the run ended, where it has; the answer has no effect."""
    if governance is None or end is None:
        return
    if end.status == "succeeded":
        await governance.report("WorkflowCompleted", workflow_output=end.output, status=end.status)
    else:
        await governance.report("WorkflowFailed", status=end.status, error=end.reason)
