"""Trusted proxies: what they forward of a client counts, and what any other peer sends of the kind is dropped.

Only ``X-Forwarded-For``, ``-Proto`` and ``-Host`` are read. All other headers of the kind, and these of other peers,
are removed before the application sees the request, so that no code can use one by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from werkzeug.http import parse_list_header
from werkzeug.middleware.proxy_fix import ProxyFix

from config.egress.origins import UNIX, address_of_peer, listed, networks_in
from config.settings import Settings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

PREFIXES = (
    "HTTP_FORWARDED",
    "HTTP_X_FORWARDED",
    "HTTP_X_ORIGINAL_",
    "HTTP_X_REAL_IP",
    "HTTP_X_REWRITE_",
    "HTTP_X_SCRIPT_NAME",
)
"""Beginnings of the headers that proxies use to describe the client's request."""
FOR, PROTO, HOST = "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST"
FORWARDED = "callboard.forwarded"
"""The key of a request's ``Forwarded`` in its environ; a client's header cannot have such a key."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What a request's peer sent of this kind."""

    peer: str
    """The address that the connection came from; empty for a unix socket."""
    is_trusted: bool
    headers: tuple[str, ...]
    """Names of its forwarding headers, whether or not they were believed."""


class TrustedProxies:
    """Middleware: believes the configured proxies, and drops the forwarding headers of all other peers."""

    def __init__(self, app: WSGIApplication, settings: Settings) -> None:
        self._app = app
        self._networks = networks_in(settings.trusted_proxies)
        self._trusts_unix = UNIX in listed(settings.trusted_proxies)
        self._count = count = settings.trusted_proxy_count
        self._fix = ProxyFix(app, x_for=count, x_proto=count, x_host=count, x_port=0, x_prefix=0)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        names = [name for name in environ if name.startswith(PREFIXES)]
        peer = environ.get("REMOTE_ADDR", "")
        is_trusted = self._trusts(peer)
        environ[FORWARDED] = Forwarded(peer, is_trusted, tuple(sorted(_header(name) for name in names)))
        for name in names:
            if not is_trusted or name not in (FOR, PROTO, HOST):
                del environ[name]
        if not is_trusted:
            return self._app(environ, start_response)
        self._drop_malformed(environ)
        return self._fix(environ, start_response)

    def _trusts(self, peer: str) -> bool:
        if not peer:
            return self._trusts_unix
        address = address_of_peer(peer)
        return address is not None and any(address in network for network in self._networks)

    def _drop_malformed(self, environ: dict[str, Any]) -> None:
        """Drop an address that is none and a scheme that is not ours; the Host check judges the host."""
        client, scheme = self._value(environ, FOR), self._value(environ, PROTO)
        if client is not None and address_of_peer(client) is None:
            del environ[FOR]
        if scheme is not None and scheme not in ("http", "https"):
            del environ[PROTO]

    def _value(self, environ: dict[str, Any], name: str) -> str | None:
        """Return the value that the outermost of our proxies sent."""
        values = parse_list_header(environ.get(name, ""))
        return values[-self._count] if len(values) >= self._count else None


def _header(name: str) -> str:
    return name.removeprefix("HTTP_").replace("_", "-").title()
