"""The settings of the MCP server."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from config.identity.context_fields import InitiatorId, TokenRef, roles_in
from config.identity.principal import Role
from config.settings.sources import Part

_ADDRESS = re.compile(r"https?://[A-Za-z0-9\[][A-Za-z0-9.:_\]-]{0,255}(?:/[A-Za-z0-9._~/-]{0,200})?")
"""Without a user's name and a query."""


class McpSettings(Part):
    """Part of ``Settings``."""

    mcp_capability_behavior: Literal["await", "start"] = "await"
    """What a call of an MCP client returns: ``await`` its result, ``start`` the run's id at once."""
    mcp_await_s: float = Field(default=45.0, gt=0, le=3600)
    """Seconds that a call waits for its result; then it returns the run's id. Most clients give up after 60."""
    mcp_api_key: SecretStr | None = None
    """The API key as whose principal ``./callboard mcp serve`` acts; None: as the installation's own."""

    mcp_initiator_id: InitiatorId | None = None
    """Whom the runs of ``./callboard mcp serve`` are for, a name for records that gives no right; None: its
    principal."""
    mcp_roles: str | None = None
    """Comma-separated roles that ``./callboard mcp serve`` acts with, of those that its principal has; ``none``: with
    none of them. None: with all."""
    mcp_token_ref: TokenRef | None = None
    """Names the credential behind the client of ``./callboard mcp serve``, never its text; None: that of its key."""
    mcp_status_url: str | None = None
    """How the addresses of runs begin in results of ``./callboard mcp serve``; None: ``public_url``."""

    @field_validator("mcp_api_key", "mcp_initiator_id", "mcp_roles", "mcp_token_ref", "mcp_status_url", mode="before")
    @classmethod
    def _nothing_is_none(cls, value: object) -> object:
        return value or None

    @field_validator("mcp_roles")
    @classmethod
    def _are_roles(cls, value: str | None) -> str | None:
        if value is not None:
            roles_in(value)
        return value

    @field_validator("mcp_status_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None and not _ADDRESS.fullmatch(value):
            raise ValueError("it has to be an address without a query, such as https://callboard.example.org")
        return None if value is None else value.rstrip("/")

    @property
    def mcp_role_set(self) -> frozenset[Role] | None:
        """The roles that ``./callboard mcp serve`` acts with at most; None: all of its principal's."""
        return None if self.mcp_roles is None else roles_in(self.mcp_roles)
