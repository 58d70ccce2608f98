"""Limits of one tenant and of one principal, and the settings that a tenant may have of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from config.egress.policy import allowed_in
from config.identity.context_fields import CostCenter, DataClassification

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
