"""How many requests a principal and a tenant may send in a minute, counted by Flask-Limiter for all web processes.

The counts are in Redis. To ask Redis takes longer than to answer most requests, so a process counts a hundredth of the
limit at once. A limit holds to a hundredth for each process; one under 200 is exact. Without Redis, and while it does
not answer, each process counts for itself: an unreachable Redis neither refuses requests nor lifts the limits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from flask import Flask, Response, g, request

from bus.keys import Keys
from config.limits import LimitName
from config.settings import Settings
from web.auth.authentication import HEALTH_ENDPOINTS
from web.errors import TooManyRequests
from web.problems import of_error
from web.security import current_principal

if TYPE_CHECKING:
    from flask_limiter import ApplicationLimit, Limiter, RateLimitExceeded

REDIS_S = 0.25
"""How long a request waits for Redis before its process counts for itself; Flask-Limiter then tries Redis again after
1, 2, 4 ... seconds."""
WINDOW_S = 60
BLOCKS_A_LIMIT = 100
MAX_BLOCKS = 10_000
"""Principals with a block at which those whose minute is over are removed."""
Scope = Literal["principal", "tenant"]
NAMES: dict[Scope, LimitName] = {
    "principal": "principal_requests_per_minute",
    "tenant": "tenant_requests_per_minute",
}


def register(app: Flask, settings: Settings) -> None:
    """Count and limit the requests of authenticated callers, if there is a limit for any; after authentication."""
    if not any(settings.limit(name, tenant) for name in NAMES.values() for tenant in ("", *settings.tenants)):
        return
    from flask_limiter import Limiter, RateLimitExceeded

    blocks = Blocks()
    limiter = Limiter(
        _whole_principal,
        application_limits=[_limit(settings, scope) for scope in NAMES],
        request_identifier=lambda: "request",  # unknown addresses count too
        in_memory_fallback_enabled=True,
        **_storage(settings),
    )

    @limiter.request_filter
    def is_counted_already() -> bool:
        if (
            request.endpoint in HEALTH_ENDPOINTS or g.get("caller") is None
        ):  # polled by load balancers; the page's files
            return True
        g.block = 0 if blocks.take(_whole_principal()) else _block_size(settings, current_principal().tenant)
        return not g.block

    limiter.init_app(app)

    @app.before_request
    def keep_block() -> None:
        if g.get("block", 0) > 1:  # else there is none, or it has this request alone
            blocks.add(_whole_principal(), g.block - 1)

    app.register_error_handler(RateLimitExceeded, lambda error: _refusal(limiter, error))


class Blocks:
    """Requests that were counted in Redis and not sent yet: one question to Redis serves a block of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[int, float]] = {}

    def take(self, key: str) -> bool:
        """Take a request from a block, and return whether there was one."""
        with self._lock:
            left, until_s = self._left.get(key, (0, 0.0))
            if left < 1 or self._clock() >= until_s:
                self._left.pop(key, None)
                return False
            self._left[key] = left - 1, until_s
            return True

    def add(self, key: str, count: int) -> None:
        """Keep a block for a minute at most."""
        now_s = self._clock()
        with self._lock:
            if len(self._left) >= MAX_BLOCKS:
                self._left = {key: block for key, block in self._left.items() if block[1] > now_s}
            self._left[key] = self._left.get(key, (0, 0.0))[0] + count, now_s + WINDOW_S


def _block_size(settings: Settings, tenant: str) -> int:
    limits = [limit for name in NAMES.values() if (limit := settings.limit(name, tenant))]
    return max(1, min(limits, default=1) // BLOCKS_A_LIMIT)


def _limit(settings: Settings, scope: Scope) -> ApplicationLimit:
    from flask_limiter import ApplicationLimit

    def allowed() -> str:
        amount = settings.limit(NAMES[scope], current_principal().tenant)
        return f"{amount}/minute" if amount else ""

    key: Callable[[], str] = _whole_principal if scope == "principal" else lambda: current_principal().tenant
    return ApplicationLimit(limit_provider=allowed, key_function=key, scope=scope, cost=lambda: g.block)


def _whole_principal() -> str:
    """Return the principal's name with its tenant, whose name has no ``:``."""
    principal = current_principal()
    return f"{principal.tenant}:{principal.id}"


def _storage(settings: Settings) -> dict[str, Any]:
    if settings.redis_url is None:
        return {"storage_uri": "memory://"}
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    url = settings.redis_url.replace("unix://", "redis+unix://", 1)
    waits = {"socket_timeout": REDIS_S, "socket_connect_timeout": REDIS_S, "retry": Retry(NoBackoff(), 0)}
    return {"storage_uri": url, "storage_options": {"key_prefix": Keys(settings.deployment).limits, **waits}}


def _refusal(limiter: Limiter, error: RateLimitExceeded) -> Response:
    principal, scope = current_principal(), error.limit.scope
    whose = f"'{principal.id}'" if scope == "principal" else f"tenant '{principal.tenant}'"
    try:
        reset_at = limiter.current_limit.reset_at if limiter.current_limit is not None else 0
    except Exception:  # Redis broke between the count and this question
        reset_at = 0
    wait_s = max(1, min(60, int(reset_at - time.time()) + 1))
    return of_error(TooManyRequests(whose=whose, limit=error.limit.limit.amount, retry_after_s=wait_s))
