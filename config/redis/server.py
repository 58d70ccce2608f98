"""Requirements for a Redis server: it answers, and it never evicts keys."""

from __future__ import annotations

from dataclasses import dataclass

from config.errors import SettingInvalid
from config.redis.errors import RedisRefused, RedisUnreachable
from config.redis.url import broker_form, without_password

CONNECT_TIMEOUT_S = 2.0
SAFE_POLICY = "noeviction"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerFacts:
    """Facts a server reports."""

    version: str
    policy: str
    """``maxmemory-policy``; any but noeviction loses queued messages when memory is short."""
    persists: bool
    """Whether it keeps an append-only file; without one a restart forgets hints and hot logs, never runs."""
    run_id: str
    """The id of the server's process: two URLs with one id lead to one server."""
    max_bytes: int
    """``maxmemory``; 0: no limit."""


def ask(url: str) -> ServerFacts:
    """Return the server's facts.

    Raises:
        RedisUnreachable: no server answers at the URL, or it refuses the connection.
        SettingInvalid: this is not a Redis URL.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    safe_url = without_password(url)
    try:
        client = redis.Redis.from_url(
            url, socket_timeout=CONNECT_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:
        raise SettingInvalid(
            f"'{safe_url[:80]}' is not a Redis URL; use redis://host:6379/0, rediss://… or unix:///path?db=0."
        ) from error
    try:
        with client:
            facts = client.info()
    except (redis.RedisError, OSError) as error:
        raise RedisUnreachable(
            f"Redis at {safe_url} does not answer ({_reason(error)}); start it, or correct CALLBOARD_REDIS_URL "
            "(without it, ./callboard up starts its own)."
        ) from error
    return ServerFacts(
        version=str(facts.get("valkey_version") or facts.get("redis_version") or "unknown"),
        policy=str(facts.get("maxmemory_policy", SAFE_POLICY)),
        persists=bool(int(facts.get("aof_enabled", 0))),
        run_id=str(facts.get("run_id", "")),
        max_bytes=int(facts.get("maxmemory", 0)),
    )


def require_usable(url: str) -> ServerFacts:
    """Return the server's facts if it meets the requirements.

    Raises:
        RedisUnreachable: no server answers at the URL.
        RedisRefused: it evicts keys, and with them unread messages.
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
    """Return if a broker other than Redis (RabbitMQ, ...) answers.

    Raises:
        RedisUnreachable: it does not; the message names CALLBOARD_BROKER_URL.
    """
    from kombu import Connection

    try:
        with Connection(broker_form(url), connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.ensure_connection(max_retries=1, timeout=CONNECT_TIMEOUT_S)
    except Exception as error:  # each transport has its own errors
        raise RedisUnreachable(
            f"the broker at {without_password(url)} does not answer ({_reason(error)}); start it, or correct "
            "CALLBOARD_BROKER_URL."
        ) from error


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__).rstrip(".")[:160]
