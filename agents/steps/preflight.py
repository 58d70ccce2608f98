"""What a tool call passes before it may be made: it is authorised, validated, judged by the policy, and approved."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agents.context import RunContext
from agents.governance.guardrails.errors import SecretInArguments
from agents.models.streams.tool_calls import ToolCall
from agents.tool_errors import ArgumentsInvalid, CallBlocked, GoldenContextMissing, RoleMissing, ToolNotOffered
from agents.tools.arguments import parse_arguments, validate_arguments
from agents.tools.requests.questions import missing_form
from agents.tools.tool import Tool
from bus.journal import NO_ANSWER, USED_UP, OpenStep, StickyApproval, canonical_digest
from bus.payloads import Outcome
from config.capabilities import OUTWARD
from config.errors import ModelVisible
from config.policy_decision import TOOLS_OWN, PolicyDecision, Verdict

NEEDS_APPROVAL = "This tool needs a person's approval for each call."
CHANGED = "The tool has changed since this call was approved, so it needs another approval."
POLICY_CHANGED = "The policy has changed since this call was approved, so it needs another approval."
MISSING = "The agent called this without {names}. Fill in what is missing, or decline."
NEVER_MADE = "The call was not made: when the model asked for it, its tool or its arguments did not fit."


class Preflight:
    """The stages before one call, in their order; a stage that refuses the call is the last one.

    A call that an earlier owner began, or that a person has settled, is not decided about again.
    """

    def __init__(
        self,
        context: RunContext,
        call: ToolCall,
        tools: Mapping[str, Tool],
        prior: OpenStep | None = None,
        *,
        asks_missing: bool = False,
    ) -> None:
        """``prior``: the call's step as an earlier owner left it. ``asks_missing``: whether a person is asked for
        required arguments that the call lacks.
        """
        self._asks_missing = asks_missing
        self._context, self._tools, self._prior = context, tools, prior
        self.call = self._call = call
        """As it is recorded: without secrets."""
        self._answer = prior.answer if prior is not None else NO_ANSWER
        self.arguments: dict[str, Any] = {}
        """Decoded, as a person or the policy changed them."""
        self.refusal: tuple[Outcome, str, ModelVisible] | None = None
        """The outcome, the result for the model, and the error of a call that may not be made."""
        self.policy_decision: PolicyDecision | None = None
        """What the policy decides; None where it is not asked."""
        self.changed: tuple[str, ...] = ()
        """The names of the arguments that the policy rewrote."""
        self.approval_reason: str | None = None
        """Why a person has to approve or complete the call before it is made, as a sentence."""
        self.sticky: StickyApproval | None = None
        """The sticky approval by which the call needs none of its own."""
        self.form: Mapping[str, Any] | None = None
        """The JSON Schema of the arguments that a person has to fill in; None where none is missing."""
        self._secret: SecretInArguments | None = None
        self._is_required_by_policy = False
        if prior is None:
            text, self._secret = context.guardrails.call(call.arguments_text)
            if text != call.arguments_text:
                self.call = self._call = replace(call, arguments_text=text)
                context.guardrails.seal(f"arguments {call.name}", call.arguments_text)
        try:
            self._pass()
        except ModelVisible as error:
            self._refuse(error, f"The call was not made: {error}", "failed")

    def _pass(self) -> None:
        if self._prior is not None and self._prior.effect and not self._prior.may_be_called:
            self.arguments = self._written()
            return
        tool = self._authorised()
        if tool is None:
            return
        self._validate(tool)
        if self._prior is not None and not self._prior.effect:  # a call that was invalid is not tried with other code
            self._refuse(ArgumentsInvalid(NEVER_MADE), NEVER_MADE, "failed")
        elif self.form is not None:
            self.approval_reason = MISSING.format(names=" and ".join(f"'{name}'" for name in self.form["required"]))
        elif self._prior is None or self._prior.status == "planned":
            self._judge(tool)
            if self.refusal is None and not self.is_halted:
                self.approval_reason = self._missing_approval(tool)
            if self.approval_reason is not None:
                self._approve_by_sticky(tool)

    def _refuse(self, error: ModelVisible, result: str | None = None, outcome: Outcome = "refused") -> None:
        self.refusal = (outcome, str(error) if result is None else result, error)

    @property
    def is_halted(self) -> bool:
        """Whether the policy ends the run."""
        return self.policy_decision is not None and self.policy_decision.verdict is Verdict.HALT

    @property
    def policy_version(self) -> str | None:
        """The digest of the policy's version and the rule that requires the approval; None where the tool does."""
        if self.policy_decision is None or not self._is_required_by_policy:
            return None  # of what the tool requires, its own version is enough
        return canonical_digest({"version": self.policy_decision.version, "rule": self.policy_decision.rule})

    # --- the stages

    def _authorised(self) -> Tool | None:
        """Return the tool where there is one that the run's principal may call."""
        tool, name = self._tools.get(self._call.name), self._call.name
        if tool is None:
            error = ToolNotOffered(name, self._tools)
            self._refuse(error, str(error), "failed")
        elif not tool.may_be_called_with(self._context.lease.roles):
            self._refuse(RoleMissing(name, tool.roles))
        elif self._context.golden is None:
            self._refuse(GoldenContextMissing(name=name))
        else:
            return tool
        with suppress(ModelVisible):
            self.arguments = self._written()  # for the log
        return None

    def _validate(self, tool: Tool) -> None:
        self.arguments = self._written()
        if self._secret is not None:
            raise self._secret
        try:
            validate_arguments(tool, self.arguments)
        except ArgumentsInvalid:
            is_first = self._answer.edited is None and (self._prior is None or self._prior.status == "planned")
            self.form = missing_form(tool.parameters, self.arguments) if self._asks_missing and is_first else None
            if self.form is None:
                raise

    def _written(self) -> dict[str, Any]:
        """Return the arguments: as a person or a policy has changed them before, else as the model wrote them."""
        changed = self._answer.edited
        prior = self._prior
        if changed is None and prior is not None and (prior.status != "planned" or prior.remote):
            changed = prior.constrained  # of a planned call the local policy is asked again, which changes it alike
        return parse_arguments(self._call.arguments_text) if changed is None else dict(changed)

    def _judge(self, tool: Tool) -> None:
        """Ask the policy about the call, and make its changes."""
        labels = (OUTWARD,) if tool.is_outward else ()
        facts = self._context.call_facts(
            "tool",
            tool.name,
            self.arguments,
            tool.effect,
            tool.classification,
            labels=labels,
            identity=tool.identity,
            leaves=tool.leaves,
        )
        decision = self._context.policy.decide(facts)
        self._is_required_by_policy = decision.verdict is Verdict.REQUIRE_APPROVAL
        self.policy_decision = decision = _with_tools_own(tool, decision)
        if decision.verdict is Verdict.BLOCK:
            self._refuse(CallBlocked(f"Not done: the policy's rule '{decision.rule}' blocks it. {decision.reason}"))
        if decision.arguments is not None:
            self.changed = _changed(self.arguments, decision.arguments)
            self.arguments = dict(decision.arguments)
            try:
                validate_arguments(tool, self.arguments)
            except ArgumentsInvalid as error:
                problem = f"the policy's rule '{decision.rule}' rewrote the arguments, and they do not fit: {error}"
                self._refuse(CallBlocked(f"Not done: {problem}"))

    def _missing_approval(self, tool: Tool) -> str | None:
        """Return why the call needs a person's approval; None where it needs none, or has one for exactly this."""
        if not (tool.needs_approval or self._is_required_by_policy):
            return None
        answer = self._answer
        if answer.decision is None or answer.decision.decision not in USED_UP:
            return self._reason
        if answer.decision.decision == "run_again":
            return None
        if answer.digest != canonical_digest(self.arguments) or answer.tool_digest != version_of(tool):
            return CHANGED
        return None if answer.policy_version == self.policy_version else POLICY_CHANGED

    def _approve_by_sticky(self, tool: Tool) -> None:
        """Let the call begin where a person has approved the tool's later calls too, and note by what."""
        if tool.approvers > 1:
            return
        is_it = partial(self._is_covered, tool, version_of(tool))
        self.sticky = next(filter(is_it, self._context.sticky), None)
        if self.sticky is not None and self.policy_decision is not None:
            self.approval_reason = None
            self.policy_decision = replace(self.policy_decision, approved=self.sticky.sentence)

    def _is_covered(self, tool: Tool, version: str, sticky: StickyApproval) -> bool:
        thread_id = self._context.lease.thread_id
        return sticky.scope in self.scopes_of(tool)[0] and sticky.covers(thread_id, version, self.policy_version)

    def scopes_of(self, tool: Tool) -> tuple[tuple[str, ...], int]:
        """Return for which later calls an approval may hold too, and for how many seconds at most.

        Where the tool itself requires the approval it decides that, and no rule offers more.
        """
        if tool.approvers > 1:
            return (), tool.sticky_s
        decision = self.policy_decision
        if tool.needs_approval or decision is None or decision.sticky is None:
            return tool.sticky, tool.sticky_s
        return decision.sticky, decision.sticky_s or tool.sticky_s

    @property
    def _reason(self) -> str:
        if self.policy_decision is None or not self._is_required_by_policy:
            return NEEDS_APPROVAL
        return (
            self.policy_decision.reason
            or f"The policy's rule '{self.policy_decision.rule}' requires a person's approval."
        )


def _with_tools_own(tool: Tool, decision: PolicyDecision) -> PolicyDecision:
    """Return the decision with the approval that the tool itself requires."""
    if not tool.needs_approval or decision.verdict not in (Verdict.ALLOW, Verdict.CONSTRAIN):
        return decision
    if decision.verdict is Verdict.CONSTRAIN:  # the rule has changed the call, and stays named
        return replace(decision, verdict=Verdict.REQUIRE_APPROVAL)
    return replace(decision, verdict=Verdict.REQUIRE_APPROVAL, rule=TOOLS_OWN, reason=NEEDS_APPROVAL)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the arguments that differ."""
    same = {name for name, value in before.items() if name in after and after[name] == value}
    return tuple(sorted({*before, *after} - same))


def version_of(tool: Tool) -> str:
    """Return the SHA-256 of what a person approves of a tool: what it says of itself, and what carries it out."""
    facts = {"name": tool.identity or tool.name, "version": tool.version, "description": tool.description}
    if tool.implementation is not None:
        facts["implementation"] = tool.implementation
    return canonical_digest(facts | {"parameters": dict(tool.parameters), "effect": str(tool.effect)})
