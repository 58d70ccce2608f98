"""The remote governance engine's part in a tool call: it is asked before the call, and gets the result after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.errors import CALL_BLOCKED, POLICY_REFUSED, ArgumentsInvalid
from agents.governance.engine.governance import Governance, GovernedCall, Judgement, combined
from agents.steps.call_record import CallDecision, CallOutcome, CallRecord, RefusedCall
from agents.tools.results import chars_of, in_thread_if_large, validate_output
from agents.tools.schema import validate_arguments
from config.errors import ModelVisible
from config.policy_decision import PolicyDecision, Verdict

LOST = "The worker was lost while this call was under way, and it is not known whether it took effect."


async def ask_engine(governance: Governance | None, record: CallRecord, decision: CallDecision) -> CallDecision:
    """Return the stricter of the decision and the engine's; its notes are to be committed with it.

    The engine is asked once about a task that is under way.
    """
    if governance is None or _was_asked_about(record):
        return decision
    judged = await governance.before(_governed(record, decision))
    misfit = await _misfit(record, judged.decision.arguments)
    return replace(_adopted(record, decision, judged.decision, misfit), notes=judged.notes)


async def judge_result(
    governance: Governance,
    record: CallRecord,
    decision: CallDecision,
    end: CallOutcome,
    spans: Sequence[Mapping[str, Any]],
) -> Judgement:
    """Send the engine what was done, and return what it decides about the result."""
    return await governance.after(
        _governed(record, decision),
        status="completed" if end.outcome == "done" else end.outcome,
        output=end.result,
        duration_ms=end.duration_ms,
        spans=spans,
    )


async def accepted_end(record: CallRecord, end: CallOutcome, judged: Judgement) -> CallOutcome | RefusedCall:
    """Return the end with the engine's changes, or how the call ends where its result is kept back.

    A result that the engine changed has to conform to the tool's schema.

    Raises:
        POLICY_REFUSED: the engine ends the run.
    """
    decision = judged.decision
    if decision.verdict is Verdict.HALT:
        raise POLICY_REFUSED(rule=decision.rule, reason=decision.reason)
    if end.outcome == "unknown":
        return end
    if decision.verdict in (Verdict.BLOCK, Verdict.REQUIRE_APPROVAL):
        problem = f"The call was made, and its result is kept back: {decision.reason or decision.rule}"
        return RefusedCall("failed", problem, CALL_BLOCKED(problem))
    if not judged.is_output_changed:
        return end
    assert record.tool is not None
    try:
        if end.outcome == "done":
            await in_thread_if_large(chars_of(judged.output), validate_output, record.tool, judged.output)
    except ModelVisible as error:
        problem = "The call was made, and its result is kept back: the governance engine changed it, and"
        return RefusedCall("failed", f"{problem} {error}", error)
    return replace(end, result=judged.output)


def _was_asked_about(record: CallRecord) -> bool:
    """Return whether its task is under way, and the engine was asked before it was sent."""
    is_task = record.tool is not None and record.tool.task is not None
    return is_task and record.is_under_way and record.prior is not None and bool(record.prior.remote)


def _governed(record: CallRecord, decision: CallDecision) -> GovernedCall:
    return GovernedCall(
        step_id=record.id,
        call_id=record.call.id,
        point="tool",
        name=record.call.name,
        identity=record.tool.identity if record.tool is not None else "",
        arguments=decision.arguments,
        effect=record.effect,
        leaves=record.tool is None or record.tool.leaves,
        attempt=record.attempt,
    )


async def _misfit(record: CallRecord, arguments: Mapping[str, Any] | None) -> ArgumentsInvalid | None:
    """Return why the engine's arguments do not fit the tool; None where they do, or it changed none."""
    if arguments is None or record.tool is None:
        return None
    try:
        await in_thread_if_large(chars_of(arguments), validate_arguments, record.tool, dict(arguments))
    except ArgumentsInvalid as error:
        return error
    return None


def _adopted(
    record: CallRecord, decision: CallDecision, remote: PolicyDecision, misfit: ArgumentsInvalid | None
) -> CallDecision:
    """Return the stricter of both decisions; what a person approved is not changed any more.

    ``misfit``: why the engine's arguments do not fit the tool.
    """
    is_approved, both = record.is_approved(decision.arguments), combined(decision.policy_decision, remote)
    if remote.verdict not in (Verdict.ALLOW, Verdict.CONSTRAIN):
        both = replace(both, approved=None)  # by the sticky approval alone it is not made
    if record.prior is not None and record.prior.remote and record.prior.constrained is not None:
        both = replace(both, arguments=dict(decision.arguments))
    decision = replace(decision, policy_decision=both)
    if remote.arguments is not None:
        if is_approved:
            return _refused(record, decision, "the governance engine changed the arguments that a person has approved.")
        decision = replace(decision, arguments=dict(remote.arguments))
        if misfit is not None:
            problem = f"the governance engine rewrote the arguments, and they do not fit: {misfit}"
            return _refused(record, decision, problem)
    if remote.verdict is Verdict.BLOCK:
        return _refused(record, decision, f"the policy's rule '{remote.rule}' blocks it. {remote.reason}")
    if remote.verdict is Verdict.REQUIRE_APPROVAL and not is_approved:
        reason = remote.reason or f"The policy's rule '{remote.rule}' requires a person's approval."
        return replace(decision, approval_reason=reason)
    return decision


def _refused(record: CallRecord, decision: CallDecision, problem: str) -> CallDecision:
    """Refuse the call; if an earlier owner began it, its outcome may be unknown."""
    if record.is_open and record.effect.policy.is_unknown_when_cut_off:
        return replace(decision, refusal=RefusedCall("unknown", f"{LOST} It was not made again: {problem}", None))
    return decision.refused(CALL_BLOCKED(f"Not done: {problem}"))
