"""What was decided about one tool call before it is made, as far as its stages have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bus.journal.owner import StickyApproval
from bus.payloads import Outcome, Payload
from config.errors import ModelVisible
from config.policy_decision import TOOLS_OWN, PolicyDecision, Verdict


class RefusedCall(NamedTuple):
    """How a call ends that may not be made."""

    outcome: Outcome
    result: str
    """For the model."""
    error: ModelVisible | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDecision:
    """One call as its stages leave it; each stage returns a new one."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Decoded, as a person, the policy or the engine changed them."""
    changed: tuple[str, ...] = ()
    """The names of the arguments that the policy rewrote."""
    policy_decision: PolicyDecision | None = None
    """What the policy decides, and the engine where it is stricter; None where they are not asked."""
    policy_version: str | None = None
    """The digest of the policy's version and the rule that requires the approval; None where the tool does."""
    approval_reason: str | None = None
    """Why a person has to approve or complete the call before it is made, as a sentence."""
    form: Mapping[str, Any] | None = None
    """The JSON Schema of the arguments that a person has to fill in; None where none is missing."""
    sticky: StickyApproval | None = None
    """The sticky approval by which the call needs none of its own."""
    refusal: RefusedCall | None = None
    """How the call ends; None where it may be made."""
    notes: Sequence[Payload] = ()
    """Events to be committed with the decision."""

    @property
    def is_halted(self) -> bool:
        """Whether the policy ends the run."""
        return self.policy_decision is not None and self.policy_decision.verdict is Verdict.HALT

    @property
    def is_final(self) -> bool:
        """Whether no further stage is asked."""
        return self.refusal is not None or self.form is not None or self.is_halted

    @property
    def is_required_by_policy(self) -> bool:
        """Whether a rule of the policy requires an approval."""
        return self.policy_version is not None

    def refused(self, error: ModelVisible, result: str | None = None, outcome: Outcome = "refused") -> CallDecision:
        """Return that the call is not made; ``result`` is the error's sentence where it is not given."""
        return replace(self, refusal=RefusedCall(outcome, str(error) if result is None else result, error))

    def as_shown(self) -> dict[str, Any] | None:
        """Return what the policy decided, for viewers; None where no rule says anything of the call."""
        decided = self.policy_decision
        if decided is None or decided.verdict is Verdict.ALLOW or decided.rule == TOOLS_OWN:
            return None
        data: dict[str, Any] = {"verdict": str(decided.verdict), "rule": decided.rule}
        data |= {"reason": decided.reason} if decided.reason else {}
        return data | ({"changed": list(self.changed)} if self.changed else {})
