"""Which credentials the web process asks for, and whether that fits the address that it serves."""

from __future__ import annotations

from contextlib import closing

from cli.doctor.finding import Judged, Verdicts, fail, ok, warn
from cli.supervisor.serving import is_loopback, require_loopback
from config.clock import stamp
from config.database.engine import open_database
from config.errors import SettingInvalid
from config.identity import keys
from config.settings import Settings


def check_authentication(settings: Settings) -> Verdicts:
    """Yield what is asked for, and what is wrong with it."""
    try:
        require_loopback(settings)
    except SettingInvalid as error:
        yield fail(str(error))
        return
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
    now = stamp()
    with closing(open_database(settings.database)) as database, database.read() as connection:
        found = [key.shown() for key in keys.of_tenant(connection, None)]
    valid = [key for key in found if "revoked_at" not in key and key.get("expires_at", now) >= now]
    others = {"service tokens": settings.service_issuer, "client certificates": settings.tls_principals}
    others |= {"sign-in": settings.oidc_issuer}
    named = [
        f"{len(valid)} valid API {'key' if len(valid) == 1 else 'keys'}",
        *(name for name, setting in others.items() if setting),
    ]
    if not valid and len(named) == 1:
        return warn("CALLBOARD_AUTH=required, and there is no valid API key; `./callboard keys create NAME`")
    return ok(f"CALLBOARD_AUTH=required: {', '.join(named)}")
