"""What a tenant's runs hold in Redis together stays within its budget; readers get the same log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import redis

from bus.journal.live import tenant_budgets
from bus.journal.live.redis_log import RedisHotLog
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.errors import SettingInvalid
from config.identity.principal import Principal
from config.settings import Settings, read_settings
from config.settings.limits import HOT_LOG_AT_LEAST, Tenants, TenantSettings
from tests.bus.journal.live.test_hotlog import sent
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, keyring

BUDGET = 200_000
PIECE = "a hundred characters of an answer, or so: " + "x" * 60
Process = Callable[[], RedisHotLog]


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts are brought up to date when a test says so."""
    monkeypatch.setattr(tenant_budgets, "ACCOUNT_EVERY_S", 3600.0)


@pytest.fixture
def process(loop: ProcessLoop, redis_url: str, deployment: str) -> Iterator[Process]:
    """Makes hot logs of one deployment, as its processes have them."""
    hot_logs: list[RedisHotLog] = []

    def make() -> RedisHotLog:
        budgets = {"acme": BUDGET, "small": BUDGET}
        log = RedisHotLog(
            redis_url,
            Keys(deployment),
            keyring(),
            ttl_s=60,
            max_bytes=4_000_000,
            budget_of=lambda tenant: budgets.get(tenant, 0),
        )
        hot_logs.append(log)
        return log

    yield make
    for log in hot_logs:
        loop.run(log.close())


@pytest.fixture
def journal(sqlite: Database, loop: ProcessLoop, process: Process) -> JournalHarness:
    return JournalHarness(sqlite, loop, process())


def owner_of(journal: JournalHarness, log: RedisHotLog, tenant: str = "acme") -> Owner:
    run_id = journal.accept(principal=Principal(tenant=tenant, id="ann")).run_id
    lease = journal.claim(run_id)
    assert lease is not None
    owner = Owner(journal, lease, log)
    journal.do(_told_of_claim(owner))
    return owner


async def _told_of_claim(owner: Owner) -> None:
    owner.notify_of_claim()


async def say(owner: Owner, size: int) -> None:
    """Say something until Redis holds so many bytes more of the run, in entries of a few events."""
    run = owner.hot_log._runs[owner.lease.run_id]  # type: ignore[attr-defined]
    enough = run.held + size
    while run.held < enough:
        while owner.writer.is_full:
            await owner.writer.room()
        await owner.say(*[PIECE] * 20)
        await sent(owner.hot_log)


async def end(owner: Owner) -> None:
    await owner.message("whole")
    await owner.end()
    await owner.hot_log.detach(owner.lease.run_id, owner.lease.fence)
    await sent(owner.hot_log)


async def sealed(owner: Owner) -> None:
    if owner.writer._sealing is not None:
        await owner.writer._sealing


async def account(*logs: RedisHotLog) -> None:
    """Let a second pass, as these processes see it."""
    for log in logs:
        for tenant_account in tuple(log._budgets._accounts.values()):
            await log._budgets._bring_up_to_date(tenant_account)


class InRedis:
    """What Redis holds of a tenant."""

    def __init__(self, client: redis.Redis, keys: Keys, tenant: str = "acme") -> None:
        self._client = client
        self._keys = keys
        self._tenant = tenant

    def of(self, owner: Owner) -> int:
        held: Any = self._client.hget(self._keys.meta(self._tenant, owner.lease.run_id), "bytes")
        return int(held or 0)

    @property
    def accounts(self) -> dict[str, int]:
        fields: Any = self._client.hgetall(self._keys.account(self._tenant)[0])
        return {name.decode(): int(value) for name, value in fields.items()}

    @property
    def total(self) -> int:
        return self.accounts.get("total", 0)

    def expire(self, owner: Owner) -> None:
        """Let the time come when the run's log expires."""
        for name in self._keys.account(self._tenant)[1:]:
            self._client.zadd(name, {owner.lease.run_id: 1}, xx=True)
        run = self._tenant, owner.lease.run_id
        self._client.delete(self._keys.stream(*run), self._keys.meta(*run))


@pytest.fixture
def held(redis_client: redis.Redis, deployment: str) -> InRedis:
    return InRedis(redis_client, Keys(deployment))


def whole(journal: JournalHarness, owner: Owner) -> list[Any]:
    """Return the run's log as a reader gets it from Redis and SQL, after checks."""
    lines = journal.do(journal.read_all(owner.lease))
    assert_whole(lines)
    assert [line.seq for line in lines] == [1, *owner.delivered_seqs]
    text = "".join(orjson.loads(line.data)["content"] for line in lines if line.type == "response")
    assert text == "".join(
        getattr(payload, "content", "") for payload in owner.delivered if type(payload).__name__ == "ResponsePayload"
    )
    return lines


def test_runs_of_two_processes_share_the_budget_and_readers_get_the_same_log(
    journal: JournalHarness, process: Process, held: InRedis
) -> None:
    logs = [process(), process()]
    owners = [owner_of(journal, log) for log in logs]

    async def play() -> list[int]:
        totals = []
        for _ in range(4):
            for owner in owners:
                await say(owner, BUDGET * 2 // 5)  # each alone is within the budget
            await account(*logs)
            for owner in owners:
                await sealed(owner)
            await account(*logs)
            await account(*logs)
            totals.append(held.total)
        return totals

    totals = journal.do(play())
    over = [journal.do(end(owner)) for owner in owners]

    assert all(total <= BUDGET for total in totals)
    assert max(totals) > 0
    assert len(over) == 2
    for owner in owners:
        assert sum(len(line.data) for line in whole(journal, owner)) > BUDGET


def test_within_its_budget_a_tenant_keeps_everything(journal: JournalHarness, process: Process, held: InRedis) -> None:
    log = process()
    owner = owner_of(journal, log)
    journal.do(say(owner, BUDGET // 2))
    before = held.of(owner)

    journal.do(account(log))

    assert held.accounts == {owner.lease.run_id: before, "total": before}
    assert held.of(owner) == before
    assert owner.writer._sealing is None


def test_another_tenant_keeps_its_events(
    journal: JournalHarness, process: Process, held: InRedis, redis_client
) -> None:
    log = process()
    other, free, large = owner_of(journal, log, "small"), owner_of(journal, log, "free"), owner_of(journal, log)
    others = InRedis(redis_client, log._keys, "small"), InRedis(redis_client, log._keys, "free")

    async def play() -> tuple[int, int]:
        await say(other, BUDGET // 2)
        await say(free, BUDGET * 2)
        await say(large, BUDGET * 2)
        before = others[0].of(other), others[1].of(free)
        for _ in range(3):
            await account(log)
            await sealed(large)
        return before

    before = journal.do(play())

    assert (others[0].of(other), others[1].of(free)) == before
    assert other.writer._sealing is None
    assert others[1].accounts == {}, "a tenant without a budget has no account"
    assert held.total < BUDGET < before[1]


def test_ended_runs_are_counted_and_the_oldest_are_deleted_first(
    journal: JournalHarness, process: Process, held: InRedis
) -> None:
    log = process()
    ended = []
    for _ in range(3):
        owner = owner_of(journal, log)
        journal.do(say(owner, 60_000))
        journal.do(end(owner))
        journal.do(account(log))
        ended.append(owner)
    counted = held.accounts
    last = owner_of(journal, log)
    journal.do(say(last, BUDGET - 110_000))

    journal.do(account(log))

    assert set(counted) == {owner.lease.run_id for owner in ended} | {"total"}
    assert [held.of(owner) > 0 for owner in ended] == [False, True, True]
    assert held.total <= BUDGET
    assert last.writer._sealing is None, "open runs were not trimmed"
    journal.do(end(last))
    for owner in (*ended, last):
        whole(journal, owner)


def test_a_run_counts_until_its_log_expires_though_its_writer_was_killed(
    journal: JournalHarness, process: Process, held: InRedis
) -> None:
    killed, log = process(), process()
    lost, ended, owner = owner_of(journal, killed), owner_of(journal, log), owner_of(journal, log)
    journal.do(say(lost, BUDGET // 4))
    journal.do(say(ended, BUDGET // 4))
    journal.do(end(ended))
    journal.do(account(killed, log))
    counted = held.accounts

    held.expire(lost)
    held.expire(ended)
    journal.do(account(log))

    assert {lost.lease.run_id, ended.lease.run_id} < set(counted)
    assert set(held.accounts) <= {owner.lease.run_id, "total"}
    assert held.total == held.of(owner)


def test_the_next_owner_of_a_run_takes_its_entry_over(journal: JournalHarness, process: Process, held: InRedis) -> None:
    killed, log = process(), process()
    lost = owner_of(journal, killed)
    journal.do(say(lost, BUDGET // 4))
    journal.do(account(killed))
    left = held.total
    journal.expire_lease(lost.lease.run_id)
    lease = journal.claim(lost.lease.run_id, "own_2")
    assert lease is not None
    owner = Owner(journal, lease, log)
    journal.do(_told_of_claim(owner))
    journal.do(say(owner, BUDGET // 4))

    journal.do(account(log))

    assert held.total == held.of(owner) > left


def test_a_heartbeat_puts_off_the_expiry_of_an_entry(journal: JournalHarness, process: Process, held: InRedis) -> None:
    log = process()
    owner = owner_of(journal, log)
    journal.do(say(owner, 10_000))
    journal.do(account(log))
    opened = log._keys.account("acme")[1]
    held._client.zadd(opened, {owner.lease.run_id: 10**13})

    journal.do(account(log))
    before = held._client.zscore(opened, owner.lease.run_id)
    journal.do(log.keep([("acme", owner.lease.run_id), ("acme", "run_of_no_writer"), ("free", "run_2")]))
    journal.do(account(log))

    assert before == 10**13
    assert held._client.zscore(opened, owner.lease.run_id) != before


def test_what_another_client_wrote_into_the_account_stops_no_run(
    journal: JournalHarness, process: Process, held: InRedis
) -> None:
    log = process()
    owner = owner_of(journal, log)
    for name in log._keys.account("acme"):
        held._client.set(name, "something else")
    journal.do(say(owner, BUDGET * 2))
    journal.do(account(log))
    for name in log._keys.account("acme"):
        held._client.delete(name)
    held._client.hset(log._keys.account("acme")[0], mapping={"total": "much", owner.lease.run_id: "-"})
    journal.do(log.keep([("acme", owner.lease.run_id)]))  # as each heartbeat does

    journal.do(account(log))
    journal.do(sealed(owner))
    journal.do(account(log))
    journal.do(end(owner))

    assert held.total <= BUDGET
    whole(journal, owner)


def test_accounts_are_brought_up_to_date_while_runs_are_open_and_by_nothing_else(
    journal: JournalHarness, process: Process, held: InRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_budgets, "ACCOUNT_EVERY_S", 0.01)
    log = process()
    free = owner_of(journal, log, "free")
    assert log._budgets._working is None
    owner = owner_of(journal, log)

    async def play() -> None:
        await say(owner, BUDGET // 10)
        await end(owner)
        await end(free)
        working = log._budgets._working
        assert working is not None
        await working

    journal.do(play())

    assert set(held.accounts) == {owner.lease.run_id, "total"}
    assert log._budgets._accounts == {}


def test_a_process_that_ends_enters_what_it_leaves(journal: JournalHarness, process: Process, held: InRedis) -> None:
    log = process()
    owner = owner_of(journal, log)
    journal.do(say(owner, BUDGET // 10))
    journal.do(end(owner))

    journal.do(log.close())

    assert held.total == held.of(owner) > 0
    assert held._client.zrange(log._keys.account("acme")[2], 0, -1) == [owner.lease.run_id.encode()]


# --- settings


def test_a_section_sets_the_budget_of_its_tenant() -> None:
    settings = Settings(
        tenant_hot_log_max_bytes=10**9, tenants=Tenants(acme=TenantSettings(tenant_hot_log_max_bytes=10**6))
    )

    assert settings.for_tenant("acme").tenant_hot_log_max_bytes == 10**6
    assert settings.for_tenant("other").tenant_hot_log_max_bytes == 10**9
    assert Settings().tenant_hot_log_max_bytes == 0


@pytest.mark.parametrize("value", ["-1", "1", str(HOT_LOG_AT_LEAST - 1), "64k", "1.5", "nan"])
def test_a_budget_that_holds_no_run_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_TENANT_HOT_LOG_MAX_BYTES", value)

    with pytest.raises(SettingInvalid, match="CALLBOARD_TENANT_HOT_LOG_MAX_BYTES"):
        read_settings()


def test_a_section_with_a_budget_that_holds_no_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_TENANTS", '{"acme": {"tenant_hot_log_max_bytes": 1000}}')

    with pytest.raises(SettingInvalid, match=r"0 \(no limit\) or at least 65536"):
        read_settings()
