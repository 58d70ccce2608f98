"""The settings of limits, of contexts in which runs work, and of what a tenant may have of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from config.egress.policy import allowed_in
from config.identity.context_fields import ContextName, CostCenter, DataClassification
from config.identity.contexts import DeclaredContext
from config.identity.principal import NAME, NAME_FORM
from config.settings.callers import CallerSettings
from config.text.names import did_you_mean
from config.text.visible import one_line

Limit = Annotated[int, Field(ge=0)]
"""The largest number allowed; 0: there is no limit."""
HOT_LOG_AT_LEAST = 64 * 1024


def _is_hot_log_budget(value: int) -> int:
    if 0 < value < HOT_LOG_AT_LEAST:
        raise ValueError(f"it has to be 0 (no limit) or at least {HOT_LOG_AT_LEAST}, what one ended run may keep")
    return value


def _are_hosts(value: str) -> str:
    allowed_in(value)
    return value


HotLogBudget = Annotated[Limit, AfterValidator(_is_hot_log_budget)]
"""Bytes that a tenant's runs hold in Redis together; 0: any number."""
AllowedHosts = Annotated[str, AfterValidator(_are_hosts)]
"""Comma-separated hosts, as the setting of that name."""
Days = Annotated[float, Field(ge=0)]
LimitName = Literal[
    "principal_requests_per_minute",
    "tenant_requests_per_minute",
    "principal_open_runs",
    "tenant_open_runs",
    "principal_queued_runs",
    "tenant_queued_runs",
    "principal_viewers",
    "tenant_viewers",
]
WITH_AUTHENTICATION: dict[LimitName, int] = {
    "principal_requests_per_minute": 6_000,
    "tenant_requests_per_minute": 60_000,
    "principal_open_runs": 1_000,
    "tenant_open_runs": 10_000,
    "principal_queued_runs": 500,
    "tenant_queued_runs": 5_000,
    "principal_viewers": 500,
    "tenant_viewers": 5_000,
}
"""The limits where callers are authenticated, and none is set. Without authentication all are one principal, so that
there are none."""


class TenantSettings(BaseModel):
    """What a section ``[tenants.NAME]`` may set for one tenant; None: as for all others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    principal_requests_per_minute: Limit | None = None
    tenant_requests_per_minute: Limit | None = None
    principal_open_runs: Limit | None = None
    tenant_open_runs: Limit | None = None
    principal_queued_runs: Limit | None = None
    tenant_queued_runs: Limit | None = None
    principal_viewers: Limit | None = None
    tenant_viewers: Limit | None = None
    tenant_hot_log_max_bytes: HotLogBudget | None = None
    http_allowed_hosts: AllowedHosts | None = None
    sandbox_max_bytes: Limit | None = None
    sandbox_max_files: Limit | None = None
    retain_threads_days: Days | None = None
    retain_runs_days: Days | None = None
    retain_events_days: Days | None = None
    cost_center: CostCenter | None = None
    data_classification: DataClassification | None = None


class Tenants(dict[str, TenantSettings]):
    """Tenants with settings of their own; never changed, and hashable like the settings that hold it."""

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        return hash(frozenset(self.items()))


class LimitSettings(CallerSettings):
    """Part of ``Settings``."""

    principal_requests_per_minute: Limit | None = None
    """Requests of one principal; 0: any number. None, here and below: as ``WITH_AUTHENTICATION`` says."""
    tenant_requests_per_minute: Limit | None = None
    """Requests of one tenant."""
    principal_open_runs: Limit | None = None
    """Runs of one principal that have not ended."""
    tenant_open_runs: Limit | None = None
    """Runs of one tenant that have not ended."""
    principal_queued_runs: Limit | None = None
    """Runs of one principal that wait for a worker."""
    tenant_queued_runs: Limit | None = None
    """Runs of one tenant that wait for a worker."""
    principal_viewers: Limit | None = None
    """Streams that one principal may follow."""
    tenant_viewers: Limit | None = None
    """Streams that one tenant may follow."""
    tenant_hot_log_max_bytes: HotLogBudget = 0
    """Bytes that the runs of one tenant hold in Redis together, open and ended ones; 0: any number."""
    child_depth: int = Field(default=3, ge=1, le=10)
    """Most levels of child runs below a run that no agent started."""
    child_runs: int = Field(default=16, ge=1, le=1000)
    """Most child runs that one run may have at a time."""
    questions_per_hour: Limit = 120
    """Questions that the runs of one principal ask persons within an hour, besides those about unknown outcomes; 0: any
    number."""
    sandbox_max_bytes: Limit = 100 * 1024 * 1024
    """Bytes of a principal's files with one agent; 0: any number."""
    sandbox_max_files: Limit = 1000
    """Files and folders of a principal with one agent; 0: any number."""
    tenants: Annotated[dict[Annotated[str, Field(pattern=rf"^{NAME}$")], TenantSettings], AfterValidator(Tenants)] = (
        Tenants()
    )
    """Tenants with settings of their own: ``[tenants.NAME]`` in ``callboard.toml``, or JSON in the environment."""

    def for_tenant(self, tenant: str) -> Self:
        """Return the settings with those of the tenant's section in place of the deployment's."""
        own = self.tenants.get(tenant)
        return self if own is None else self.model_copy(update=own.model_dump(exclude_none=True))

    def limit(self, name: LimitName, tenant: str) -> int:
        """Return a limit for a tenant or its principals; 0: there is none."""
        value: int | None = getattr(self.tenants.get(tenant), name, None)
        if value is None:
            value = getattr(self, name)
        if value is None:
            return WITH_AUTHENTICATION[name] if self.auth != "none" else 0
        return value

    # --- contexts

    app_id: ContextName = "callboard"
    """The application that runs are started for."""
    environment: ContextName | None = None
    """The environment in which they work, such as ``production``; None: ``deployment``."""
    cost_center: CostCenter | None = None
    """What they are charged to."""
    data_classification: DataClassification | None = None
    """How the data is classified that they are about: ``PUBLIC``, ``INTERNAL`` or ``RESTRICTED``."""
    require_contexts: bool = False
    """Whether workers refuse runs that were started without contexts, instead of completing them by these settings."""

    @field_validator("environment", "cost_center", "data_classification", mode="before")
    @classmethod
    def _empty_context_is_unset(cls, value: object) -> object:
        return value or None

    @field_validator("app_id", mode="before")
    @classmethod
    def _nothing_is_the_default(cls, value: object) -> object:
        return value or "callboard"

    def declared_context(self, tenant: str) -> DeclaredContext:
        """Return what this deployment declares of the runs of a tenant."""
        own = self.tenants.get(tenant)
        return DeclaredContext(
            app_id=self.app_id,
            environment=self.environment or self.deployment,
            cost_center=(own.cost_center if own is not None else None) or self.cost_center,
            data_classification=(own.data_classification if own is not None else None) or self.data_classification,
        )


def problem_of_section(error: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the section of a tenant; None if this error of pydantic's is of another setting."""
    location = [str(part)[:80] for part in error["loc"]]
    if len(location) < 3 or location[0] != "tenants":
        return None
    _, tenant, setting = location[:3]
    if setting == "[key]":
        return f"'{tenant}' is not the name of a tenant, which is {NAME_FORM}"
    if error["type"] == "extra_forbidden":
        nearest = did_you_mean(setting, TenantSettings.model_fields)
        return f"[tenants.{tenant}]: a tenant has no setting '{setting}'.{nearest}"
    problem = error["msg"].removeprefix("Value error, ")
    return f"[tenants.{tenant}]: {setting} is '{one_line(str(error['input'])[:60])}'. {problem}"
