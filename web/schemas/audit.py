"""Entries of the audit log."""

from __future__ import annotations

from typing import Any, Literal

from web.calls.fields import Answer, Maybe


class AuditLogEntry(Answer):
    """What was done, by whom, to what. ``digest`` is SHA-256 over the other fields: see docs/audit.md."""

    tenant: str
    number: int
    """1, 2, 3 … in the tenant, without gaps."""
    at: str
    """When, by the database's clock, UTC."""
    action: str
    """Such as ``run.controlled``; docs/audit.md lists them."""
    outcome: Literal["done", "refused"]
    principal: str
    """Who did it; empty: no principal, such as retention."""
    credential: str
    """The kind of its credential; ``process``: a program with access to the database, such as the terminal."""
    credential_id: str
    target: str
    """The kind of what it was done to."""
    target_id: str
    facts: dict[str, Any]
    """Ids, digests, counts and short texts, by the kind of action."""
    previous: str
    """The digest of the entry before it."""
    digest: str


class UnsealedOriginal(Answer):
    """What a guardrail removed something from."""

    id: str
    what: str
    """``input``, ``answer``, ``thinking``, or ``result`` or ``arguments`` and the tool's name."""
    at: str
    """When it was sealed, UTC."""
    original: Any
    """A text, or JSON data."""


class UnsealedOriginals(Answer):
    """The originals of a run, the oldest first."""

    run_id: str
    originals: list[UnsealedOriginal]


class AuditPage(Answer):
    """A page of the caller's tenant's audit log, the newest entry first."""

    entries: list[AuditLogEntry]
    next: Maybe[int] = None
    """Where the next page begins; absent on the last one."""
