"""How many viewers each tenant and principal has, in this process and in the others, and how many it may have.

Each process reports its own viewers to Redis, and reads those of the others. A report counts for three seconds, so that
a killed process's viewers stop counting. Without Redis, and while it does not answer, each process counts its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import orjson

from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.redis_wire import Command, RedisWire, connect
from config.identity.principal import Principal
from config.ids import new_id
from config.redis.errors import RedisUnreachable
from config.settings.limits import LimitName
from web.errors import TOO_MANY_VIEWERS

log = logging.getLogger(__name__)

SCRIPT = (Path(__file__).parent / "report.lua").read_text()
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()
LIVES_S = 3.0
"""Seconds that a report counts, and that what the others reported is used."""
ANSWER_S = 0.25
"""Seconds that Redis has to answer, since a request may wait for it."""
PAUSE_FACTOR = 10
"""Counts are used for so many times as long as it took to read them, so that reading takes a tenth of the loop's time
at most: a tenant may have thousands of principals, and be asked for at each request beyond its limit."""
AWAY_S = 2.0
"""Seconds until Redis is asked again, where it did not answer."""


class Seen(NamedTuple):
    """The viewers of one tenant in other processes."""

    at_s: float
    """When they were read, on the monotonic clock."""
    of_principal: Mapping[str, int]
    of_tenant: int
    pause_s: float


NEVER = Seen(float("-inf"), {}, 0, 0.0)


class Reports:
    """The counts of the other processes, as of this process's last report. Used on the loop."""

    def __init__(self, keys: Keys, redis_url: str | None) -> None:
        self._keys = keys
        self._url = redis_url
        self._process = new_id("web")
        self._others: dict[str, Seen] = {}
        self._turn = asyncio.Lock()
        self._wire: RedisWire | None = None
        self._away_until_s = 0.0
        self._is_away = False  # logged once per outage
        self._is_ending = False

    def is_known(self, tenant: str, since_s: float) -> bool:
        """Return whether a tenant's counts were read since then, or cannot be read now."""
        if self._url is None or time.monotonic() < self._away_until_s:
            return True
        seen = self._others.get(tenant, NEVER)
        return seen.at_s + seen.pause_s >= since_s

    def others(self, tenant: str) -> Seen:
        """Return how many viewers a tenant has in other processes."""
        seen = self._others.get(tenant, NEVER)
        return seen if time.monotonic() - seen.at_s < LIVES_S else NEVER

    async def exchange(self, own: Mapping[str, Mapping[str, int]]) -> None:
        """Report this process's viewers, by tenant and principal, and read those of the others."""
        async with self._turn:
            if not own or self._url is None or time.monotonic() < self._away_until_s:
                return  # without a command Redis would send no answer to wait for
            try:
                async with asyncio.timeout(ANSWER_S):
                    replies = await self._ask(self._url, own)
            except (RedisUnreachable, ConnectionError, TimeoutError) as error:
                self._give_up(error)
                return
        self._note(dict(zip(own, replies, strict=True)))

    async def close(self, tenants: Iterable[str]) -> None:
        """Report that this process has no viewers of these tenants, since it ends.

        A failure is not logged: the reports expire, and Redis may end at the same time.
        """
        self._is_ending = True
        await self.exchange({tenant: {} for tenant in tenants})
        if self._wire is not None:
            self._wire.close()

    async def _ask(self, url: str, own: Mapping[str, Mapping[str, int]]) -> list[object]:
        if self._wire is None or not self._wire.is_open:
            self._wire = await connect(url)
        commands: list[Command] = []
        for tenant, counts in own.items():
            payload = orjson.dumps(counts) if counts else b""
            key = self._keys.viewers(tenant)
            commands.append(("EVALSHA", SCRIPT_SHA, 1, key, self._process, payload, int(LIVES_S * 1000)))
        replies = await self._wire.send(commands)
        if any(isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT") for reply in replies):
            await self._wire.send([("SCRIPT", "LOAD", SCRIPT)])
            replies = await self._wire.send(commands)
        return replies

    def _note(self, replies: Mapping[str, object]) -> None:
        now_s = time.monotonic()
        self._others = {tenant: seen for tenant, seen in self._others.items() if now_s - seen.at_s < LIVES_S}
        for tenant, reply in replies.items():
            if isinstance(reply, list):
                began_s = time.monotonic()
                counts = _summed(reply)
                pause_s = min(1.0, (time.monotonic() - began_s) * PAUSE_FACTOR)
                self._others[tenant] = Seen(now_s, counts, counts.total(), pause_s)
            else:  # out of memory, a replica
                self._give_up(reply)
                return
        if self._is_away:
            self._is_away = False
            log.warning("viewers are counted together with those of other processes again")

    def _give_up(self, error: object) -> None:
        self._others = {}
        self._away_until_s = time.monotonic() + AWAY_S
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if not self._is_away and not self._is_ending:
            self._is_away = True
            log.warning("Redis takes no counts of viewers, each process counts its own: %s", str(error) or "no answer")


def _summed(reports: list[bytes]) -> Counter[str]:
    """Return the sum of other processes' counts; what any other client wrote there is ignored."""
    totals = Counter[str]()
    for report in reports:
        try:
            counts = orjson.loads(report)
        except ValueError:
            continue
        if isinstance(counts, dict):
            totals.update({name: count for name, count in counts.items() if type(count) is int and count > 0})
    return totals


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
