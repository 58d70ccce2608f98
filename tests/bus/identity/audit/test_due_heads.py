"""Heads of the audit log are written again and again, each by one process, whatever the database says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import delete, update

from bus.identity.audit.anchors import SECRET_NAME, signature_of
from bus.identity.audit.due_heads import AGAIN_MS, EVERY_ENTRIES, EVERY_MS, KnownHeads, take_due
from bus.identity.audit.entry import Action, AuditEntry
from bus.identity.audit.recording import record
from config.database.engine import Database, open_database
from config.database.shared_secret import shared_secret
from config.database.tables import audit, audit_heads
from config.identity.principal import Principal
from tests.bus.identity.audit.test_chain import tamper, truncate_to
from tests.template import upgrade_by_copy

FUTURE_MS = 10**15


@pytest.fixture
def database(each_database_url: str) -> Iterator[Database]:
    with closing(open_database(each_database_url)) as opened:
        upgrade_by_copy(opened)
        yield opened


def add(database: Database, tenant: str = "acme") -> AuditEntry:
    with database.write() as connection:
        return record(connection, Principal(tenant=tenant), Action.RUN_REMOVED, "run", "run_1")


def set_heads(database: Database, **values: object) -> None:
    with database.write() as connection:
        connection.execute(update(audit_heads).values(**values))


def let_pass(database: Database, ms: int) -> None:
    set_heads(database, anchored_ms=audit_heads.c.anchored_ms - ms)


def test_a_head_is_due_once_and_again_when_it_moved_and_after_an_hour(database: Database) -> None:
    first = add(database)
    at_once = take_due(database)
    second = add(database)
    too_soon = take_due(database)
    let_pass(database, EVERY_MS)
    later = take_due(database)
    let_pass(database, EVERY_MS)
    unmoved = take_due(database)
    let_pass(database, AGAIN_MS)
    again = take_due(database)

    assert [(head.number, head.digest) for head in at_once] == [(1, first.digest)]
    assert too_soon == unmoved == []
    assert [(head.number, head.digest) for head in later] == [(2, second.digest)]
    assert [head.number for head in again] == [2]


def test_many_entries_make_a_head_due_before_its_time(database: Database) -> None:
    add(database)
    take_due(database)
    set_heads(database, number=1 + EVERY_ENTRIES)

    assert [head.number for head in take_due(database)] == [1 + EVERY_ENTRIES]


def test_each_tenant_has_its_own(database: Database) -> None:
    add(database, "a")
    add(database, "b")

    assert sorted(head.tenant for head in take_due(database)) == ["a", "b"]
    assert take_due(database) == []


def test_a_head_is_signed_with_the_installations_secret(database: Database) -> None:
    entry = add(database)

    (head,) = take_due(database)

    secret = shared_secret(database, SECRET_NAME)
    assert head.signature == signature_of(secret, "acme", 1, entry.digest)


@pytest.mark.parametrize(
    "values",
    [{"anchored": 10**9}, {"anchored_ms": FUTURE_MS}, {"anchored": 10**9, "anchored_ms": FUTURE_MS}],
    ids=["further than it is", "later than now", "both"],
)
def test_a_head_that_cannot_be_written_so_is_due_at_once(database: Database, values: dict[str, int]) -> None:
    add(database)
    take_due(database)
    add(database)
    set_heads(database, **values)

    assert [head.number for head in take_due(database)] == [2]
    assert take_due(database) == []


class Clock:
    """A process's own clock, in seconds."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, ms: int) -> None:
        self.now_s += ms / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def silence(database: Database) -> None:
    """Say that everything was written just now, as the role of the processes may."""
    take_due(database)


def numbers(heads: KnownHeads, database: Database) -> list[int]:
    return [head.number for head in heads.due(database)]


def test_each_process_writes_what_it_knows_once_an_hour_whatever_the_database_says(
    database: Database, clock: Clock
) -> None:
    heads = KnownHeads(clock)
    add(database)
    first = numbers(heads, database)
    silenced = []
    for _ in range(3):
        clock.pass_by(AGAIN_MS // 3)
        add(database)
        silence(database)
        silenced.append(numbers(heads, database))
    clock.pass_by(EVERY_MS)
    after = numbers(heads, database)

    assert first == [1]
    assert silenced == [[], [], [4]]
    assert after == []


def test_a_process_that_wrote_its_share_does_not_write_it_again(database: Database, clock: Clock) -> None:
    heads, other = KnownHeads(clock), KnownHeads(clock)
    add(database)
    shares = [numbers(heads, database), numbers(other, database)]
    clock.pass_by(AGAIN_MS - EVERY_MS)
    let_pass(database, AGAIN_MS)
    again = [numbers(heads, database), numbers(other, database)]
    clock.pass_by(EVERY_MS)
    own = [numbers(heads, database), numbers(other, database)]

    assert shares == again == [[1], []]
    assert own == [[], [1]]


@pytest.mark.parametrize("added", [0, 1, 3], ids=["shorter", "as long", "longer"])
def test_a_head_that_its_chain_does_not_contain_any_more_is_written_at_once(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture, added: int
) -> None:
    heads = KnownHeads(clock)
    entry = add(database)
    numbers(heads, database)
    lost = add(database)
    silence(database)
    clock.pass_by(EVERY_MS)
    assert numbers(heads, database) == []
    tamper(database, *truncate_to(entry.number, entry.digest))
    for _ in range(added):
        add(database)
    silence(database)
    clock.pass_by(EVERY_MS)

    with caplog.at_level(logging.ERROR):
        due_heads = heads.due(database)
    clock.pass_by(EVERY_MS)
    after = heads.due(database)

    assert [(head.number, head.digest) for head in due_heads] == [(2, lost.digest)]
    assert "removed or changed" in caplog.text
    assert after == []


def test_the_head_of_a_tenant_that_is_gone_is_written_at_once(database: Database, clock: Clock) -> None:
    heads = KnownHeads(clock)
    entry = add(database)
    numbers(heads, database)
    tamper(database, delete(audit), delete(audit_heads))
    clock.pass_by(EVERY_MS)

    assert [head.digest for head in heads.due(database)] == [entry.digest]
