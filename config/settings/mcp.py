"""The settings of the MCP server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from config.settings.sources import Part


class McpSettings(Part):
    """Part of ``Settings``."""

    mcp_capability_behavior: Literal["await", "start"] = "await"
    """What a call of an MCP client returns: ``await`` its result, ``start`` the run's id at once."""
    mcp_await_s: float = Field(default=45.0, gt=0, le=3600)
    """Seconds that a call waits for its result; then it returns the run's id. Most clients give up after 60."""
    mcp_api_key: SecretStr | None = None
    """The API key as whose principal ``./callboard mcp serve`` acts; None: as the installation's own."""

    @field_validator("mcp_api_key", mode="before")
    @classmethod
    def _nothing_is_no_key(cls, value: object) -> object:
        return value or None
