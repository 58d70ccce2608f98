"""API keys: credentials of programs. The table has a keyed hash of each, so that the key is shown once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, insert, or_, select, tuple_, update

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import PROCESS, acting_with, record
from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from bus.identity.credentials.key_form import KeyForm
from bus.identity.errors import KEY_UNKNOWN
from bus.identity.principals import register
from config.clock import stamp
from config.database.engine import WALL_MS, wall_ms
from config.database.tables import api_keys, principals
from config.errors import BadRequest
from config.identity.principal import LOCAL, Principal, Role, Verb
from config.text.stored_texts import stored_name

_ABROAD = "/"
"""Begins the creator's name of a key that the installation's own principal made for another tenant: no name has it."""
MAX_CREATOR = 64
"""Characters of a creator's name in a row, as in the table."""
USED_EVERY_MS = 60_000
"""How old the recorded time of a key's last use may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """A key, without the secret part."""

    id: str
    name: str
    """The principal that it acts as: a key with the same name takes over its runs."""
    tenant: str = "default"
    roles: frozenset[Role] = frozenset()
    verbs: frozenset[Verb] = frozenset(Verb)
    agents: frozenset[str] | None = None
    created_by: str
    created_ms: int
    expires_ms: int | None = None
    used_ms: int | None = None
    revoked_ms: int | None = None
    digest: str = ""

    @property
    def caller(self) -> Caller:
        """Who acts with it."""
        principal = Principal(tenant=self.tenant, id=self.name, roles=self.roles, verbs=self.verbs, agents=self.agents)
        credential = Credential(kind=CredentialKind.KEY, id=self.id, expires_ms=self.expires_ms)
        return Caller(principal=principal, credential=credential)

    def shown(self) -> dict[str, Any]:
        """Return what lists show of it, without nulls."""
        facts = {"id": self.id, "name": self.name, "tenant": self.tenant, "roles": sorted(self.roles)}
        facts |= {"verbs": sorted(self.verbs)} if self.verbs != frozenset(Verb) else {}
        facts |= {"agents": sorted(self.agents)} if self.agents is not None else {}
        times = {"created": self.created_ms, "expires": self.expires_ms}
        times |= {"used": self.used_ms, "revoked": self.revoked_ms}
        facts["created_by"] = self.created_by
        return facts | {f"{name}_at": stamp(ms) for name, ms in times.items() if ms is not None}


def require_useful_scope(verbs: Collection[Verb], agents: Collection[str]) -> None:
    """Return if a key can do each verb that is asked for; no agents: it is for all.

    Raises:
        BadRequest: it is to administer, and only for some agents.
    """
    if agents and Verb.ADMINISTER in verbs:
        raise BadRequest(
            "a key for some agents cannot have the verb 'administer', since keys and the audit log belong to the whole "
            "tenant; leave out the verb or the agents."
        )


def create(
    connection: Connection,
    form: KeyForm,
    principal: Principal,
    *,
    by: str,
    lifetime_s: int | None = None,
    local: Principal = LOCAL,
) -> tuple[ApiKey, str]:
    """Add a key that acts as this principal, with its roles and scope, and return it with the key's text.

    A key that is made with another key has that one's creator; one that the installation makes for another tenant has
    a name that no principal can have. ``local``: see ``person_behind``.

    Raises:
        BadRequest: the principal's name is itself a secret, such as the text of a key.
    """
    stored_name(principal.id, "the name of the key")
    key_id, text = form.make()
    now_ms = wall_ms(connection)
    expires_ms = None if lifetime_s is None else now_ms + lifetime_s * 1000
    row = {
        "id": key_id,
        "tenant": principal.tenant,
        "name": principal.id,
        "digest": form.digest(text),
        "roles_json": orjson.dumps(sorted(principal.roles)).decode(),
        "verbs_json": None if principal.verbs == frozenset(Verb) else orjson.dumps(sorted(principal.verbs)).decode(),
        "agents_json": None if principal.agents is None else orjson.dumps(sorted(principal.agents)).decode(),
        "created_by": _creator(connection, by, principal.tenant, local),
        "created_ms": now_ms,
        "expires_ms": expires_ms,
    }
    connection.execute(insert(api_keys), row)
    register(connection, principal.tenant, principal.id)
    key = _key(connection.execute(select(api_keys).where(api_keys.c.id == key_id)).mappings().one())
    _record(connection, Action.KEY_CREATED, key, by)
    return key, text


def _record(connection: Connection, action: Action, key: ApiKey, by: str) -> None:
    scope = {name: value for name, value in key.shown().items() if name in ("name", "roles", "verbs", "agents")}
    expires = stamp(key.expires_ms) if key.expires_ms is not None else None
    record(connection, Principal(tenant=key.tenant, id=by), action, "key", key.id, **scope, expires=expires)


def _creator(connection: Connection, by: str, tenant: str, local: Principal) -> str:
    """Return who has created the key that is added now, as its row names that."""
    if acting_with.get() == PROCESS and by == local.id and tenant != local.tenant:
        return f"{_ABROAD}{by}"[:MAX_CREATOR]
    return person_behind(connection, by, local)


def person_behind(
    connection: Connection, principal_id: str, local: Principal, credential: tuple[str, str] | None = None
) -> str:
    """Return whose act this is: with a key that of the key's creator.

    ``local``: the installation's own principal. Its keys are made for others, at a terminal that has the database, so
    each of them stands for itself. ``credential``: the kind and the id of what was acted with; None: this request's.
    """
    kind, key_id = acting_with.get() if credential is None else credential
    if kind != CredentialKind.KEY:
        return principal_id
    row = connection.execute(select(api_keys.c.tenant, api_keys.c.created_by).where(api_keys.c.id == key_id)).first()
    if row is None or row.created_by.startswith(_ABROAD) or (row.tenant, row.created_by) == (local.tenant, local.id):
        return principal_id
    return str(row.created_by)


def of_tenant(
    connection: Connection,
    tenant: str | None,
    *,
    limit: int | None = None,
    before_ms: int | None = None,
    before_id: str = "",
) -> list[ApiKey]:
    """Return the keys of a tenant, or of all, newest first, with those that ended; None as the limit: all of them.

    The next page begins after the time (ms) and the id of the last key; several may be created in one millisecond.
    """
    columns = api_keys.c.created_ms, api_keys.c.id
    query = select(api_keys).order_by(*(column.desc() for column in columns)).limit(limit)
    if tenant is not None:
        query = query.where(api_keys.c.tenant == tenant)
    if before_ms is not None:
        query = query.where(tuple_(*columns) < tuple_(before_ms, before_id))
    return [_key(row) for row in connection.execute(query).mappings()]


def revoke(connection: Connection, key_id: str, tenant: str | None, *, by: str) -> ApiKey:
    """End a key for good, and return it; a second time changes nothing.

    Raises:
        KEY_UNKNOWN: the tenant has no such key.
    """
    ours = api_keys.c.id == key_id if tenant is None else and_(api_keys.c.id == key_id, api_keys.c.tenant == tenant)
    ended = update(api_keys).where(ours, api_keys.c.revoked_ms.is_(None)).values(revoked_ms=WALL_MS)
    is_new = connection.execute(ended).rowcount
    row = connection.execute(select(api_keys).where(ours)).mappings().one_or_none()
    if row is None:
        raise KEY_UNKNOWN(id=key_id)
    key = _key(row)
    if is_new:
        _record(connection, Action.KEY_REVOKED, key, by)
    return key


def live(connection: Connection, ids: Collection[str]) -> Mapping[str, ApiKey]:
    """Return those of the keys that are valid now, by id."""
    query = select(api_keys).outerjoin(
        principals, and_(principals.c.tenant == api_keys.c.tenant, principals.c.id == api_keys.c.name)
    )
    rows = connection.execute(query.where(api_keys.c.id.in_(ids), *_is_live())).mappings()
    return {row["id"]: _key(row) for row in rows}


def _is_live() -> Iterable[ColumnElement[bool]]:
    yield api_keys.c.revoked_ms.is_(None)
    yield or_(api_keys.c.expires_ms.is_(None), api_keys.c.expires_ms > WALL_MS)
    yield or_(principals.c.disabled.is_(None), ~principals.c.disabled)


def note_use(connection: Connection, key_id: str) -> None:
    """Record that the key was used now, unless that was recorded less than a minute ago."""
    is_due = or_(api_keys.c.used_ms.is_(None), api_keys.c.used_ms < WALL_MS - USED_EVERY_MS)
    connection.execute(update(api_keys).where(api_keys.c.id == key_id, is_due).values(used_ms=WALL_MS))


def _key(row: RowMapping) -> ApiKey:
    """Return a row as a key. A role or verb that this code does not know grants nothing."""
    facts = {name: row[name] for name in ("id", "name", "tenant", "created_by", "digest")}
    facts |= {name: row[name] for name in ("created_ms", "expires_ms", "used_ms", "revoked_ms")}
    roles = frozenset(Role(role) for role in orjson.loads(row["roles_json"]) if role in set(Role))
    verbs = frozenset(Verb)
    if row["verbs_json"] is not None:
        verbs = frozenset(Verb(verb) for verb in orjson.loads(row["verbs_json"]) if verb in set(Verb))
    agents = None if row["agents_json"] is None else frozenset(orjson.loads(row["agents_json"]))
    return ApiKey(roles=roles, verbs=verbs, agents=agents, **facts)
