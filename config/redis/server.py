"""What a Redis server has to be for us: it answers, and it never throws away what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from config.errors import RedisRefused, RedisUnreachable, SettingInvalid
from config.redis_url import broker_form, without_password

CONNECT_TIMEOUT_S = 2.0
SAFE_POLICY = "noeviction"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerFacts:
    """What a server said about itself."""

    version: str
    policy: str
    """``maxmemory-policy``; anything but noeviction loses queued messages when memory is short."""
    persists: bool
    """Whether it keeps an append-only file; without one a restart forgets hints and hot logs, never runs."""


def ask(url: str) -> ServerFacts:
    """Return what the server says about itself.

    Raises:
        RedisUnreachable: nobody answers there, or it refuses us.
        SettingInvalid: this is no Redis URL.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    shown = without_password(url)
    try:
        client = redis.Redis.from_url(
            url, socket_timeout=CONNECT_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as wrong:
        raise SettingInvalid(
            f"'{shown[:80]}' is not a Redis URL; use redis://host:6379/0, rediss://… or unix:///path?db=0."
        ) from wrong
    try:
        with client:
            facts = client.info()
    except (redis.RedisError, OSError) as wrong:
        raise RedisUnreachable(
            f"Redis at {shown} does not answer ({_reason(wrong)}); start it, or mend CALLBOARD_REDIS_URL "
            "(unset it and ./callboard up brings its own)."
        ) from wrong
    return ServerFacts(
        version=str(facts.get("valkey_version") or facts.get("redis_version") or "unknown"),
        policy=str(facts.get("maxmemory_policy", SAFE_POLICY)),
        persists=bool(int(facts.get("aof_enabled", 0))),
    )


def require_usable(url: str) -> ServerFacts:
    """Return what the server says about itself, when it is fit to be used.

    Raises:
        RedisUnreachable: nobody answers there.
        RedisRefused: it would evict keys, and with them messages nobody has read.
    """
    facts = ask(url)
    if facts.policy != SAFE_POLICY:
        raise RedisRefused(
            f"Redis at {without_password(url)} evicts keys when memory is short (maxmemory-policy {facts.policy}), and "
            "queued messages with them. Run `redis-cli config set maxmemory-policy noeviction` and write the same "
            "line in redis.conf.",
            policy=facts.policy,
        )
    return facts


def require_broker(url: str) -> None:
    """A broker that is not Redis (RabbitMQ, ...) answers.

    Raises:
        RedisUnreachable: it does not; the sentence names CALLBOARD_BROKER_URL.
    """
    from kombu import Connection

    try:
        with Connection(broker_form(url), connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.ensure_connection(max_retries=1, timeout=CONNECT_TIMEOUT_S)
    except Exception as wrong:  # each transport has errors of its own
        raise RedisUnreachable(
            f"the broker at {without_password(url)} does not answer ({_reason(wrong)}); start it, or mend "
            "CALLBOARD_BROKER_URL."
        ) from wrong


def _reason(wrong: BaseException) -> str:
    return (str(wrong) or type(wrong).__name__).rstrip(".")[:160]
