"""Errors of Redis: it does not answer, or is not set as Callboard needs it."""

from __future__ import annotations

from config.errors import Permanent, Retryable, Topic


class RedisUnreachable(Retryable):
    """Redis, or the broker, does not answer."""

    code = "redis_unreachable"
    topic = Topic.MACHINE
    remedy = "Start it, or correct the URL. Runs are accepted nevertheless."
    public_text = "Redis does not answer the server, whose log says why; try again in a moment."


class RedisRefused(Permanent):
    """Redis may evict keys.

    It would lose work.
    """

    code = "redis_refused"
    status = 503
    topic = Topic.MACHINE
    retryable = True
    remedy = "Set `maxmemory-policy noeviction`."
