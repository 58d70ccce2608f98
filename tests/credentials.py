"""Credentials of a deployment that is furnished without its HTTP calls."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from bus.identity.credentials import key_form, keys, sessions
from bus.identity.credentials.key_form import KeyForm
from bus.identity.credentials.sessions import Lifetime, SessionForm
from config.database.engine import open_database
from config.database.shared_secret import shared_secret
from config.identity.principal import Principal
from config.settings import Settings
from web.auth.sessions import SESSION, name_of

HOUR_MS = 3_600_000


def key_of(settings: Settings, principal: Principal) -> str:
    """Return a new key that acts as this principal."""
    with closing(open_database(settings.database)) as database:
        form = KeyForm(partial(shared_secret, database, key_form.SECRET_NAME))
        form.open()
        with database.write() as connection:
            return keys.create(connection, form, principal, by="root")[1]


def session_of(settings: Settings, principal: Principal) -> dict[str, str]:
    """Return the headers of a person's browser after a sign-in: the cookie and the token of its page."""
    with closing(open_database(settings.database)) as database:
        form = SessionForm(partial(shared_secret, database, sessions.SECRET_NAME), settings.oidc_issuer or "")
        session_id, text = form.make()
        lifetime = Lifetime(idle_ms=HOUR_MS, most_ms=HOUR_MS)
        facts = {"sign_in_digest": session_id, "display_name": principal.id, "lifetime": lifetime}
        digest, token = form.digest(text), form.csrf_token(text)  # reads the secret before the transaction
        with database.write() as connection:
            sessions.create(connection, session_id, digest, principal, **facts)  # type: ignore[arg-type]
        return {"Cookie": f"{name_of(SESSION, form, 'http://127.0.0.1')}={text}", "X-CSRF-Token": token}
