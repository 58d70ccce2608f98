"""Privilege grants: each lets one principal start one run of one agent in privileged mode, until it expires.

The text of a grant, ``cbg_<id>_<signature>``, is shown once and not stored. The signature is a MAC of all that the
grant says, so that neither a text nor a row that this deployment did not make is accepted. A grant is used by the
transaction that accepts its run, once.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, RowMapping, and_, insert, select, update

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.identity.errors import GRANT_UNKNOWN, grant_refused
from config.clock import stamp
from config.database.engine import WALL_MS, wall_ms
from config.database.tables import grants
from config.errors import BadRequest
from config.identity.principal import Principal
from config.ids import new_id
from config.redaction import redact
from config.text.stored_texts import stored_line, stored_name

SECRET_NAME = "grants"
"""The deployment's secret that grants are signed with, in table ``secrets``."""
PREFIX, ID = "cbg_", "grt"
MAX_REASON_CHARS = 200
MAX_LIFETIME_S = 24 * 3600
_TEXT = re.compile(rf"{PREFIX}([0-9a-z]{{26}})_([0-9a-f]{{64}})")
_SIGNED = ("id", "tenant", "principal", "agent_id", "reason", "issued_by", "expires_ms")


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A grant, without its signature."""

    id: str
    tenant: str
    principal: str
    """Who may start a run with it."""
    agent_id: str
    """The agent of that run."""
    reason: str
    issued_by: str
    created_ms: int
    expires_ms: int
    """When it, and the privilege of its run, end."""
    run_id: str | None = None
    """The run that has used it."""
    used_ms: int | None = None
    revoked_ms: int | None = None

    def shown(self) -> dict[str, Any]:
        """Return what lists show of it, without nulls."""
        facts = {"grant_id": self.id, "agent": self.agent_id, "principal": self.principal, "reason": self.reason}
        facts |= {"issued_by": self.issued_by} | ({"run_id": self.run_id} if self.run_id is not None else {})
        ends = {"used": self.used_ms, "revoked": self.revoked_ms}
        times: dict[str, int | None] = {"created": self.created_ms, "expires": self.expires_ms, **ends}
        return facts | {f"{name}_at": stamp(ms) for name, ms in times.items() if ms is not None}


class GrantForm:
    """Signs the grants of one deployment; reads its secret when it is first needed."""

    def __init__(self, read_secret: Callable[[], str]) -> None:
        self._read_secret = read_secret
        self._secret = b""

    def open(self) -> None:
        """Read the secret unless it is known; not within a transaction, since it may have to be made."""
        if not self._secret:
            self._secret = bytes.fromhex(self._read_secret())

    def text(self, grant: Grant) -> str:
        """Return the text that is given to the principal."""
        return f"{PREFIX}{grant.id.removeprefix(f'{ID}_')}_{self._signature(grant)}"

    def presented(self, text: str) -> PresentedGrant:
        """Return a grant that a caller presents; whether it is valid is found out when it is used.

        Raises:
            GRANT_REFUSED: the text has not the form of a grant.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise grant_refused(UNKNOWN)
        self.open()
        return PresentedGrant(id=f"{ID}_{match[1]}", signature=match[2], form=self)

    def is_signed(self, grant: Grant, signature: str) -> bool:
        return hmac.compare_digest(self._signature(grant), signature)

    def _signature(self, grant: Grant) -> str:
        self.open()
        data = orjson.dumps({name: getattr(grant, name) for name in _SIGNED}, option=orjson.OPT_SORT_KEYS)
        return hmac.digest(self._secret, data, "sha256").hex()


UNKNOWN = "it is not one of this deployment's, or it is for another principal"


@dataclass(frozen=True, kw_only=True, slots=True)
class PresentedGrant:
    """The text of a grant, as a caller presents it with a start."""

    id: str
    signature: str = field(repr=False)
    form: GrantForm = field(repr=False)

    def require(self, connection: Connection, principal: Principal, agent_id: str) -> Grant:
        """Return the grant if it is for this start and can be used now.

        Raises:
            GRANT_REFUSED: it is forged, of another principal or agent, used, revoked, or has expired.
        """
        row = connection.execute(select(grants).where(grants.c.id == self.id)).mappings().first()
        grant = _grant(row) if row is not None else None
        if grant is None or not self.form.is_signed(grant, self.signature):
            raise grant_refused(UNKNOWN)
        if (grant.tenant, grant.principal) != (principal.tenant, principal.id):
            raise grant_refused(UNKNOWN)
        if grant.agent_id != agent_id:
            raise grant_refused(f"it is for agent '{grant.agent_id}'")
        if grant.used_ms is not None:
            raise grant_refused("it was used before, and holds for one run")
        if grant.revoked_ms is not None:
            raise grant_refused("it was revoked")
        if grant.expires_ms <= wall_ms(connection):
            raise grant_refused("it has expired")
        return grant


def issue(
    connection: Connection,
    form: GrantForm,
    issuer: Principal,
    *,
    principal: str,
    agent_id: str,
    reason: str,
    lifetime_s: int,
) -> tuple[Grant, str]:
    """Add a grant in the issuer's tenant, and return it with its text, which is not stored.

    Raises:
        BadRequest: the reason is empty, too long or has a secret, the principal's name is one, or the lifetime is out
            of its limits.
    """
    stored_name(principal, "the principal of the grant")
    reason = " ".join(reason.split())
    if not 0 < len(reason) <= MAX_REASON_CHARS or redact(reason) != reason:
        raise BadRequest(f"a grant needs a reason of 1 to {MAX_REASON_CHARS} characters, without secrets.")
    reason = stored_line(reason, MAX_REASON_CHARS)
    if not 0 < lifetime_s <= MAX_LIFETIME_S:
        raise BadRequest(f"a grant holds for 1 to {MAX_LIFETIME_S // 60:,} minutes.")
    now_ms = wall_ms(connection)
    grant = Grant(
        id=new_id(ID),
        tenant=issuer.tenant,
        principal=principal,
        agent_id=agent_id,
        reason=reason,
        issued_by=issuer.id,
        created_ms=now_ms,
        expires_ms=now_ms + lifetime_s * 1000,
    )
    connection.execute(insert(grants).values({name: getattr(grant, name) for name in grant.__slots__}))
    facts: dict[str, Any] = {"agent": agent_id, "holder": principal, "reason": reason}
    record(connection, issuer, Action.GRANT_ISSUED, "grant", grant.id, expires=stamp(grant.expires_ms), **facts)
    return grant, form.text(grant)


def use(connection: Connection, grant: Grant, run_id: str) -> None:
    """Let a run that is being accepted be the one that has used the grant.

    Raises:
        GRANT_REFUSED: another transaction used it meanwhile.
    """
    unused = and_(grants.c.id == grant.id, grants.c.used_ms.is_(None), grants.c.revoked_ms.is_(None))
    if connection.execute(update(grants).where(unused).values(run_id=run_id, used_ms=WALL_MS)).rowcount != 1:
        raise grant_refused("it was used before, and holds for one run")


def of_tenant(connection: Connection, tenant: str, *, limit: int = 50) -> list[Grant]:
    """Return the newest grants of a tenant, with those that ended."""
    query = select(grants).where(grants.c.tenant == tenant).order_by(grants.c.created_ms.desc(), grants.c.id.desc())
    return [_grant(row) for row in connection.execute(query.limit(limit)).mappings()]


def revoke(connection: Connection, grant_id: str, issuer: Principal) -> Grant:
    """End a grant, and the privilege of its run when that is picked up next; a second time changes nothing.

    Raises:
        GRANT_UNKNOWN: the tenant has no such grant.
    """
    ours = and_(grants.c.id == grant_id, grants.c.tenant == issuer.tenant)
    ending = update(grants).where(ours, grants.c.revoked_ms.is_(None)).values(revoked_ms=WALL_MS)
    is_new = connection.execute(ending).rowcount
    row = connection.execute(select(grants).where(ours)).mappings().first()
    if row is None:
        raise GRANT_UNKNOWN(id=grant_id)
    if is_new:
        record(connection, issuer, Action.GRANT_REVOKED, "grant", grant_id, run=row["run_id"])
    return _grant(row)


def _grant(row: RowMapping) -> Grant:
    return Grant(**{name: row[name] for name in Grant.__slots__})
