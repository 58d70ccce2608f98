"""The fields of a policy's file, and of a rule in it."""

from __future__ import annotations

import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from config.effects import LABEL, Classification, Effect, Scope
from config.identity.principal import Role
from config.policy_decision import Verdict
from config.text.names import did_you_mean

MAX_RULES = 1000
MAX_PATTERNS = 200

_DAYS = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_Pattern = Annotated[str, Field(max_length=128, pattern=r"^[\w.:@/*?-]+$")]
"""Not ``{1,128}``: a bounded repetition of ``\\w`` takes 15 ms to compile, in each schema that has it."""
_Patterns = Annotated[tuple[_Pattern, ...], Field(min_length=1, max_length=MAX_PATTERNS)]
_Label = Annotated[str, Field(pattern=rf"^{LABEL}$")]
_Labels = Annotated[tuple[_Label, ...], Field(min_length=1, max_length=MAX_PATTERNS)]
_Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400)]
_Source = Annotated[str, Field(min_length=1, max_length=2000)]


class _Fields(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class SpentAtLeast(_Fields):
    """What the run has spent before the call; each number given has to be reached."""

    cost_usd: Annotated[float, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Of input and output together."""
    steps: Annotated[int, Field(strict=True, ge=0)] | None = None

    @model_validator(mode="after")
    def _has_one(self) -> SpentAtLeast:
        if not self.model_fields_set:
            raise ValueError("needs one of cost_usd, tokens, steps")
        return self


class TimeWindow(_Fields):
    """Days and hours; a window that ends before it begins reaches into the next day."""

    days: Annotated[tuple[_DAYS, ...], Field(min_length=1)] | None = None
    """Days on which the window begins; none given: all."""
    begin: Annotated[str, Field(alias="from", pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "00:00"
    end: Annotated[str, Field(alias="to", pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$")] = "24:00"
    """Exclusive."""
    zone: str = "UTC"

    @field_validator("zone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
            raise ValueError("has to be a time zone such as Europe/Berlin") from error
        return value

    def includes(self, at_ms: int) -> bool:
        """Return whether a time, in ms since 1970, is in the window."""
        at = datetime.datetime.fromtimestamp(at_ms / 1000, ZoneInfo(self.zone))
        minute, begin, end = at.hour * 60 + at.minute, _minute(self.begin), _minute(self.end)
        if begin < end:
            return begin <= minute < end and self._has_day(at.weekday())
        return self._has_day(at.weekday()) if minute >= begin else minute < end and self._has_day(at.weekday() - 1)

    def _has_day(self, weekday: int) -> bool:
        return self.days is None or _NAMES[weekday] in self.days


_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _minute(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


class CallMatch(_Fields):
    """Which calls: all fields that are given have to match, one entry of each list, all labels."""

    tools: _Patterns | None = None
    """Names, or patterns with ``*`` and ``?``."""
    models: _Patterns | None = None
    agents: _Patterns | None = None
    tenants: _Patterns | None = None
    principals: _Patterns | None = None
    roles: _Patterns | None = None
    """Of the run's principal."""
    effects: Annotated[tuple[Effect, ...], Field(min_length=1)] | None = None
    classifications: Annotated[tuple[Classification, ...], Field(min_length=1)] | None = None
    labels: _Labels | None = None
    """All of them are on the call: of what the run has read, and of the tool."""
    provenance: _Patterns | None = None
    """The run has read a result of one of these tools."""
    spent: SpentAtLeast | None = None
    time: TimeWindow | None = None
    privileged: Annotated[bool, Field(strict=True)] | None = None

    @field_validator("roles")
    @classmethod
    def _roles_exist(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in value or ():
            if not any(fnmatchcase(role, name) for role in Role):
                raise ValueError(f"there is no role '{name}'.{did_you_mean(name, Role)} Roles: {', '.join(Role)}")
        return value


class RuleFields(_Fields):
    """One rule of the file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    point: Literal["tool", "model"] = "tool"
    """Before which calls it is asked."""
    when: CallMatch = Field(default_factory=CallMatch)
    unless: CallMatch | None = None
    condition: _Source | None = None
    """CEL over ``arguments`` and the facts of the call; see docs/policy.md."""
    verdict: Verdict
    reason: Annotated[str, Field(min_length=1, max_length=400)]
    """A sentence for people and the model."""
    arguments: Annotated[dict[str, Any], Field(max_length=50)] = Field(default_factory=dict)
    """With ``constrain``: values that take the place of the call's own."""
    computed: Annotated[dict[str, _Source], Field(max_length=50)] = Field(default_factory=dict)
    """With ``constrain``: the same, as CEL."""
    timeout_s: _Seconds | None = None
    """With ``constrain``: seconds the call may take, if that is less than the tool's own."""
    labels: _Labels | None = None
    """Labels that the run has after the call, besides the tool's own."""
    sticky: tuple[Scope, ...] | None = None
    """With ``require_approval``: for which later calls an approval may hold too; None leaves that to the tool."""
    sticky_s: Annotated[int, Field(strict=True, ge=1, le=2_592_000)] | None = None
    """With ``sticky``: for how many seconds at most."""

    @model_validator(mode="after")
    def _fits_its_verdict(self) -> RuleFields:
        changes = bool(self.arguments or self.computed or self.timeout_s)
        if self.verdict is Verdict.CONSTRAIN and not changes:
            raise ValueError("`verdict: constrain` needs `arguments`, `computed` or `timeout_s`")
        if self.verdict is not Verdict.CONSTRAIN and changes:
            raise ValueError("`arguments`, `computed` and `timeout_s` need `verdict: constrain`")
        if self.verdict is not Verdict.REQUIRE_APPROVAL and self.sticky is not None:
            raise ValueError("`sticky` needs `verdict: require_approval`")
        if self.sticky_s is not None and not self.sticky:
            raise ValueError("`sticky_s` needs `sticky`, for example `sticky: [thread]`")
        if set(self.arguments) & set(self.computed):
            raise ValueError("an argument is in `arguments` and in `computed`; keep one")
        if self.point == "model":
            self._fits_models()
        if self.unless is not None and not self.unless.model_fields_set:
            raise ValueError("`unless` needs at least one field, since it would match every call")
        return self

    def _fits_models(self) -> None:
        if self.verdict is Verdict.REQUIRE_APPROVAL:
            raise ValueError("a model call cannot wait for an approval; use `verdict: block`, or `point: tool`")
        if self.arguments or self.computed or self.labels:
            raise ValueError("of a model call only `timeout_s` can be constrained")
        for part in (self.when, self.unless or CallMatch()):
            if part.tools or part.effects or part.classifications:
                raise ValueError("`tools`, `effects` and `classifications` belong to `point: tool`")


class PolicyFields(_Fields):
    """A policy's file."""

    default: Literal["allow", "require_approval", "block", "halt"] = "allow"
    """The verdict about a call of a tool that no rule matches."""
    model_default: Literal["allow", "block", "halt"] = "allow"
    """The verdict about a call of a model that no rule matches."""
    switched_off: tuple[str, ...] = ()
    """Names of shipped rules that do not apply."""
    rules: Annotated[tuple[RuleFields, ...], Field(max_length=MAX_RULES)] = ()
