"""The sessions of requests: looked up at most twice a second each, and with a second proof where they change something.

The second proof is a token in a header. The page has it from its sign-in and keeps it for its own origin: other pages
cannot read it, and neither can servers on other ports of this host, which get the cookie.

Names of cookies are this deployment's own, since cookies of a host are shared by all its ports. Over HTTPS they begin
with ``__Host-``: browsers then accept them from this host over HTTPS only, for every path.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from flask import Response

from bus.identity.credentials import sessions
from bus.identity.credentials.sessions import SECRET_NAME, SEEN_EVERY_MS, Session, SessionForm
from config.database.shared_secret import shared_secret
from config.egress.origins import host_of, origin_of
from config.errors import CallboardError
from config.fresh import FreshByKey, keep
from config.settings import Settings
from web.auth.keys import FRESH_S
from web.errors import CSRF_REFUSED

if TYPE_CHECKING:
    from bus.journal import Journal


SESSION = "callboard_session"
SIGN_IN = "callboard_sign_in"
MOST_VALUES = 4
"""Cookies of one name that are looked at: other ports of this host can plant some, for other paths."""


def own_origin(environ: Mapping[str, Any], settings: Settings) -> str:
    """Return the origin at which the reader's browser has our page."""
    host, public = environ["HTTP_HOST"], settings.public_url
    if public is not None and host_of(f"http://{host}") == host_of(public):
        return public
    return origin_of(f"{environ['wsgi.url_scheme']}://{host}")


def name_of(kind: str, form: SessionForm, origin: str) -> str:
    """Return the name of a cookie at an origin of ours."""
    return f"{'__Host-' if origin.startswith('https:') else ''}{kind}_{form.cookie_tag}"


def values_in(environ: Mapping[str, Any], kind: str, form: SessionForm, settings: Settings) -> list[str]:
    """Return the values of a cookie in a request, each once."""
    header = environ.get("HTTP_COOKIE", "")
    if kind not in header:
        return []
    name = name_of(kind, form, own_origin(environ, settings))
    matches = re.findall(rf"(?:^|; ?){re.escape(name)}=([A-Za-z0-9._-]{{1,200}})(?=;|$)", header)
    return list(dict.fromkeys(matches))[:MOST_VALUES]


def keep_cookie(answer: Response, name: str, value: str, max_age_s: int) -> None:
    """Let the browser keep_cookie a cookie; no script can read it, and no other site's request carries it."""
    is_secure = name.startswith("__Host-")
    answer.set_cookie(name, value, max_age=max_age_s, path="/", secure=is_secure, httponly=True, samesite="Lax")


def forget_cookie(answer: Response, name: str) -> None:
    keep_cookie(answer, name, "", 0)


log = logging.getLogger(__name__)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADER = "HTTP_X_CSRF_TOKEN"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedSession:
    """The one valid session of a request's cookies."""

    session: Session
    csrf_token: bytes
    """What a request that changes something has to send besides."""


class SessionVerifier:
    """Finds the sessions of requests; one per process."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._settings: Settings = journal.settings
        self.form = SessionForm(partial(shared_secret, journal.database, SECRET_NAME), self._settings.oidc_issuer or "")
        self._known = FreshByKey[str, Session | None]()
        """By id: a session; None: it is not valid."""
        self._checked: dict[bytes, CheckedSession] = {}
        """By the mark of the cookies with the address they came to."""
        self._mark_key = os.urandom(32)
        self._noted_s: dict[str, float] = {}

    def session(self, environ: Mapping[str, Any]) -> Session | None:
        """Return the session that a request came with; None: it has none that is valid, or more than one.

        Raises:
            CSRF_REFUSED: it has one and changes something, without the session's token.
        """
        entry = self._found(environ)
        if entry is None:
            return None
        if environ["REQUEST_METHOD"] not in SAFE_METHODS:
            sent = environ.get(HEADER, "").encode("utf-8", "replace")
            if not hmac.compare_digest(sent, entry.csrf_token):
                raise CSRF_REFUSED()
        self._note_use(entry.session)
        return entry.session

    def _found(self, environ: Mapping[str, Any]) -> CheckedSession | None:
        """Return what the cookies of a request stand for: checked once as long as the session counts as looked up."""
        parts = (environ["wsgi.url_scheme"], environ["HTTP_HOST"], environ["HTTP_COOKIE"])
        mark = blake2b("\n".join(parts).encode(), digest_size=16, key=self._mark_key).digest()
        entry = self._checked.get(mark)
        if entry is None or not self._known.has(entry.session.id, entry.session, FRESH_S):
            entry = self._check(environ)
            if entry is not None:
                keep(self._checked, mark, entry)
        return entry

    def _check(self, environ: Mapping[str, Any]) -> CheckedSession | None:
        texts = values_in(environ, SESSION, self.form, self._settings)
        pairs = [(text, session) for text in texts if (session := self.session_of(text)) is not None]
        if len(pairs) != 1:
            return None
        text, session = pairs[0]
        return CheckedSession(session=session, csrf_token=self.form.csrf_token(text).encode())

    def session_of(self, text: str) -> Session | None:
        """Return the session of a cookie's text, if it is valid now."""
        session_id = self.form.id_of(text)
        session = self._known.get(session_id, FRESH_S, partial(self._live, session_id)) if session_id else None
        if session is None or not hmac.compare_digest(self.form.digest(text), session.digest):
            return None
        return session

    def forget(self, session_id: str) -> None:
        """Look the session up again when it is needed next."""
        self._known.forget(session_id)

    def _live(self, session_id: str) -> Session | None:
        with self.journal.database.read() as connection:
            return sessions.live(connection, [session_id]).get(session_id)

    def _note_use(self, session: Session) -> None:
        """Record the use soon, on another thread and at most once a minute."""
        now_s = time.monotonic()
        if now_s - self._noted_s.get(session.id, -SEEN_EVERY_MS) < SEEN_EVERY_MS / 1000:
            return
        keep(self._noted_s, session.id, now_s)
        self.journal.loop.submit(self.journal.loop.write(self._record_use, session.id))

    def _record_use(self, session_id: str) -> None:
        try:
            with self.journal.database.write() as connection:
                sessions.note_use(connection, session_id)
        except CallboardError as error:  # of no importance to the request
            log.info("use of a session not recorded: %s", error, extra={"session_id": session_id})
