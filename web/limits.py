"""How many requests a principal and a tenant may send in a minute, counted for all web processes.

The counts are in Redis. To ask Redis takes longer than to answer most requests, so a process counts a hundredth of the
limit at once, for a principal and for its tenant separately: a tenant is not charged for requests that one of its
principals has not sent yet. A limit holds to a hundredth for each process; one under 200 is exact. Without Redis, and
while it does not answer, each process counts for itself: an unreachable Redis neither refuses requests nor lifts the
limits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from flask import Flask, g, request

from bus.keys import Keys
from config.errors import CallboardError
from config.identity.principal import Principal
from config.settings import Settings
from config.settings.limits import LimitName
from web.auth.authentication import HEALTH_ENDPOINTS
from web.errors import TOO_MANY_REQUESTS

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.storage import Storage
    from limits.strategies import FixedWindowRateLimiter

log = logging.getLogger(__name__)

REDIS_S = 0.25
"""How long a request waits for Redis before its process counts for itself."""
MAX_PAUSE_S = 32
"""Redis is tried again after 1, 2, 4 ... seconds, at most after so many."""
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
    blocks, counter = Blocks(), Counter(settings)
    sizes = lru_cache(MAX_BLOCKS)(partial(_block_sizes, settings))

    @app.before_request
    def limit_requests() -> None:
        caller = g.get("caller")
        if caller is None or request.endpoint in HEALTH_ENDPOINTS:  # the page's files; polled by load balancers
            return
        principal: Principal = caller.principal
        counts = blocks.take(principal, sizes(principal.tenant))
        if not counts:
            return
        reached = counter.count(principal, counts)
        if reached is None:
            for scope, count in counts.items():
                if count != 1:  # else it has this request alone
                    blocks.add(key_of(principal, scope), count - 1)
            return
        if reached.scope == "tenant" and counts.get("principal"):  # the principal's block was counted before
            blocks.add(key_of(principal, "principal"), counts["principal"])
        raise _error(principal, reached)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReachedLimit:
    """Which limit is reached."""

    scope: Scope
    amount: int
    wait_s: int
    """Until requests count anew."""


class Counter:
    """Counts blocks of requests in Redis, in fixed windows of a minute; in memory while Redis does not answer."""

    def __init__(
        self, settings: Settings, storage: Storage | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from limits.storage import MemoryStorage
        from limits.strategies import FixedWindowRateLimiter

        self._settings = settings
        self._own = FixedWindowRateLimiter(MemoryStorage())
        shared = storage or _storage(settings)
        self._shared = FixedWindowRateLimiter(shared) if shared is not None else self._own
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._retry_at_s = 0.0

    def count(self, principal: Principal, counts: Mapping[Scope, int]) -> ReachedLimit | None:
        """Count so many requests in each scope; return the limit that is reached by that, if there is one."""
        limiter, failures = self._limiter()
        try:
            reached = self._count(limiter, principal, counts)
        except Exception as error:
            if limiter is self._own:
                raise
            self._note_failure(error, failures)
            return self._count(self._own, principal, counts)
        if failures and limiter is self._shared:
            self._note_success(failures)
        return reached

    def _count(
        self, limiter: FixedWindowRateLimiter, principal: Principal, counts: Mapping[Scope, int]
    ) -> ReachedLimit | None:
        from limits import RateLimitItemPerMinute

        for scope, name in NAMES.items():
            amount = self._settings.limit(name, principal.tenant)
            if not counts.get(scope) or not amount:
                continue
            item, key = RateLimitItemPerMinute(amount), key_of(principal, scope)
            if not limiter.hit(item, key, scope, cost=counts[scope]):
                return ReachedLimit(scope=scope, amount=amount, wait_s=_wait_s(limiter, item, key, scope))
        return None

    def _limiter(self) -> tuple[FixedWindowRateLimiter, int]:
        """Return what counts this request, and how often Redis has failed; one request after each pause tries it."""
        with self._lock:
            if not self._failures:
                return self._shared, 0
            now_s = self._clock()
            if now_s < self._retry_at_s:
                return self._own, self._failures
            self._retry_at_s = now_s + MAX_PAUSE_S  # until the outcome of this try
            return self._shared, self._failures

    def _note_success(self, failures: int) -> None:
        with self._lock:
            if self._failures == failures:
                self._failures = 0

    def _note_failure(self, error: Exception, failures: int) -> None:
        """Note that Redis failed once more than ``failures`` times, unless a concurrent request has noted that."""
        with self._lock:
            if self._failures != failures:
                return
            if not self._failures:
                log.warning("requests are counted by each web process for itself: %s", type(error).__name__)
            self._retry_at_s = self._clock() + min(2**self._failures, MAX_PAUSE_S)
            self._failures += 1


def _wait_s(limiter: FixedWindowRateLimiter, item: RateLimitItem, key: str, scope: Scope) -> int:
    """Return the seconds until requests count anew."""
    try:
        reset_at = limiter.get_window_stats(item, key, scope).reset_time
    except Exception:  # Redis broke between the count and this question
        reset_at = 0
    return max(1, min(WINDOW_S, int(reset_at - time.time()) + 1))


class Blocks:
    """Requests that were counted in Redis and not sent yet: one question to Redis serves a block of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[int, float]] = {}

    def take(self, principal: Principal, sizes: Mapping[Scope, int]) -> dict[Scope, int]:
        """Take a request from each of a principal's blocks, and return {}.

        If one of them is used up, nothing is taken: return what to ask for, a block in its place and 0 for the others.
        """
        keys = {scope: key_of(principal, scope) for scope in sizes}
        with self._lock:
            used_up = [scope for scope, key in keys.items() if self._count(key) <= 0]
            if not used_up:
                for key in keys.values():
                    left, until_s = self._left[key]
                    self._left[key] = left - 1, until_s
                return {}
        return {scope: size if scope in used_up else 0 for scope, size in sizes.items()}

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


def _block_sizes(settings: Settings, tenant: str) -> dict[Scope, int]:
    """Return how many requests are counted at once, without the scopes that have no limit."""
    limits = {scope: settings.limit(name, tenant) for scope, name in NAMES.items()}
    return {scope: max(1, limit // BLOCKS_A_LIMIT) for scope, limit in limits.items() if limit}


def key_of(principal: Principal, scope: Scope) -> str:
    """Return the tenant's name, which has no ``:``, or the principal's name with it."""
    return principal.tenant if scope == "tenant" else f"{principal.tenant}:{principal.id}"


def _storage(settings: Settings) -> Storage | None:
    """Return where all web processes count; None: there is no Redis."""
    if settings.redis_url is None:
        return None
    from limits.storage import RedisStorage
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    url = settings.redis_url.replace("unix://", "redis+unix://", 1)
    return RedisStorage(
        url,
        key_prefix=Keys(settings.deployment).limits,
        socket_timeout=REDIS_S,
        socket_connect_timeout=REDIS_S,
        retry=Retry(NoBackoff(), 0),  # type: ignore[arg-type]  # options go to redis-py, whatever their type
    )


def _error(principal: Principal, reached: ReachedLimit) -> CallboardError:
    whose = f"'{principal.id}'" if reached.scope == "principal" else f"tenant '{principal.tenant}'"
    return TOO_MANY_REQUESTS(whose=whose, limit=reached.amount, retry_after_s=reached.wait_s)
