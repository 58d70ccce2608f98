"""Redis and the broker: they answer, keep what they hold, and are not open to strangers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import SplitResult, parse_qs, urlsplit

from config.errors import RedisRefused
from config.redis_server import ask, require_broker, require_usable
from config.redis_socket import find_running
from config.redis_url import each_url, redis_form, without_password
from config.settings import Settings
from web.terminal.embedded_redis import plan
from web.terminal.looks.finding import Found, Verdict

PLAIN = ("redis", "amqp", "pyamqp", "sentinel", "valkey")
ENCRYPTED = ("rediss", "amqps", "valkeys")
UNCHECKED = ("none", "cert_none", "optional", "cert_optional")

READ_BY_OTHERS = "password and events cross the network in plain text."
USED_BY_OTHERS = (
    "it asks for no password, and is not on this machine: anybody on that network could wake, stop and read runs."
)


def redis_in_use(settings: Settings) -> str | None:
    """Return the URL of the Redis that is configured, or of the state folder's own if that answers."""
    return settings.redis_url or find_running(settings)


def look_at_redis(settings: Settings) -> Found:
    """Yield whether it answers, evicts, and survives a restart."""
    url = redis_in_use(settings)
    if url is None:
        server = plan(settings)
        if server is None:
            yield "warn", "none; `up` runs everything in one process. Install redis-server, or set CALLBOARD_REDIS_URL."
        else:
            yield "ok", f"`up` starts its own: {server.argv[0]}"
        return
    try:
        facts = require_usable(url)
    except RedisRefused as wrong:
        yield "fail", str(wrong)
        facts = ask(url)
    else:
        yield "ok", f"version {facts.version} answers, maxmemory-policy {facts.policy}"
    if not facts.persists:
        yield (
            "warn",
            "keeps no append-only file: after its restart viewers read SQL. `redis-cli config set appendonly yes`",
        )


def look_at_broker(settings: Settings) -> Found:
    """Yield whether the broker answers; a Redis in its place may not evict either."""
    if not settings.broker_url:
        yield "ok", "is the Redis above"
        return
    require_broker(settings.broker_url)
    as_redis = redis_form(settings.broker_url)
    if as_redis is not None:
        try:
            require_usable(as_redis)
        except RedisRefused as wrong:
            yield "fail", str(wrong)
            return
    yield "ok", "answers"


def look_at_addresses(settings: Settings) -> Found:
    """Yield which servers anybody on the network could listen to, or use."""
    exposed = False
    for variable, urls in (("CALLBOARD_REDIS_URL", settings.redis_url), ("CALLBOARD_BROKER_URL", settings.broker_url)):
        for url in each_url(urls or ""):
            for verdict, text in _exposure(urlsplit(url), settings.trusted_network):
                exposed = True
                yield verdict, f"{variable} is {without_password(url)}: {text}"
    if not exposed:
        yield "ok", "servers are on this machine, or encrypted"


def _exposure(url: SplitResult, is_trusted: bool) -> Iterator[tuple[Verdict, str]]:
    host = url.hostname or ""
    if url.scheme not in (*PLAIN, *ENCRYPTED) or not host or _is_loopback(host):
        return
    query = {name.lower(): values[-1].lower() for name, values in parse_qs(url.query).items()}
    encrypted = url.scheme in ENCRYPTED or query.get("ssl") in ("true", "1")
    secure = "amqps" if "amqp" in url.scheme else "rediss"
    if encrypted:
        if query.get("ssl_cert_reqs") in UNCHECKED:
            yield "warn", "nobody checks whose certificate it is; take ssl_cert_reqs out, or set it to required."
        return
    problem = READ_BY_OTHERS if _has_password(url) else USED_BY_OTHERS
    remedy = f"Use a password and {secure}://, or a tunnel that ends on loopback."
    if is_trusted:
        yield "warn", f"{problem} {remedy}"
    else:
        yield "fail", f"{problem} {remedy} Where nobody else is on that network, set CALLBOARD_TRUSTED_NETWORK=true."


def _has_password(url: SplitResult) -> bool:
    """Tell whether a stranger would have to know something; guest/guest is what every RabbitMQ begins with."""
    if parse_qs(url.query).get("password"):
        return True
    return bool(url.password) and not ("amqp" in url.scheme and (url.username, url.password) == ("guest", "guest"))


def _is_loopback(host: str) -> bool:
    if host in ("localhost", "ip6-localhost", "localhost.localdomain") or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
