"""How many viewers each tenant and principal has, in this process and in the others, and how many it may have."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from bus.loop import ProcessLoop
from config.identity.principal import Principal
from config.settings.tenants import LimitName
from web.errors import TOO_MANY_VIEWERS
from web.feeds.reports import Reports

REPORT_S = 1.0
"""Seconds between two reports of a process."""
HURRY_S = 0.05
"""The same where a count is near its limit."""
RETRY_S = 5


class ViewerCounts:
    """Counts this process's viewers, and tells other processes about them."""

    def __init__(self, loop: ProcessLoop, limit: Callable[[LimitName, str], int], reports: Reports) -> None:
        self._loop = loop
        self._limit = limit
        self._reports = reports
        self._own: dict[str, Counter[str]] = {}
        """The viewers of each principal, by tenant."""
        self._of_tenant: Counter[str] = Counter()
        self._reported: frozenset[str] = frozenset()
        """The tenants that this process's last report named."""
        self._asking = threading.Lock()
        self._hurry = asyncio.Event()
        self._reporting: asyncio.Task[None] | None = None

    def of(self, owner: Principal) -> int:
        """Return how many viewers a principal has in this process."""
        return self._own.get(owner.tenant, Counter[str]())[owner.id]

    def require_room(self, owner: Principal) -> None:
        """Return if a principal and its tenant may have one more viewer; to be called on a request's thread.

        Raises:
            TOO_MANY_VIEWERS: one of them has as many as it may have.
        """
        limits = {name: self._limit(name, owner.tenant) for name in _LIMITS}
        if not any(limits.values()):
            return
        self._ask(owner.tenant, time.monotonic() - REPORT_S)
        if self._is_near(owner):
            self._ask(owner.tenant, time.monotonic())
        totals = self._totals(owner)
        for name, limit in limits.items():
            if limit and totals[name] >= limit:
                whose = f"'{owner.id}'" if name == "principal_viewers" else f"tenant '{owner.tenant}'"
                raise TOO_MANY_VIEWERS(whose=whose, limit=limit, retry_after_s=RETRY_S)

    def _is_near(self, owner: Principal) -> bool:
        """Return whether ten more viewers, or a fifth of the limit, would reach a limit."""
        limits, totals = {name: self._limit(name, owner.tenant) for name in _LIMITS}, self._totals(owner)
        return any(limit and totals[name] + max(10, limit // 5) >= limit for name, limit in limits.items())

    def _totals(self, owner: Principal) -> dict[LimitName, int]:
        others = self._reports.others(owner.tenant)
        return {
            "principal_viewers": self.of(owner) + others.of_principal.get(owner.id, 0),
            "tenant_viewers": self._of_tenant[owner.tenant] + others.of_tenant,
        }

    def _ask(self, tenant: str, since_s: float) -> None:
        """Report and read a tenant's counts if they were read before; requests that wait for one another share it."""
        if self._reports.is_known(tenant, since_s):
            return
        with self._asking:
            if not self._reports.is_known(tenant, since_s):
                self._loop.run(self._exchange(tenant))

    # --- on the loop

    def add(self, owner: Principal) -> None:
        """Count a viewer."""
        self._own.setdefault(owner.tenant, Counter())[owner.id] += 1
        self._of_tenant[owner.tenant] += 1
        if self._reporting is None and self._is_limited(owner.tenant):
            self._reporting = self._loop.loop.create_task(self._report())
        elif self._is_near(owner):
            self._hurry.set()

    def remove(self, owner: Principal) -> None:
        """Count a viewer no more."""
        if self._is_near(owner):
            self._hurry.set()
        counts = self._own[owner.tenant]
        for key, counter in ((owner.id, counts), (owner.tenant, self._of_tenant)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
        if not counts:
            del self._own[owner.tenant]

    async def close(self) -> None:
        """Report that this process has no viewers left; their clients connect to others now."""
        if self._reporting is not None:
            self._reporting.cancel()
        await self._reports.close({*self._reported, *self._own})

    async def _report(self) -> None:
        """Report at intervals, until there are no viewers left and a report has said so."""
        try:
            while named := self._reported.union(filter(self._is_limited, self._own)):
                await self._exchange(*named)
                self._reported = frozenset(named & self._own.keys())
                await asyncio.sleep(HURRY_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(REPORT_S - HURRY_S):
                        await self._hurry.wait()
                self._hurry.clear()
        finally:
            self._reporting = None

    async def _exchange(self, *tenants: str) -> None:
        await self._reports.exchange({tenant: self._own.get(tenant, {}) for tenant in tenants})

    def _is_limited(self, tenant: str) -> bool:
        return any(self._limit(name, tenant) for name in _LIMITS)


_LIMITS: tuple[LimitName, ...] = ("principal_viewers", "tenant_viewers")
