"""All settings, made of their parts."""

from __future__ import annotations

from pydantic import model_validator

from config.settings.agents import AgentSettings
from config.settings.network import NetworkSettings
from config.settings.workers import WorkerSettings


class Settings(AgentSettings, WorkerSettings, NetworkSettings):
    """All settings. A field's variable is ``CALLBOARD_`` and its name in capitals."""

    @model_validator(mode="after")
    def _auth_is_clear(self) -> Settings:
        if self.tls_principals is not None and self.auth == "none":
            raise ValueError("CALLBOARD_TLS_PRINCIPALS has no effect with CALLBOARD_AUTH=none; set that to required")
        if self.no_auth and self.auth != "none":
            raise ValueError(
                f"CALLBOARD_NO_AUTH (--no-auth) contradicts CALLBOARD_AUTH={self.auth}; leave one of them out"
            )
        return self
