"""Which credentials the web process asks for, and whether that fits the address that it serves."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from bus.identity.credentials import keys
from cli.supervisor.serving import require_loopback
from config.clock import stamp
from config.database.engine import open_database
from config.database.errors import DatabaseUnreachable, SchemaNew, SchemaOld
from config.database.migrate import require_current
from config.egress.origins import is_loopback
from config.errors import SettingInvalid
from config.settings import Settings
from web.doctor import Judged, Verdicts, fail, ok, warn
from web.doctor.database import is_there

NO_CREDENTIAL = "CALLBOARD_AUTH=required, and there is no valid API key; `./callboard keys create NAME`"
MOST_IDS = 5
"""How many keys a warning names."""


def lets_no_one_in(settings: Settings) -> bool:
    """Return whether every request that needs a credential is refused, since there is none yet."""
    return settings.auth == "required" and _required(settings) == warn(NO_CREDENTIAL)


def check_authentication(settings: Settings) -> Verdicts:
    """Yield what is asked for, and what is wrong with it."""
    try:
        require_loopback(settings)
    except SettingInvalid as error:
        yield fail(str(error))
        return
    yield from _keys_of_the_local_principal(settings)
    if settings.auth == "none":
        yield _without(settings)
    elif settings.auth == "local":
        yield ok("CALLBOARD_AUTH=local: the installation's token, for users of this machine")
    else:
        yield _required(settings)


def _without(settings: Settings) -> Judged:
    if not is_loopback(settings.host):
        return warn(
            f"CALLBOARD_AUTH=none on host {settings.host}: every client that reaches it can run the agents and read "
            "every thread. Set CALLBOARD_AUTH=required, unless a proxy in front authenticates and a firewall blocks "
            "all other machines."
        )
    if settings.no_auth:
        return warn("CALLBOARD_AUTH=none with --no-auth: the proxy in front has to authenticate every request")
    return ok(f"CALLBOARD_AUTH=none: every client of this machine acts as '{settings.principal}'")


def _required(settings: Settings) -> Judged:
    """Return whether there is a credential that can be sent."""
    try:
        valid = _valid_keys(settings)
    except (DatabaseUnreachable, SchemaNew, SchemaOld):
        return warn(
            "CALLBOARD_AUTH=required; the API keys could not be checked, because the database above cannot be used"
        )
    others = {"service tokens": settings.service_issuer, "client certificates": settings.tls_principals}
    others |= {"sign-in": settings.oidc_issuer}
    named = [
        f"{len(valid)} valid API {'key' if len(valid) == 1 else 'keys'}",
        *(name for name, setting in others.items() if setting),
    ]
    if not valid and len(named) == 1:
        return warn(NO_CREDENTIAL)
    return ok(f"CALLBOARD_AUTH=required: {', '.join(named)}")


def _keys_of_the_local_principal(settings: Settings) -> Verdicts:
    """Yield a warning if keys act as the installation's own principal, whose name a setting may have changed to."""
    try:
        valid = _valid_keys(settings)
    except (DatabaseUnreachable, SchemaNew, SchemaOld):  # the database's own check says so
        return
    ids = [key["id"] for key in valid if (key["tenant"], key["name"]) == (settings.tenant, settings.principal)]
    if ids:
        more = f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""
        yield warn(
            f"valid API keys act as '{settings.principal}', this installation's own principal, so they reach the "
            f"terminal's runs: {', '.join(ids[:MOST_IDS])}{more}. Revoke them (`./callboard keys revoke ID`) and "
            "create keys of other names, or set another CALLBOARD_PRINCIPAL."
        )


def _valid_keys(settings: Settings) -> list[dict[str, Any]]:
    """Return the keys that are neither revoked nor expired; none where there is no database yet."""
    if not is_there(settings):
        return []
    with closing(open_database(settings.database)) as database:
        require_current(database)
        with database.read() as connection:
            rows = [key.shown() for key in keys.of_tenant(connection, None)]
    now = stamp()
    return [key for key in rows if "revoked_at" not in key and key.get("expires_at", now) >= now]
