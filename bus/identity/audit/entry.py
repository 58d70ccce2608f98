"""Entries of the audit log, and the digests that chain them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import Row

from config.clock import stamp

GENESIS = "0" * 64
"""What a tenant's first entry has in place of an earlier one's digest."""


class Action(StrEnum):
    """What was done; docs/audit.md has the target and the facts of each."""

    SIGN_IN = "sign_in"
    SIGN_OUT = "sign_out"
    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    GRANT_ISSUED = "grant.issued"
    GRANT_USED = "grant.used"
    """A run was started in privileged mode."""
    GRANT_REVOKED = "grant.revoked"
    PRINCIPAL_CHANGED = "principal.changed"
    """Its roles, or whether it is disabled."""
    ACCESS = "access"
    """A request; only refused ones are recorded, as sums."""
    RUN_STARTED = "run.started"
    CALL_STARTED = "call.started"
    """A call of a model or a tool; both are recorded where ``CALLBOARD_AUDIT_CALLS`` is on."""
    RUN_CONTROLLED = "run.controlled"
    """A control, or another text of a message that waits; the fact ``verb`` has its name."""
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_LINKED = "approval.linked"
    """A link to a question was made for a person."""
    APPROVAL_REVOKED = "approval.revoked"
    """A sticky approval was ended before its time."""
    ORIGINALS_READ = "originals.read"
    """An administrator read what guardrails had removed from a run."""
    MCP_LOGIN_CREATED = "mcp_login.created"
    MCP_LOGIN_REMOVED = "mcp_login.removed"
    """A login at an MCP server, with whose tokens the tenant's agents act there."""
    RUN_REMOVED = "run.removed"
    THREAD_REMOVED = "thread.removed"
    RETENTION = "retention"
    """Runs and threads were removed because of their age."""
    AGENT_CONFIGURED = "agent.configured"
    """A run was accepted with another definition than the tenant's last one of this agent or workflow."""
    AGENT_PROMOTED = "agent.promoted"
    """An alias of an agent stands for another version, or for none; the fact ``verb`` says by which call."""
    RUN_UPGRADED = "run.upgraded"
    """A waiting run was moved to its agent's present version."""
    SETTINGS_CHANGED = "settings.changed"
    """A process started with other settings than the last one of its kind."""


class AuditOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One entry. ``digest`` is SHA-256 over all other fields as canonical JSON: see ``digest_of``."""

    tenant: str
    number: int
    """1, 2, 3 ... within the tenant."""
    at_ms: int
    """By the database's clock."""
    action: str
    outcome: str
    principal: str
    """Who did it; empty: no principal, such as retention or a request without a credential."""
    credential: str
    """The kind of its credential; ``process``: a program with access to the database, such as the terminal."""
    credential_id: str
    target: str
    """The kind of what it was done to, such as ``run``; ``target_id`` is its id."""
    target_id: str
    facts: Mapping[str, Any]
    previous: str
    """The digest of the entry before it."""
    digest: str = ""

    def content(self) -> dict[str, Any]:
        """Return what the digest covers, as JSON values."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("at_ms", "digest")}
        return {**fields, "at": stamp(self.at_ms)}

    def line(self) -> str:
        """Return the entry as one line of JSON, for an export."""
        return canonical({**self.content(), "digest": self.digest}).decode()


def canonical(value: Mapping[str, Any]) -> bytes:
    """Return JSON in UTF-8 with sorted keys and without spaces: equal values give equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest_of(entry: AuditEntry) -> str:
    """Return the digest that an entry has to have."""
    return hashlib.sha256(canonical(entry.content())).hexdigest()


def entry_of(row: Row[Any]) -> AuditEntry:
    """Return the entry of a row of ``audit``."""
    values = dict(row._mapping)
    return AuditEntry(facts=orjson.loads(values.pop("facts_json")), **values)


def shown_of(row: Row[Any]) -> AuditEntry:
    """Return the entry of a row, also where its time or facts were changed in the database to what no entry has.

    These are then texts in the fact ``damaged``, so that the rest of the log can be read.
    """
    try:
        entry = entry_of(row)
        entry.line()
        entry.facts.keys()  # raises where they are no JSON object
        return entry
    except (AttributeError, TypeError, ValueError, OverflowError):
        pass
    values = dict(row._mapping)
    damaged = {name: str(values.pop(name)) for name in ("at_ms", "facts_json")}
    number = values.pop("number")
    texts = {name: str(value) for name, value in values.items()}
    return AuditEntry(number=number, at_ms=0, facts={"damaged": damaged}, **texts)
