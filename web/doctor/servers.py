"""Checks of Redis and the broker: they answer, do not evict, and are not open to the network."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from urllib.parse import SplitResult, parse_qs, urlsplit

from bus.journal.stores import database_id, is_shared
from bus.keys import Keys
from bus.redis_wire import connect, with_running_redis
from config.database.engine import Database
from config.egress.origins import is_loopback
from config.redis.errors import RedisRefused, RedisUnreachable
from config.redis.program import program_of
from config.redis.server import ServerFacts, ask, require_broker, require_usable
from config.redis.url import each_url, redis_form, without_password
from config.settings import Settings
from web.doctor import Verdicts, fail, ok, warn
from web.doctor.database import reading_database

SHARED = (
    "workers of another database use the name '{name}' in this Redis, so each installation takes the other's wake-ups "
    "and runs begin late. Set another CALLBOARD_DEPLOYMENT for one of them, and restart its processes."
)

FILLED = (
    "the live events of runs are in the broker's Redis, which has {max_mib} MiB (maxmemory), and no budget keeps them "
    "below that; a full Redis takes no wake-ups, and runs begin late. Set CALLBOARD_TENANT_HOT_LOG_MAX_BYTES, or "
    "CALLBOARD_BROKER_URL to another server."
)

PLAIN = ("redis", "amqp", "pyamqp", "sentinel", "valkey")
ENCRYPTED = ("rediss", "amqps", "valkeys")
UNCHECKED = ("none", "cert_none", "optional", "cert_optional")

READ_BY_OTHERS = "password and events cross the network in plain text."
USED_BY_OTHERS = (
    "it requires no password and is on another machine: any host of that network can start, stop and read runs."
)


def check_redis(settings: Settings) -> Verdicts:
    """Yield whether Redis answers, evicts keys, and persists."""
    url = with_running_redis(settings).redis_url
    if url is None:
        program = program_of(settings.embedded)
        if program is None:
            yield warn("none; `up` runs everything in one process. Install redis-server, or set CALLBOARD_REDIS_URL.")
        else:
            yield ok(f"`up` starts its own: {program}")
        return
    try:
        facts = require_usable(url)
    except RedisRefused as error:
        yield fail(str(error))
        facts = ask(url)
    else:
        yield ok(f"version {facts.version} answers, maxmemory-policy {facts.policy}")
    if not facts.persists:
        yield warn("has no append-only file: after its restart viewers read SQL. `redis-cli config set appendonly yes`")


@reading_database
def check_deployment(settings: Settings, database: Database) -> Verdicts:
    """Yield whether workers of another database use the keys of this deployment's name."""
    url = with_running_redis(settings).redis_url
    if url is None:
        return
    try:
        is_taken = asyncio.run(_is_taken(url, Keys(settings.deployment), database_id(database)))
    except (RedisUnreachable, ConnectionError):
        return  # the check above says so
    if is_taken:
        yield fail(SHARED.format(name=settings.deployment))
    else:
        yield ok(f"'{settings.deployment}' is this installation's alone")


async def _is_taken(url: str, keys: Keys, own_id: str) -> bool:
    with closing(await connect(url)) as wire:
        return await is_shared(keys, own_id, wire.send)


def check_broker(settings: Settings) -> Verdicts:
    """Yield whether the broker answers; a Redis as broker must neither evict keys nor be filled by the live events."""
    redis_url = with_running_redis(settings).redis_url
    if settings.broker_url:
        yield from _check_own_broker(settings, settings.broker_url, redis_url)
    elif redis_url is not None:
        try:
            facts = ask(redis_url)
        except RedisUnreachable:
            yield warn("could not be checked: it is the Redis above, which does not answer")
        else:
            yield ok("is the Redis above")
            yield from _check_room(settings, facts)
    elif program_of(settings.embedded) is not None:
        yield ok("is the Redis that `up` starts")
    else:
        yield warn("none; no wake-up is published, and workers poll the database")


def _check_own_broker(settings: Settings, broker_url: str, redis_url: str | None) -> Verdicts:
    require_broker(broker_url)
    as_redis = redis_form(broker_url)
    if as_redis is None:
        yield ok("answers")
        return
    try:
        facts = require_usable(as_redis)
    except RedisRefused as error:
        yield fail(str(error))
        return
    yield ok("answers")
    with suppress(RedisUnreachable):  # the check of Redis says so
        if redis_url is not None and ask(redis_url).run_id == facts.run_id:
            yield from _check_room(settings, facts)


def _check_room(settings: Settings, facts: ServerFacts) -> Verdicts:
    """Yield whether the live events, which are in the broker's Redis too, could take all of its memory."""
    budget = settings.tenant_hot_log_max_bytes
    if facts.max_bytes and not 0 < budget < facts.max_bytes:
        yield warn(FILLED.format(max_mib=facts.max_bytes // 1024**2))


def check_addresses(settings: Settings) -> Verdicts:
    """Yield the servers that other hosts of the network could listen to, or use."""
    exposed = False
    for variable, urls in (("CALLBOARD_REDIS_URL", settings.redis_url), ("CALLBOARD_BROKER_URL", settings.broker_url)):
        for url in each_url(urls or ""):
            for verdict, text in _exposure(urlsplit(url), settings.trusted_network):
                exposed = True
                yield verdict, f"{variable} is {without_password(url)}: {text}"
    if not exposed:
        yield ok("servers are on this machine, or encrypted")


def _exposure(url: SplitResult, is_trusted: bool) -> Verdicts:
    host = url.hostname or ""
    if url.scheme not in (*PLAIN, *ENCRYPTED) or not host or _is_loopback(host):
        return
    query = {name.lower(): values[-1].lower() for name, values in parse_qs(url.query).items()}
    encrypted = url.scheme in ENCRYPTED or query.get("ssl") in ("true", "1")
    secure = "amqps" if "amqp" in url.scheme else "rediss"
    problem = READ_BY_OTHERS if _has_password(url) else USED_BY_OTHERS
    remedy = f"Use a password and {secure}://, or a tunnel that ends on loopback."
    if encrypted:
        if query.get("ssl_cert_reqs") in UNCHECKED:
            yield warn("the certificate is not verified; remove ssl_cert_reqs, or set it to required.")
    elif is_trusted:
        yield warn(f"{problem} {remedy}")
    else:
        yield fail(f"{problem} {remedy} If no other host is on that network, set CALLBOARD_TRUSTED_NETWORK=true.")


def _has_password(url: SplitResult) -> bool:
    """Return whether the URL has a secret password; guest/guest is RabbitMQ's default."""
    if parse_qs(url.query).get("password"):
        return True
    return bool(url.password) and not ("amqp" in url.scheme and (url.username, url.password) == ("guest", "guest"))


def _is_loopback(host: str) -> bool:
    named = host in ("ip6-localhost", "localhost.localdomain") or host.endswith(".localhost")
    return named or is_loopback(host.partition("%")[0])
