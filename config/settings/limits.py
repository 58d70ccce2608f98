"""The settings of limits, and of the contexts in which runs work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, field_validator

from config.identity.context_fields import ContextName, CostCenter, DataClassification
from config.identity.contexts import DeclaredContext
from config.identity.principal import NAME, NAME_FORM
from config.settings.callers import CallerSettings
from config.settings.tenants import WITH_AUTHENTICATION, HotLogBudget, Limit, LimitName, Tenants, TenantSettings
from config.text.names import did_you_mean
from config.text.visible import one_line


class LimitSettings(CallerSettings):
    """Part of ``Settings``."""

    principal_requests_per_minute: Limit | None = None
    """Requests of one principal; 0: any number. None, here and below: as ``config.settings.tenants`` says."""
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
