"""Privilege grants."""

from __future__ import annotations

from web.calls.fields import Answer, Maybe


class PrivilegeGrant(Answer):
    """A grant: one principal may start one run of one agent in privileged mode."""

    grant_id: str
    agent: str
    """The id of the agent."""
    principal: str
    """Who may use it."""
    reason: str
    issued_by: str
    created_at: str
    expires_at: str
    """When it, and the privilege of its run, end."""
    run_id: Maybe[str] = None
    """The run that has used it."""
    used_at: Maybe[str] = None
    revoked_at: Maybe[str] = None


class IssuedGrant(PrivilegeGrant):
    """A grant that was issued."""

    grant: str
    """What its principal starts the run with; it is shown only now."""


class Grants(Answer):
    """The newest grants of the caller's tenant."""

    grants: list[PrivilegeGrant]
