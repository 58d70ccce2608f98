"""The settings of contexts: for which application and environment runs work, and what they are charged to."""

from __future__ import annotations

from pydantic import field_validator

from config.identity.context_fields import ContextName, CostCenter, DataClassification
from config.identity.contexts import DeclaredContext
from config.settings.limits import LimitSettings
from config.settings.servers import ServerSettings


class ContextSettings(LimitSettings, ServerSettings):
    """Part of ``Settings``."""

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
