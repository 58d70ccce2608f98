"""Sessions: credentials of people in browsers. The table has a keyed hash of each; who acts is its principal, with the
roles of that one's last sign-in."""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import orjson
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from bus.identity.credentials.key_form import random_text
from bus.identity.principals import sign_in
from config.database.engine import WALL_MS, wall_ms
from config.database.tables import principals, sessions
from config.identity.principal import Principal, Role

SECRET_NAME = "sessions"
"""The deployment's secret that sessions are hashed with, in table ``secrets``."""
_RANDOM_CHARS, _TAG_CHARS, _SECRET_CHARS = 16, 8, 43
PREFIX = "cbs_"
SESSION = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM_CHARS}}}[0-9a-f]{{{_TAG_CHARS}}})_[0-9A-Za-z]{{{_SECRET_CHARS}}}"
)


class SessionForm:
    """Makes and recognises the sessions of one deployment; reads its secret when it is first needed."""

    def __init__(self, read_secret: Callable[[], str], issuer: str) -> None:
        """``issuer``: who signs people in; sessions of another one are not valid."""
        self._read_secret = read_secret
        self._issuer = issuer

    def make(self) -> tuple[str, str]:
        """Return a new session's id and the text of its cookie."""
        random = random_text(_RANDOM_CHARS)
        session_id = random + self._tag(random)
        return session_id, f"{PREFIX}{session_id}_{random_text(_SECRET_CHARS)}"

    def id_of(self, text: str) -> str | None:
        """Return the id of a well-formed session; None: this deployment made no such session."""
        match = SESSION.fullmatch(text)
        if match is None:
            return None
        random, tag = match[1][:_RANDOM_CHARS], match[1][_RANDOM_CHARS:]
        return match[1] if hmac.compare_digest(self._tag(random), tag) else None

    def digest(self, text: str) -> str:
        """Return the keyed hash of a session, which is what the database has of it."""
        return self.mac("session", text).hex()

    def csrf_token(self, text: str) -> str:
        """Return the token that unsafe requests with this session carry in a header."""
        return urlsafe_b64encode(self.mac("csrf", text)).decode().rstrip("=")

    @cached_property
    def cookie_tag(self) -> str:
        """What the names of this deployment's cookies end with: cookies of a host are shared by all of its ports."""
        return self.mac("cookie", "").hex()[:8]

    def mac(self, purpose: str, text: str) -> bytes:
        """Return the MAC of a text; different purposes have different ones."""
        return hmac.digest(self._secret, f"{purpose}:{self._issuer}:{text}".encode(), "sha256")

    def _tag(self, random: str) -> str:
        return self.mac("id", random).hex()[:_TAG_CHARS]

    @cached_property
    def _secret(self) -> bytes:
        return bytes.fromhex(self._read_secret())


# --- the sessions of the database


SEEN_EVERY_MS = 60_000
"""How old the recorded time of a session's last use may be."""
KEPT_MS = 24 * 3600 * 1000
"""How long the row of a session is kept after its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session that has not ended, and who acts with it."""

    id: str
    digest: str
    display_name: str
    caller: Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifetime:
    """How long a session lasts."""

    idle_ms: int
    """After its last use."""
    most_ms: int
    """After the sign-in."""


def create(
    connection: Connection,
    session_id: str,
    digest: str,
    principal: Principal,
    *,
    sign_in_digest: str,
    display_name: str,
    lifetime: Lifetime,
    replaces: Collection[Session] = (),
) -> int:
    """Add a session, give the principal the roles of this sign-in, and return when the session expires.

    The sessions that the browser had before, if any, end.

    Raises:
        IntegrityError: a session was made of this sign-in already.
    """
    now_ms = wall_ms(connection)
    connection.execute(delete(sessions).where(sessions.c.expires_ms < now_ms - KEPT_MS))
    row = {
        "id": session_id,
        "digest": digest,
        "tenant": principal.tenant,
        "principal": principal.id,
        "display_name": display_name,
        "sign_in_digest": sign_in_digest,
        "created_ms": now_ms,
        "seen_ms": now_ms,
        "idle_ms": lifetime.idle_ms,
        "expires_ms": now_ms + lifetime.most_ms,
    }
    connection.execute(insert(sessions), row)
    sign_in(connection, principal)
    ended = [each for each in replaces if _end(connection, sessions.c.id == each.id)]
    for each in ended:
        record(connection, each.caller.principal, Action.SIGN_OUT, "session", each.id, reason="replaced")
    record(connection, principal, Action.SIGN_IN, "session", session_id, roles=sorted(principal.roles))
    return now_ms + lifetime.most_ms


def end(connection: Connection, session_id: str, principal: Principal) -> None:
    """End a principal's session everywhere; a second time changes nothing."""
    if _end(connection, sessions.c.id == session_id):
        record(connection, principal, Action.SIGN_OUT, "session", session_id)


def end_all(connection: Connection, principal: Principal) -> None:
    """End all sessions of a principal."""
    if count := _end(connection, and_(sessions.c.tenant == principal.tenant, sessions.c.principal == principal.id)):
        record(connection, principal, Action.SIGN_OUT, "principal", principal.id, sessions=count)


def _end(connection: Connection, which: ColumnElement[bool]) -> int:
    ending = update(sessions).where(which, sessions.c.ended_ms.is_(None)).values(ended_ms=WALL_MS)
    return connection.execute(ending).rowcount


def live(connection: Connection, ids: Collection[str]) -> Mapping[str, Session]:
    """Return those of the sessions that are valid now, by id."""
    is_same = and_(principals.c.tenant == sessions.c.tenant, principals.c.id == sessions.c.principal)
    columns = (sessions, principals.c.roles_json)
    query = select(*columns).join(principals, is_same).where(sessions.c.id.in_(ids), *_is_live())
    by_id: dict[str, Session] = {}
    for row in connection.execute(query):
        roles = frozenset(Role(role) for role in orjson.loads(row.roles_json or "[]") if role in set(Role))
        credential = Credential(kind=CredentialKind.SESSION, id=row.id, expires_ms=row.expires_ms)
        caller = Caller(principal=Principal(tenant=row.tenant, id=row.principal, roles=roles), credential=credential)
        by_id[row.id] = Session(id=row.id, digest=row.digest, display_name=row.display_name, caller=caller)
    return by_id


def _is_live() -> Iterable[ColumnElement[bool]]:
    yield sessions.c.ended_ms.is_(None)
    yield sessions.c.expires_ms > WALL_MS
    yield sessions.c.seen_ms > WALL_MS - sessions.c.idle_ms
    yield ~principals.c.disabled


def note_use(connection: Connection, session_id: str) -> None:
    """Record that the session was used now, unless that was recorded less than a minute ago."""
    is_due = sessions.c.seen_ms < WALL_MS - SEEN_EVERY_MS
    connection.execute(update(sessions).where(sessions.c.id == session_id, is_due).values(seen_ms=WALL_MS))
