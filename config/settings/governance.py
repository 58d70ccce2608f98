"""The settings of a remote governance engine."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from config.egress.errors import UrlRefused
from config.egress.target import parse_target
from config.settings.servers import ServerSettings


class GovernanceSettings(ServerSettings):
    """Part of ``Settings``; ``trusted_network`` applies to the engine's server, too."""

    governance_url: str | None = None
    """Address of the engine, whose ``/governance/evaluate`` is asked about each call. None: no engine is asked."""
    governance_api_key: SecretStr | None = None
    """What authenticates this deployment to the engine."""
    governance_policy: Literal["by_effect", "fail_open", "fail_closed"] = "by_effect"
    """What becomes of a call when the engine gives no usable answer: with ``by_effect``, calls of models and of pure
    tools are made, and others are not."""
    governance_timeout_s: float = Field(default=2.0, gt=0, le=2)
    """Seconds that one answer of the engine may take."""

    @field_validator("governance_url", "governance_api_key", mode="before")
    @classmethod
    def _no_engine_is_unset(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _engine_is_safe(self) -> Self:
        if self.governance_url is None:
            return self
        try:
            target = parse_target(self.governance_url)
        except UrlRefused as error:
            raise ValueError(f"CALLBOARD_GOVERNANCE_URL is no address: {error}") from error
        is_local = target.host == "localhost" or (target.address is not None and target.address.is_loopback)
        if target.scheme == "http" and not (is_local or self.trusted_network):
            raise ValueError(
                "CALLBOARD_GOVERNANCE_URL has to be an https:// address: calls and the key would be sent in plain "
                "text; http:// needs CALLBOARD_TRUSTED_NETWORK=true"
            )
        if "?" in target.path:
            raise ValueError("CALLBOARD_GOVERNANCE_URL has to be an address without a query")
        return self
