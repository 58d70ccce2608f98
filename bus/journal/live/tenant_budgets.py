"""Keeps what each tenant's runs hold in Redis within the tenant's budget, together with the other processes.

The account is in Redis (account.lua). It has an entry a run, which expires with the run's log, so that what a killed
process left counts as long as it is there, and a run's next owner replaces its entry. Where the account is over the
budget, the logs of runs without a writer are deleted, the oldest first; where that is not enough, each process removes
what SQL has of the runs that it writes, and seals the rest soon. Viewers that follow are not affected: they get events
as they are published. Others read what was removed from SQL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any

from bus.journal.live.hotlog import WrittenRun
from bus.keys import Keys
from bus.redis_wire import Command
from config.redis.errors import RedisUnreachable

log = logging.getLogger(__name__)

ACCOUNT = (Path(__file__).parent / "account.lua").read_text()
TRIM = (Path(__file__).parent / "trim.lua").read_text()
ACCOUNT_EVERY_S = 1.0
"""Seconds between two accounts of a tenant by this process; the budget is exceeded for about so long."""
RUNS_AT_ONCE = 500
"""Runs that one call of the script puts into the account, so that Redis answers others soon."""
CLOSE_S = 1.0
"""How long the last account may take when the process ends."""
WARN_EVERY_S = 60.0
"""Seconds between two log lines about a tenant whose open runs exceed its budget."""

BudgetOf = Callable[[str], int]
"""Returns the bytes that the runs of a tenant may hold together; 0: any number."""
Send = Callable[[Sequence[Command]], Awaitable[list[Any]]]


class TenantBudgets:
    """One per process, on its loop. Appending costs nothing here: the accounts are brought up to date once a second."""

    def __init__(self, keys: Keys, budget_of: BudgetOf, send: Send, *, ttl_ms: int) -> None:
        self._keys = keys
        self._budget_of = budget_of
        self._send = send
        self._ttl_ms = ttl_ms
        self._accounts: dict[str, _Account] = {}
        self._working: asyncio.Task[None] | None = None

    def attached(self, run: WrittenRun) -> None:
        """Count a run that has a writer here now."""
        account = self._account(run.source.tenant)
        if account is not None:
            account.open[run.run_id] = run
            self._begin()

    def detached(self, run: WrittenRun) -> None:
        """Count what a run's writer leaves, until it expires or is deleted."""
        account = self._account(run.source.tenant)
        if account is not None:
            if account.open.get(run.run_id) is run:
                del account.open[run.run_id]
            account.left.append(run)
            self._begin()

    def keep(self, runs: Iterable[tuple[str, str]]) -> None:
        """Put off the expiry of these runs' entries; each is a tenant and a run id."""
        for tenant, run_id in runs:
            account = self._accounts.get(tenant)
            run = account.open.get(run_id) if account is not None else None
            if run is not None:
                run.accounted = 0

    def close(self) -> None:
        if self._working is not None:
            self._working.cancel()

    async def finish(self) -> None:
        """Enter what runs left in the last second: a process may have lived for one run only."""
        accounts, self._accounts = self._accounts, {}
        with suppress(RedisUnreachable, ConnectionError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                for account in accounts.values():
                    await self._enter(account)

    def _account(self, tenant: str) -> _Account | None:
        if tenant not in self._accounts:
            budget = self._budget_of(tenant)
            if not budget:
                return None
            self._accounts[tenant] = _Account(tenant, budget)
        return self._accounts[tenant]

    def _begin(self) -> None:
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work(), context=Context())

    async def _work(self) -> None:
        while self._accounts:
            await asyncio.sleep(ACCOUNT_EVERY_S)
            with suppress(RedisUnreachable, ConnectionError, TimeoutError):
                # Runs that left meanwhile stay in the account as they were last counted, until they expire.
                for account in tuple(self._accounts.values()):
                    await self._bring_up_to_date(account)
            self._accounts = {
                tenant: tenant_account
                for tenant, tenant_account in self._accounts.items()
                if not tenant_account.is_idle
            }

    async def _bring_up_to_date(self, account: _Account) -> None:
        total = await self._enter(account)
        trimmed = [run for run in account.open.values() if run.held] if total > account.budget else []
        if trimmed:
            account.warn(total)
            await self._trim(trimmed)
            await self._enter(account)  # so that the other processes trim no more than they have to

    async def _enter(self, account: _Account) -> int:
        """Put what has changed into the account, delete the logs that it drops, and return what is left in bytes."""
        changes, total = account.changes(), 0
        dropped: list[Command] = []
        for begin in range(0, max(len(changes), 1), RUNS_AT_ONCE):
            part = changes[begin : begin + RUNS_AT_ONCE]
            (answer,) = await self._send([self._entering(account, part)])
            if isinstance(answer, Exception):  # Redis takes no writes; the writers seal soon then
                log.debug("tenant's live events not counted tenant=%s: %s", account.tenant, answer)
                break
            total = answer[0]
            dropped += [self._deletion(account.tenant, run_id) for run_id in answer[1]]
            for run, held, _ in part:
                run.accounted = held
        if dropped:
            await self._send(dropped)
        return total

    def _entering(self, account: _Account, changes: Sequence[_Change]) -> Command:
        entries: list[str | int] = []
        for run, held, state in changes:
            entries += (run.run_id, held, state)
        return ("EVAL", ACCOUNT, 3, *self._keys.account(account.tenant), self._ttl_ms, account.budget, *entries)

    def _deletion(self, tenant: str, run_id: bytes) -> Command:
        name = run_id.decode(errors="replace")
        return ("UNLINK", self._keys.stream(tenant, name), self._keys.meta(tenant, name))

    async def _trim(self, trimmed: Sequence[WrittenRun]) -> None:
        """Remove what SQL has of these runs from Redis, and have the rest sealed."""
        answers = await self._send(
            [("EVAL", TRIM, 2, run.stream, run.meta, run.fence, run.source.sealed_to) for run in trimmed]
        )
        for run, held in zip(trimmed, answers, strict=True):
            if isinstance(held, int):
                run.held = held
            run.source.seal_soon()


_Change = tuple[WrittenRun, int, str]
"""A run, the bytes that Redis holds of it, and whether it has a writer: ``open`` or ``left``."""


class _Account:
    """What this process knows of one tenant."""

    def __init__(self, tenant: str, budget: int) -> None:
        self.tenant = tenant
        self.budget = budget
        self.open: dict[str, WrittenRun] = {}
        self.left: list[WrittenRun] = []
        """Runs whose writer left since the last account."""
        self._warned_at_s = float("-inf")

    @property
    def is_idle(self) -> bool:
        return not self.open and not self.left

    def changes(self) -> list[_Change]:
        """Return what the account in Redis lacks; runs that left are returned once."""
        left, self.left = self.left, []
        # One that was written again here meanwhile is open.
        changes = [(run, run.left_bytes, "left") for run in left if run.run_id not in self.open]
        return changes + [(run, run.held, "open") for run in self.open.values() if run.held != run.accounted]

    def warn(self, total: int) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            log.warning(
                "open runs of a tenant hold %s bytes in Redis, more than its budget of %s; readers get older events "
                "from the database tenant=%s",
                total,
                self.budget,
                self.tenant,
            )
