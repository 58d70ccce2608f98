"""Errors of Redis: it does not answer, or is not set as Callboard needs it."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class RedisUnreachable(Retryable):
    code = "redis_unreachable"
    public_text = "Redis does not answer the server, whose log says why; try again in a moment."


class RedisRefused(Permanent):
    """Redis answers, but is configured in a way that loses work."""

    code = "redis_refused"
    status = 503
