"""How many viewers the other web processes have: each process reports its own to Redis, and reads those of the others.

A report counts for three seconds, so that a killed process's viewers stop counting. Without Redis, and while it does
not answer, each process counts its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

from bus.keys import Keys
from bus.redis_wire import Command, RedisWire, connect
from config.ids import new_id
from config.redis.errors import RedisUnreachable

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
