"""Refuses a provider's address that leads to a cloud's metadata service, before a request is sent to it."""

from __future__ import annotations

import time

import httpx

from agents.models.errors import ModelRefused
from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.operators import require_operators_url, require_operators_url_here
from config.egress.policy import allowed_in
from config.forks import after_fork
from config.settings import settings

KNOWN_S = 60.0
"""Seconds that a host which was looked up passes without another lookup."""
MAX_KNOWN = 1000
_passed: dict[str, float] = {}
"""Origin of an address that passed -> until when, by the monotonic clock."""


@after_fork
def _renew() -> None:
    _passed.clear()


async def require_base(url: httpx.URL) -> None:
    """Return if a request may be sent there.

    Raises:
        ModelRefused: its host is, or resolves to, a metadata service that the operator does not list.
    """
    origin = _origin(url)
    if _passed.get(origin, 0.0) > time.monotonic():
        return
    try:
        await require_operators_url(origin, allowed_in(settings().http_allowed_hosts))
    except (HostNotAllowed, UrlRefused) as error:
        raise ModelRefused(f"the model was not asked: {error}") from error
    _note(origin)


def require_base_here(url: httpx.URL) -> None:
    """Do the same for a client that blocks its thread.

    Raises:
        ModelRefused: as ``require_base``.
    """
    origin = _origin(url)
    if _passed.get(origin, 0.0) > time.monotonic():
        return
    try:
        require_operators_url_here(origin, allowed_in(settings().http_allowed_hosts))
    except (HostNotAllowed, UrlRefused) as error:
        raise ModelRefused(f"the model was not asked: {error}") from error
    _note(origin)


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}/"


def _note(origin: str) -> None:
    if len(_passed) >= MAX_KNOWN:
        _passed.clear()
    _passed[origin] = time.monotonic() + KNOWN_S
