"""What a policy decides about a call, from which facts; recorded with the call's step before the call is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from config.definitions.mcp.names import own_names
from config.effects import Classification, Effect, Scope
from config.identity.contexts import GoldenContext
from config.identity.principal import Role


class Verdict(StrEnum):
    """What becomes of a call, from the mildest to the strictest."""

    ALLOW = "allow"
    """It is made."""
    CONSTRAIN = "constrain"
    """It is made with other arguments, or within other limits."""
    REQUIRE_APPROVAL = "require_approval"
    """It is made when a person has approved it."""
    BLOCK = "block"
    """It is not made; the model gets the reason, and the run continues."""
    HALT = "halt"
    """It is not made, and the run ends."""


TOOLS_OWN = "tool's own"
"""What a decision names as its rule where the tool itself requires an approval and no rule says more."""

READ_FROM = "from:"
"""How a label begins that names a tool whose result the run has read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFacts:
    """What a policy may look at: the call, and the run that makes it."""

    point: Literal["model", "tool"]
    name: str
    """The tool's name for the run's model, or the model's."""
    identity: str = ""
    """Of an MCP server's tool ``mcp:server/tool``, which no other tool is; empty of others."""
    arguments: Mapping[str, Any]
    """Of a tool call, valid ones; of a model call none."""
    effect: Effect = Effect.PURE
    classification: Classification = Classification.INTERNAL
    labels: frozenset[str] = frozenset()
    """What the run has read so far, as the labels of the tools that returned it; and ``outward`` of a call that
    leaves."""
    leaves: bool = False
    """Whether a tool's call reaches another system, also one that it only asks, as ``sql_query`` does."""
    principal: str
    roles: frozenset[Role]
    tenant: str
    agent_id: str
    model: str
    is_privileged: bool = False
    context: GoldenContext | None = None
    """For what the run works; None where that is not known."""
    cost_usd: float = 0.0
    """What the run has cost so far."""
    tokens: int = 0
    """What the run has used so far, input and output."""
    steps: int = 0
    """Calls of models and tools that the run has made so far."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of a call's tool: that for the run's model, then those at its server where they are others."""
        return self.name, *sorted(own_names(self.identity) - {self.name} if self.identity else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyDecision:
    """What a policy has decided about one call."""

    verdict: Verdict
    rule: str
    """The name of the rule that decided."""
    reason: str = ""
    """Why, as a sentence; empty where no rule says."""
    version: str
    """The version of the policy: an approval that it requires holds for this one only."""
    arguments: Mapping[str, Any] | None = None
    """With ``constrain``: the arguments with which the call is made instead of its own."""
    timeout_s: float | None = None
    """With ``constrain``: the most seconds that the call may take."""
    identity: str = ""
    """The tool as ``mcp:server/tool``, whatever the model calls it; empty of a tool of no MCP server."""
    remote: str = ""
    """What the remote engine said of the call: its verdict, or why it gave none; empty where it was not asked."""
    labels: tuple[str, ...] = ()
    """What the run is labelled with after the call, besides the labels of the tool."""
    seen: tuple[str, ...] = ()
    """The labels that the call had when it was decided about."""
    sticky: tuple[Scope, ...] | None = None
    """With ``require_approval``: for which later calls an approval may hold too; None where no rule says it."""
    sticky_s: int | None = None
    """For how many seconds at most such an approval holds; None leaves that to the tool."""
    approved: str | None = None
    """The sticky approval by which the call was made, as a sentence: who approved what until when."""

    def as_json(self) -> dict[str, Any]:
        """Return the decision as it is recorded, without the fields that say nothing."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) not in (None, "", ())}


class Policy(Protocol):
    """Decides about calls; local and without waiting, since it is asked on the event loop."""

    @property
    def version(self) -> str: ...
    @property
    def offers_sticky(self) -> bool:
        """Whether a rule lets approvals hold for later calls."""
        ...

    def decide(self, facts: CallFacts) -> PolicyDecision:
        """Return what becomes of the call. Never raises: a rule that fails is decided by its own setting."""
        ...


class _AllowAll:
    """The policy of a process that has none."""

    version, offers_sticky = "none", False
    _decision = PolicyDecision(verdict=Verdict.ALLOW, rule="no policy", version=version)

    def decide(self, facts: CallFacts) -> PolicyDecision:
        del facts
        return self._decision


ALLOW_ALL: Policy = _AllowAll()
