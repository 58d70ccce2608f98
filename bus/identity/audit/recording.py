"""Recording: an entry is written in the transaction that makes the change, so there is one exactly if it commits.

The caller records last. ``record`` locks the tenant's head until the transaction ends: a transaction that took other
locks after it could deadlock with another one, and would hold up all recorded changes of the tenant.
"""

from __future__ import annotations

import hashlib
import logging
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal, get_origin

import orjson
from sqlalchemy import Connection, Row, Select, bindparam, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bus.identity.audit.entry import GENESIS, Action, AuditEntry, AuditOutcome, canonical, digest_of
from config.database.engine import WALL_MS, Database
from config.database.tables import audit, audit_heads
from config.errors import CallboardError
from config.identity.principal import Principal
from config.redaction import REDACTED, is_secret, redact
from config.settings import Settings

log = logging.getLogger(__name__)

MAX_CHARS = 200
"""Characters of one text that an entry keeps."""
MAX_ITEMS = 100
"""Items of one list or mapping that an entry keeps."""
FROZEN_MS = 5000
"""Milliseconds after which Postgres ends a transaction whose process stopped while it had a head locked."""

PROCESS = ("process", "")
"""What a program acts with that has access to the database itself."""
acting_with: ContextVar[tuple[str, str]] = ContextVar("acting_with", default=PROCESS)
"""The kind and the id of the credential with which this thread acts; the web process sets it for each request."""


def record(
    connection: Connection,
    principal: Principal,
    action: Action,
    target: str,
    target_id: str,
    *,
    outcome: AuditOutcome = AuditOutcome.DONE,
    **facts: Any,
) -> AuditEntry:
    """Add an entry to the chain of the principal's tenant, in this transaction, and return it.

    To be called last in the transaction. ``facts`` are ids, digests, counts and short texts. Secrets in them are
    replaced; inputs, outputs and arguments do not belong there. A fact that is None is left out.
    """
    head = _locked_head(connection, principal.tenant)
    credential, credential_id = acting_with.get()
    entry = AuditEntry(
        tenant=principal.tenant,
        number=head.number + 1,
        at_ms=head.now_ms,
        action=action,
        outcome=outcome,
        principal=_text(principal.id),
        credential=_text(credential),
        credential_id=_text(credential_id),
        target=target,
        target_id=_text(target_id),
        facts=_cleaned({name: value for name, value in facts.items() if value is not None}),
        previous=head.digest,
    )
    entry = replace(entry, digest=digest_of(entry))
    connection.execute(_ADD, row_of(entry))
    connection.execute(_MOVE, {"tenant_": entry.tenant, "number_": entry.number, "digest_": entry.digest})
    return entry


def record_state(
    connection: Connection, principal: Principal, action: Action, target: str, target_id: str, state: Mapping[str, Any]
) -> AuditEntry | None:
    """Add an entry with this state unless the last one about the target has it, and return it; also to be called last.

    Its fact ``changed`` has the names that differ from that one.
    """
    clean_state = _cleaned(state)
    if _last_state(connection, principal.tenant, action, target_id) == clean_state:
        return None
    _locked_head(connection, principal.tenant)  # another process may have recorded it meanwhile
    before = _last_state(connection, principal.tenant, action, target_id)
    if before == clean_state:
        return None
    changed = sorted(name for name in {*clean_state, *before} if clean_state.get(name) != before.get(name))
    return record(connection, principal, action, target, target_id, state=state, changed=changed)


def _last_state(connection: Connection, tenant: str, action: Action, target_id: str) -> Mapping[str, Any]:
    its = (audit.c.tenant == tenant, audit.c.action == action, audit.c.target_id == target_id)
    last = select(audit.c.facts_json).where(*its).order_by(audit.c.number.desc()).limit(1)
    state_json = connection.execute(last).scalar()
    try:
        state = orjson.loads(state_json)["state"] if state_json is not None else {}
    except (ValueError, KeyError, TypeError):  # the entry was changed in the database, which `audit verify` reports
        return {}
    return state if isinstance(state, Mapping) else {}


def row_of(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as a row of ``audit``."""
    row = {name: getattr(entry, name) for name in entry.__slots__ if name != "facts"}
    return {**row, "facts_json": canonical(entry.facts).decode()}


_ADD = insert(audit).inline()
_MOVE = (
    update(audit_heads)
    .where(audit_heads.c.tenant == bindparam("tenant_"))
    .values(number=bindparam("number_"), digest=bindparam("digest_"))
)
_HEAD: Select[Any] = (
    select(audit_heads.c.number, audit_heads.c.digest, WALL_MS.label("now_ms"))
    .where(audit_heads.c.tenant == bindparam("tenant_"))
    .with_for_update()
)
_HEAD_OF_POSTGRES = _HEAD.add_columns(
    func.set_config("idle_in_transaction_session_timeout", str(FROZEN_MS), True).label("limit")
)


def _locked_head(connection: Connection, tenant: str) -> Row[Any]:
    is_sqlite = connection.dialect.name == "sqlite"  # whose transaction is the only one that writes
    query = _HEAD if is_sqlite else _HEAD_OF_POSTGRES
    head = connection.execute(query, {"tenant_": tenant}).first()
    if head is None:
        first = (sqlite if is_sqlite else postgresql).insert(audit_heads).values(tenant=tenant, digest=GENESIS)
        connection.execute(first.on_conflict_do_nothing())
        head = connection.execute(query, {"tenant_": tenant}).one()
    return head


def _cleaned(value: Any) -> Any:
    """Return a fact as bounded JSON values without secrets."""
    if value is None or (isinstance(value, int) and value.bit_length() < 64):
        return value
    if isinstance(value, Mapping):
        return {_text(str(key)): _named(str(key), item) for key, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [_cleaned(item) for item in list(items)[:MAX_ITEMS]]
    return _text(str(value))


def _named(name: str, value: Any) -> Any:
    """Return a fact that has a name: ``password`` says by its name what the value alone does not."""
    if isinstance(value, str) and redact(f"{name}={value}") != f"{name}={value}":
        return _text(redact(f"{name}={value}").partition("=")[2])
    return _cleaned(value)


def _text(text: str) -> str:
    """Return a text without secrets, without what the databases or JSON cannot hold, and not too long."""
    clean_text = redact(text).replace("\0", "").encode("utf-8", "backslashreplace").decode()
    return clean_text if len(clean_text) <= MAX_CHARS else f"{clean_text[: MAX_CHARS - 1]}…"


# --- the settings with which the processes of a machine start


def note_settings(database: Database, settings: Settings, process: str) -> None:
    """Record the settings of a process (``web``, ``worker``) that starts, unless this machine's last one had the same.

    They belong to the whole deployment and are in the log of its own tenant. A process starts without this entry
    where the database does not take it.
    """
    started = Principal(tenant=settings.tenant, id="")
    target_id = f"{process}@{socket.gethostname()}"
    try:
        with database.write() as connection:
            record_state(connection, started, Action.SETTINGS_CHANGED, "process", target_id, chosen(settings))
    except CallboardError as error:
        log.warning("the settings of this process are not in the audit log: %s", error)


def chosen(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without secrets."""
    values: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        if value != field.get_default(call_default_factory=True):
            is_choice = get_origin(field.annotation) is Literal  # `auth` is named like a secret and is none
            values[name] = REDACTED if is_secret(name, str(value)) and not is_choice else _distinct(value)
    return values


def _distinct(value: Any) -> Any:
    """Return a value, or where it is too long to be recorded as it is, its beginning and the digest of all of it.

    Two values that differ anywhere are thus recorded as different ones.
    """
    if isinstance(value, Mapping) and len(value) > MAX_ITEMS:
        value = canonical(value).decode()
    if not isinstance(value, str) or len(value) <= MAX_CHARS:
        return value
    text = redact(value)
    return f"{text[: MAX_CHARS // 2]}… (SHA-256: {hashlib.sha256(text.encode()).hexdigest()})"
