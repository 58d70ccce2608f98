"""The cookies of sign-in. Their names are this deployment's own, since cookies of a host are shared by all its ports.

Over HTTPS they begin with ``__Host-``: browsers then accept them from this host over HTTPS only, for every path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Response

from bus.identity.credentials.session_form import SessionForm
from config.egress.origins import host_of, origin_of
from config.settings import Settings

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


def keep(answer: Response, name: str, value: str, max_age_s: int) -> None:
    """Let the browser keep a cookie; no script can read it, and no other site's request carries it."""
    is_secure = name.startswith("__Host-")
    answer.set_cookie(name, value, max_age=max_age_s, path="/", secure=is_secure, httponly=True, samesite="Lax")


def forget(answer: Response, name: str) -> None:
    keep(answer, name, "", 0)
