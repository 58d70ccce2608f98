"""What a tool says of itself besides its schema: its effect class, how its data is classified, what kind it is of.

An effect class says what repeating a call would do, and how Callboard therefore treats the tool. A class is a member of
``Effect`` and its row of ``POLICIES``; no other code branches on a class. It is in this folder because definitions, the
journal and the agents all use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

LABEL = r"[a-z][a-z0-9_.-]{0,63}"
"""The form of a label, by which a tool says what its result is and a policy asks for it."""

UNTRUSTED, SENSITIVE, TRUSTED = "untrusted", "sensitive", "trusted"
"""Labels of results: others may have written them; they must not leave; others have not, although they are read from
another system."""
MODEL = "model"
"""The label of what a model wrote in a workflow, and of what was made of it."""
OUTWARD, INWARD = "outward", "inward"
"""Labels of calls: they leave for another system; they do not, although they have an effect."""


RETRIES, MAX_RETRIES = 2, 10
"""How often a tool call that failed is made again, and the most that a tool or an agent may ask for."""


class Classification(StrEnum):
    """How sensitive the data is that a tool reads or changes."""

    PUBLIC = "PUBLIC"
    INTERNAL = "INTERNAL"
    """The default."""
    RESTRICTED = "RESTRICTED"
    """A person has to approve each call."""


class CapabilityKind(StrEnum):
    """What a capability is for."""

    CONNECTOR = "connector"
    """It reads from, or writes to, another system."""
    TRANSFORMER = "transformer"
    """It computes its result from its input."""
    COMMANDER = "commander"
    """It makes another system act."""


class Effect(StrEnum):
    """What repeating a tool's call would do, from the safest class to the most dangerous."""

    PURE = "pure"
    """Nothing: it only reads or computes."""
    IDEMPOTENT = "idempotent"
    """Nothing more than calling it once."""
    KEYED = "keyed"
    """Nothing, if the same idempotency key is sent."""
    CHECKABLE = "checkable"
    """Something, but the tool can say whether it happened: ``check(key)``."""
    UNSAFE = "unsafe"
    """Something, and its outcome cannot be found out. The default."""

    @property
    def policy(self) -> EffectPolicy:
        return POLICIES[self]

    def is_riskier_than(self, other: Effect) -> bool:
        """Return whether a call made as ``other`` may not be repeated as this class."""
        order = tuple(Effect)
        return order.index(self) > order.index(other)


class Recovery(Enum):
    """What is done about a call whose outcome is unknown."""

    FAIL = auto()
    """The call has failed; the model may call again."""
    REPEAT = auto()
    """The call is made again, with the same idempotency key."""
    CHECK = auto()
    """The tool's ``check`` is asked."""
    LEAVE = auto()
    """The outcome stays ``unknown``; the agent's ``on_unknown`` decides how the run continues."""


GATE = "approval_gate"
"""The name of the calls by which an APPROVAL_GATE asks: its question is their argument ``message``."""


class OnExpiry(StrEnum):
    """What is done about a call that waits for an approval when no person has answered in time."""

    FAIL = "fail"
    """The run fails. The default."""
    REJECT = "reject"
    """The call is rejected; the run continues."""
    TAKE_DEFAULT = "take_default"
    """The call is not made, and its result is the default that the tool names; the run continues."""


class Scope(StrEnum):
    """For which later calls of a tool a person's approval may hold too."""

    THREAD = "thread"
    """Its calls in the thread of the run that asked."""
    TOOL = "tool"
    """Its calls in all runs of the principal with the agent."""


class Changes(Enum):
    """How often calls under one idempotency key change something."""

    NEVER = auto()
    ONCE_A_KEY = auto()
    EACH_CALL = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectPolicy:
    """How calls of one effect class are treated."""

    changes: Changes
    when_lost: Recovery
    """What the next owner does with a call that was under way when the worker was lost."""
    when_no_reply: Recovery
    """What the owner does when time was up, or the connection broke after the request may have arrived."""

    @property
    def needs_check(self) -> bool:
        """Whether a tool of this class needs a ``check``."""
        return Recovery.CHECK in (self.when_lost, self.when_no_reply)

    @property
    def may_repeat(self) -> bool:
        """Whether a call that failed may be made again under its key."""
        return self.changes is not Changes.EACH_CALL

    @property
    def is_unknown_when_cut_off(self) -> bool:
        """Whether the outcome is unknown of a call that a stop or the run's end cut off.

        Most could be made again without harm, but after the end no owner does so.
        """
        return self.changes is not Changes.NEVER


POLICIES: Mapping[Effect, EffectPolicy] = {
    Effect.PURE: EffectPolicy(changes=Changes.NEVER, when_lost=Recovery.REPEAT, when_no_reply=Recovery.FAIL),
    Effect.IDEMPOTENT: EffectPolicy(changes=Changes.ONCE_A_KEY, when_lost=Recovery.REPEAT, when_no_reply=Recovery.FAIL),
    Effect.KEYED: EffectPolicy(changes=Changes.ONCE_A_KEY, when_lost=Recovery.REPEAT, when_no_reply=Recovery.REPEAT),
    Effect.CHECKABLE: EffectPolicy(changes=Changes.ONCE_A_KEY, when_lost=Recovery.CHECK, when_no_reply=Recovery.CHECK),
    Effect.UNSAFE: EffectPolicy(changes=Changes.EACH_CALL, when_lost=Recovery.LEAVE, when_no_reply=Recovery.LEAVE),
}


def recorded_policy(effect: str) -> EffectPolicy:
    """Return the policy of an effect that a journal names; of a later release's class, that of ``unsafe``."""
    return POLICIES[Effect(effect) if effect in POLICIES else Effect.UNSAFE]
