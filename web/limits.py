"""How many requests a principal and a tenant may send in a minute, counted by Flask-Limiter for all web processes.

The counts are in Redis. To ask Redis takes longer than to answer most requests, so a process counts a hundredth of the
limit at once, for a principal and for its tenant separately: a tenant is not charged for requests that one of its
principals has not sent yet. A limit holds to a hundredth for each process; one under 200 is exact. Without Redis, and
while it does not answer, each process counts for itself: an unreachable Redis neither refuses requests nor lifts the
limits.
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
"""Principals and tenants with a block at which those whose minute is over are removed."""
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
        lambda: _key("principal"),
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
        if "asked" not in g:  # else Redis broke, and the request is counted in this process
            sizes = {scope: _block_size(settings, scope) for scope in NAMES}
            g.asked = {scope: 0 if blocks.has(_key(scope)) else size for scope, size in sizes.items() if size}
        return not any(g.asked.values())

    limiter.init_app(app)

    @app.before_request
    def keep_blocks() -> None:
        for scope, count in g.get("asked", {}).items():
            if count != 1:  # else it has this request alone
                blocks.add(_key(scope), count - 1)

    @app.errorhandler(RateLimitExceeded)
    def refuse(error: RateLimitExceeded) -> Response:
        if error.limit.scope == "tenant" and g.asked.get("principal"):  # the principal's block was counted before
            blocks.add(_key("principal"), g.asked["principal"])
        return _refusal(limiter, error)


class Blocks:
    """Requests that were counted in Redis and not sent yet: one question to Redis serves a block of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[int, float]] = {}

    def has(self, key: str) -> bool:
        """Return whether there is a request in the block of a key."""
        with self._lock:
            return self._count(key) > 0

    def add(self, key: str, count: int) -> None:
        """Add requests to a block, which is kept for a minute, or take -``count`` from it.

        Concurrent requests may take more than it has; the next block has these less.
        """
        now_s = self._clock()
        with self._lock:
            if key not in self._left and len(self._left) >= MAX_BLOCKS:
                self._left = {key: block for key, block in self._left.items() if block[1] > now_s}
            left = self._count(key)
            self._left[key] = left + count, self._left[key][1] if left and count < 0 else now_s + WINDOW_S

    def _count(self, key: str) -> int:
        left, until_s = self._left.get(key, (0, 0.0))
        return left if self._clock() < until_s else 0


def _block_size(settings: Settings, scope: Scope) -> int:
    limit = settings.limit(NAMES[scope], current_principal().tenant)
    return max(1, limit // BLOCKS_A_LIMIT) if limit else 0


def _limit(settings: Settings, scope: Scope) -> ApplicationLimit:
    from flask_limiter import ApplicationLimit

    def allowed() -> str:
        amount = settings.limit(NAMES[scope], current_principal().tenant)
        return f"{amount}/minute" if amount else ""

    return ApplicationLimit(
        limit_provider=allowed,
        key_function=lambda: _key(scope),
        scope=scope,
        cost=lambda: g.asked[scope],
        exempt_when=lambda: not g.asked[scope],
    )


def _key(scope: Scope) -> str:
    """Return the tenant's name, which has no ``:``, or the principal's name with it."""
    principal = current_principal()
    return principal.tenant if scope == "tenant" else f"{principal.tenant}:{principal.id}"


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
