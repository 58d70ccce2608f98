"""The stages that a tool call passes before it may be made, in their order.

A stage is a function of what was asked for and what the stages before it decided; a row of ``STAGES``, or of
``REMOTE_STAGES`` where it has to wait, makes every call of every caller pass it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agents.context import RunContext
from agents.delegation.agent_tool import WORKFLOW
from agents.errors import (
    CALL_BLOCKED,
    GOLDEN_CONTEXT_MISSING,
    ArgumentsInvalid,
    role_missing,
    tool_not_offered,
)
from agents.models.streams.tool_calls import ToolCall
from agents.steps.call_record import CallDecision, CallRecord, scopes_of, version_of
from agents.steps.governed import ask_engine
from agents.tools.requests import missing_form
from agents.tools.schema import parse_arguments, validate_arguments
from agents.tools.tool import Tool
from bus.journal.approvals import USED_UP
from bus.journal.owner import OpenStep, StickyApproval
from config.effects import OUTWARD
from config.errors import ModelVisible
from config.ids import canonical_digest
from config.policy_decision import TOOLS_OWN, PolicyDecision, Verdict

CHANGED = "The tool has changed since this call was approved, so it needs another approval."
POLICY_CHANGED = "The policy has changed since this call was approved, so it needs another approval."
MISSING = "The agent called this without {names}. Fill in what is missing, or decline."
UNRECORDED = (
    "Not done: the recording that this run continues from was removed, so it is not known whether this call was made "
    "before. Start a new run, or run it again with the mode 'live'."
)
NEVER_MADE = "The call was not made: when the model asked for it, its tool or its arguments did not fit."


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRequest:
    """A call as it was asked for: what a stage may look at."""

    context: RunContext
    record: CallRecord
    tools: Mapping[str, Tool]
    """Those of the run's agent."""
    arguments: Mapping[str, Any]
    """As the model wrote them, or as a person or a policy has changed them before."""
    problem: ModelVisible | None
    """Why they cannot be used: they are no JSON, or have a secret."""
    asks_missing: bool = False
    """Whether a person is asked for required arguments that the call lacks."""

    @property
    def tool(self) -> Tool:
        """The call's tool, once it is authorised."""
        assert self.record.tool is not None
        return self.record.tool


Stage = Callable[[CallRequest, CallDecision], CallDecision]
"""Returns the decision with what the stage adds to it. An error that the model may see refuses the call. It runs in the
claim's transaction for the first call of a run, and so waits for nothing."""
RemoteStage = Callable[[CallRequest, CallDecision], Awaitable[CallDecision]]
"""A stage that waits for another machine: before the start is committed, or right after the claim."""


def request_of(
    context: RunContext,
    call: ToolCall,
    tools: Mapping[str, Tool],
    prior: OpenStep | None = None,
    *,
    asks_missing: bool = False,
) -> CallRequest:
    """Return what is asked for; a secret in the arguments of a new call is replaced before anything records it.

    ``prior``: the call's step as an earlier owner left it.
    """
    problem: ModelVisible | None = None
    if prior is None:
        text, problem = context.guardrails.call(call.arguments_text)
        if text != call.arguments_text:
            context.guardrails.seal(f"arguments {call.name}", call.arguments_text)
            call = replace(call, arguments_text=text)
    record, arguments = CallRecord.of(call, tools.get(call.name), prior), dict[str, Any]()
    try:
        arguments = _written(record)
    except ModelVisible as error:
        problem = error
    return CallRequest(
        context=context, record=record, tools=tools, arguments=arguments, problem=problem, asks_missing=asks_missing
    )


def _written(record: CallRecord) -> dict[str, Any]:
    """Return the arguments: as a person or a policy has changed them before, else as the model wrote them."""
    prior, changed = record.prior, record.answer.edited
    if changed is None and prior is not None and (not record.is_planned or prior.remote):
        changed = prior.constrained  # of a planned call the local policy is asked again, which changes it alike
    return parse_arguments(record.call.arguments_text) if changed is None else dict(changed)


def decide(request: CallRequest) -> CallDecision:
    """Return what the stages decide about a call; the first one that refuses it is the last.

    A call that an earlier owner began, or that a person has settled, is not decided about again.
    """
    decision, prior = CallDecision(arguments=request.arguments), request.record.prior
    try:
        if prior is not None and prior.effect and not prior.may_be_called:
            return _usable(request, decision)
        for stage in STAGES:
            decision = stage(request, decision)
            if decision.is_final:
                break
    except ModelVisible as error:
        return decision.refused(error, f"The call was not made: {error}", "failed")
    return decision


async def decide_remotely(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Return the decision with what the stages add that wait for another machine."""
    for stage in REMOTE_STAGES:
        if decision.is_final:
            break
        decision = await stage(request, decision)
    return decision


# --- the stages


def authorise(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Let the call pass where there is such a tool, and the run's principal may call it."""
    tool, name, context = request.record.tool, request.record.call.name, request.context
    if tool is None:
        return decision.refused(tool_not_offered(name, request.tools), outcome="failed")
    if not tool.may_be_called_with(context.lease.roles):
        return decision.refused(role_missing(name, tool.roles))
    if context.golden is None:
        return decision.refused(GOLDEN_CONTEXT_MISSING(name=name))
    return decision


def validate(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Let the call pass where its arguments fit the tool's schema; a person may be asked for missing ones."""
    decision, record, form = _usable(request, decision), request.record, None
    try:
        validate_arguments(request.tool, decision.arguments)
    except ArgumentsInvalid:
        if request.asks_missing and record.answer.edited is None and record.is_planned:
            form = missing_form(request.tool.parameters, decision.arguments)
        if form is None:
            raise
    if record.prior is not None and not record.prior.effect:  # a call that was invalid is not tried with other code
        return decision.refused(ArgumentsInvalid(NEVER_MADE), NEVER_MADE, "failed")
    if form is None:
        return decision
    names = " and ".join(f"'{name}'" for name in form["required"])
    return replace(decision, form=form, approval_reason=MISSING.format(names=names))


def judge(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Ask the policy about a call that no owner has begun, and make its changes."""
    if not request.record.is_planned:
        return decision
    tool, context = request.tool, request.context
    facts = context.call_facts(
        "tool",
        tool.name,
        decision.arguments,
        tool.effect,
        tool.classification,
        labels=(OUTWARD,) if tool.is_outward else (),
        identity=tool.identity,
        leaves=tool.leaves,
    )
    judged = context.policy.decide(facts)
    version = None  # of what the tool requires, its own version is enough
    if judged.verdict is Verdict.REQUIRE_APPROVAL:
        version = canonical_digest({"version": judged.version, "rule": judged.rule})
    judged = _with_tools_own(tool, judged)
    decision = replace(decision, policy_decision=judged, policy_version=version)
    if judged.verdict is Verdict.BLOCK:
        problem = f"Not done: the policy's rule '{judged.rule}' blocks it. {judged.reason}"
        decision = decision.refused(CALL_BLOCKED(problem))
    if judged.arguments is None:
        return decision
    changed = _changed(decision.arguments, judged.arguments)
    decision = replace(decision, changed=changed, arguments=dict(judged.arguments))
    try:
        validate_arguments(tool, decision.arguments)
    except ArgumentsInvalid as error:
        problem = f"the policy's rule '{judged.rule}' rewrote the arguments, and they do not fit: {error}"
        return decision.refused(CALL_BLOCKED(f"Not done: {problem}"))
    return decision


def recall(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Give a call the outcome that the run which this one continues from has recorded; it is not made again then.

    The call passes the stages before all the same: what may not be called now gets no recorded result either.
    """
    recorded, record = request.context.lease.recorded, request.record
    if recorded is None or not record.is_planned:
        return decision
    place = record.call.id, record.call.name, canonical_digest(decision.arguments)
    if request.tool.body is not None:  # a batch of other items; its own calls are looked up
        return decision
    outcome = recorded.take(*place)
    decision = replace(decision, key=recorded.key_of(*place))
    if outcome is None and not request.tool.line.startswith(WORKFLOW):  # whose own calls are looked up
        decision = replace(decision, repeats=recorded.why_asked(*place, request.tool.effect))
    if outcome is not None and outcome.outcome == "done" and request.tool.hands_over:
        return decision  # the result alone would say that another agent continues, and none would
    if outcome is None and recorded.may_lack(request.tool.effect):
        return decision.refused(CALL_BLOCKED(UNRECORDED))
    return replace(decision, recorded=outcome)


def approve(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Let a call begin that needs no approval, or that a person has approved, also by a sticky approval."""
    if not request.record.is_planned:
        return decision
    reason = _missing_approval(request, decision)
    if reason is None:
        return decision
    covering = filter(partial(_is_covered, request, decision), request.context.sticky)
    sticky = next(covering, None) if decision.repeats is None else None
    if sticky is None or decision.policy_decision is None:
        return replace(decision, approval_reason=reason)
    noted = replace(decision.policy_decision, approved=sticky.sentence)
    return replace(decision, sticky=sticky, policy_decision=noted)


async def consult(request: CallRequest, decision: CallDecision) -> CallDecision:
    """Let the governance engine decide too, where the operator names one."""
    return await ask_engine(request.context.governance, request.record, decision)


STAGES: tuple[Stage, ...] = (authorise, validate, judge, recall, approve)
REMOTE_STAGES: tuple[RemoteStage, ...] = (consult,)


# --- what they need


def _usable(request: CallRequest, decision: CallDecision) -> CallDecision:
    if request.problem is not None:
        raise request.problem
    return decision


def _missing_approval(request: CallRequest, decision: CallDecision) -> str | None:
    """Return why the call needs a person's approval; None where it needs none, or has one for exactly this."""
    tool, answer = request.tool, request.record.answer
    if not (tool.needs_approval or decision.is_required_by_policy or decision.repeats):
        return None
    if answer.decision is None or answer.decision.decision not in USED_UP:
        return _approval_reason(tool, decision)
    if answer.decision.decision == "run_again":
        return None
    if answer.digest != canonical_digest(decision.arguments) or answer.tool_digest != version_of(tool):
        return CHANGED
    return None if answer.policy_version == decision.policy_version else POLICY_CHANGED


def _approval_reason(tool: Tool, decision: CallDecision) -> str:
    judged = decision.policy_decision
    if decision.repeats is not None:
        return decision.repeats
    if judged is None or not decision.is_required_by_policy:
        return tool.confirm_reason
    return judged.reason or f"The policy's rule '{judged.rule}' requires a person's approval."


def _is_covered(request: CallRequest, decision: CallDecision, sticky: StickyApproval) -> bool:
    """Return whether a person's approval of an earlier call holds for this one."""
    tool, thread_id = request.tool, request.context.lease.thread_id
    if tool.approvers > 1 or sticky.scope not in scopes_of(tool, decision)[0]:
        return False
    return sticky.covers(thread_id, version_of(tool), decision.policy_version)


def _with_tools_own(tool: Tool, decision: PolicyDecision) -> PolicyDecision:
    """Return the decision with the approval that the tool itself requires."""
    if not tool.needs_approval or decision.verdict not in (Verdict.ALLOW, Verdict.CONSTRAIN):
        return decision
    if decision.verdict is Verdict.CONSTRAIN:  # the rule has changed the call, and stays named
        return replace(decision, verdict=Verdict.REQUIRE_APPROVAL)
    return replace(decision, verdict=Verdict.REQUIRE_APPROVAL, rule=TOOLS_OWN, reason=tool.confirm_reason)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the arguments that differ."""
    same = {name for name, value in before.items() if name in after and after[name] == value}
    return tuple(sorted({*before, *after} - same))
