"""The chain of the audit log: whole on both databases, whatever writes beside it, and each change to it is found."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from sqlalchemy import delete, insert, text, update
from sqlalchemy.engine import make_url

from bus.identity.audit.anchors import Anchor
from bus.identity.audit.chain import entries, newest, tenants, verify
from bus.identity.audit.due_heads import take_due
from bus.identity.audit.entry import GENESIS, Action, AuditEntry, AuditOutcome, digest_of, entry_of
from bus.identity.audit.recording import acting_with, record, row_of
from config.clock import epoch_ms
from config.database.engine import Database, open_database
from config.database.tables import audit, audit_heads
from config.errors import CallboardError
from config.identity.principal import LOCAL, Principal
from tests.template import upgrade_by_copy

ANN = Principal(tenant="acme", id="ann")


@pytest.fixture
def database(each_database_url: str) -> Iterator[Database]:
    with closing(open_database(each_database_url)) as opened:
        upgrade_by_copy(opened)
        yield opened


def add(database: Database, number: int = 1, principal: Principal = ANN) -> AuditEntry:
    """Record this many stops, each in a transaction of its own, and return the last entry."""
    for i in range(number):
        with database.write() as connection:
            last = record(connection, principal, Action.RUN_CONTROLLED, "run", f"run_{i}", verb="cancel")
    return last


def anchor(entry: AuditEntry) -> Anchor:
    return Anchor(tenant=entry.tenant, number=entry.number, digest=entry.digest, place="up.log:1")


def test_each_tenant_has_a_chain_of_its_own(database: Database) -> None:
    add(database, 3)
    add(database, 2, LOCAL)

    assert tenants(database) == ["acme", "default"]
    assert [entry.number for entry in entries(database, "acme")] == [1, 2, 3]
    assert [entry.number for entry in newest(database, "acme", limit=1, before=3)] == [2]
    assert next(entries(database, "default")).previous == GENESIS
    assert verify(database, "acme").broken is None
    assert verify(database, "acme").entries == 3


def test_an_entry_exists_exactly_when_its_transaction_commits(database: Database) -> None:
    add(database)

    with suppress(KeyError), database.write() as connection:
        record(connection, ANN, Action.RUN_CONTROLLED, "run", "run_lost")
        raise KeyError

    assert add(database).number == 2
    assert "run_lost" not in [entry.target_id for entry in entries(database, "acme")]


def test_an_entry_has_who_with_what_to_what_and_no_secret(database: Database) -> None:
    token = acting_with.set(("key", "cbk_1"))
    try:
        with database.write() as connection:
            record(
                connection,
                ANN,
                Action.KEY_REVOKED,
                "key",
                "k_1\0",
                outcome=AuditOutcome.REFUSED,
                password="hunter2hunter2",
                url="redis://:verysecret@host/0",
                many=[1, True, 2**70],
                urls=["redis://:verysecret@host/0"],
                absent=None,
                long="x" * 1000,
            )
    finally:
        acting_with.reset(token)

    (entry,) = entries(database, "acme")
    assert (entry.principal, entry.credential, entry.credential_id) == ("ann", "key", "cbk_1")
    assert (entry.action, entry.outcome, entry.target, entry.target_id) == ("key.revoked", "refused", "key", "k_1")
    assert abs(entry.at_ms - epoch_ms()) < 60_000
    assert entry.facts["password"] == "[redacted]"
    assert entry.facts["url"] == "redis://:[redacted]@host/0"
    assert entry.facts["many"] == [1, True, str(2**70)]
    assert "verysecret" not in entry.line()
    assert len(entry.facts["long"]) == 200
    assert "absent" not in entry.facts


def test_another_program_can_verify_an_export(database: Database) -> None:
    add(database, 2, Principal(tenant="acme", id="Zoë 猫"))
    previous = GENESIS

    for line in (entry.line() for entry in entries(database, "acme")):
        fields = json.loads(line)
        digest = fields.pop("digest")
        whole = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(whole.encode()).hexdigest() == digest
        assert fields["previous"] == previous
        previous = digest


def test_writers_at_once_make_one_chain(database: Database) -> None:
    errors: list[Exception] = []

    def write(name: str) -> None:
        try:
            add(database, 10, Principal(tenant="acme", id=name))
        except CallboardError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(f"p{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    verification = verify(database, "acme")
    assert (verification.entries, verification.broken) == (80, None)


@pytest.mark.parametrize(
    ("column", "value"), [("facts_json", "no JSON"), ("facts_json", "[]"), ("facts_json", ""), ("at_ms", 10**17)]
)
def test_an_entry_with_values_that_no_entry_has_is_listed_and_exported(
    database: Database, column: str, value: str | int
) -> None:
    add(database, 3)
    tamper(database, update(audit).where(audit.c.number == 2).values({column: value}))

    exported = [json.loads(entry.line()) for entry in entries(database, "acme")]

    assert [entry["number"] for entry in exported] == [1, 2, 3]
    assert exported[1]["facts"]["damaged"][column] == str(value)
    assert exported[1]["target_id"] == "run_1"
    assert [entry.number for entry in newest(database, "acme", limit=3)] == [3, 2, 1]
    assert verify(database, "acme").broken == 2


# --- nothing changes or deletes an entry ----------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        update(audit).values(principal="eve"),
        delete(audit),
        text("DELETE FROM audit WHERE number = 2"),
        text("UPDATE audit SET facts_json = '{}' WHERE number = 2"),
    ],
    ids=str,
)
def test_the_database_refuses_a_change_of_an_entry(database: Database, statement) -> None:
    add(database, 2)

    with pytest.raises(Exception, match="append-only"), database.write() as connection:
        connection.execute(statement)

    assert verify(database, "acme").entries == 2


def test_the_database_refuses_to_replace_or_empty(database: Database) -> None:
    add(database, 2)
    columns = ", ".join(column.name for column in audit.columns)
    replace = f"INSERT OR REPLACE INTO audit ({columns}) SELECT {columns} FROM audit WHERE number = 2"
    statement = replace if database.is_sqlite else "TRUNCATE audit"

    with pytest.raises(Exception, match="append-only"), database.write() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.postgres
def test_a_role_that_may_only_add_entries_is_enough_on_postgres(postgres_url: str) -> None:
    with closing(open_database(postgres_url)) as owner:
        upgrade_by_copy(owner)
    with closing(open_database(postgres_url)) as owner, owner.write() as connection:
        for statement in (
            "DROP ROLE IF EXISTS adding",
            "CREATE ROLE adding LOGIN",
            "GRANT SELECT, INSERT ON audit TO adding",
            "GRANT SELECT, INSERT, UPDATE ON audit_heads TO adding",
            "GRANT SELECT, INSERT ON secrets TO adding",
        ):
            connection.exec_driver_sql(statement)

    url = make_url(postgres_url).set(username="adding").render_as_string(hide_password=False)
    with closing(open_database(url)) as database:
        add(database, 2)
        take_due(database)

        assert verify(database, "acme").entries == 2
        with pytest.raises(Exception, match="must be owner"), database.write() as connection:
            connection.exec_driver_sql("ALTER TABLE audit DISABLE TRIGGER ALL")


# --- tampering by an owner of the database ------------------------------------------------


def tamper(database: Database, *statements: object) -> None:
    """Run statements as an owner of the database can: without the triggers."""
    with database.write() as connection:
        if database.is_sqlite:
            for verb in ("update", "delete", "replace"):
                connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS audit_refuses_{verb}")
        else:
            connection.exec_driver_sql("ALTER TABLE audit DISABLE TRIGGER ALL")
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def test_a_head_that_was_moved_back_or_removed_is_found(database: Database) -> None:
    add(database, 5)
    third = next(entry for entry in entries(database, "acme") if entry.number == 3)
    tamper(database, update(audit_heads).values(number=3, digest=third.digest))
    moved = verify(database, "acme")
    tamper(database, delete(audit_heads))
    removed = verify(database, "acme")

    assert (moved.broken, removed.broken) == (3, 1)
    assert moved.problem.startswith("the table audit_heads has entry 3 as the last one")
    assert removed.problem.startswith("the table audit_heads has no entry")


def at(number: int):
    return audit.c.number == number


@pytest.mark.parametrize("column", [column.name for column in audit.columns if column.name not in ("tenant", "number")])
def test_an_edited_field_is_found(database: Database, column: str) -> None:
    add(database, 5)
    values = {"at_ms": 1, "facts_json": '{"verb":"x"}'}

    tamper(database, update(audit).where(at(3)).values({column: values.get(column, "f" * 15)}))

    verification = verify(database, "acme")
    assert verification.broken == 3
    assert verification.entries == 2
    assert verification.problem


def test_a_field_that_is_no_json_is_found(database: Database) -> None:
    add(database, 2)

    tamper(database, update(audit).where(at(2)).values(facts_json="{"))

    assert verify(database, "acme").broken == 2


def test_a_removed_entry_is_found(database: Database) -> None:
    add(database, 5)

    tamper(database, delete(audit).where(at(3)))

    verification = verify(database, "acme")
    assert (verification.broken, verification.entries) == (3, 2)
    assert "missing" in verification.problem


def test_reordered_entries_are_found(database: Database) -> None:
    add(database, 5)

    swaps = [update(audit).where(at(a)).values(number=b) for a, b in ((3, 99), (4, 3), (99, 4))]
    tamper(database, *swaps)

    assert verify(database, "acme").broken == 3


def truncate_to(number: int, digest: str) -> list[object]:
    shorter = update(audit_heads).values(number=number, digest=digest)
    return [delete(audit).where(audit.c.number > number), shorter]


def test_a_truncated_end_is_found_by_the_head_or_by_an_anchor(database: Database) -> None:
    entry = add(database, 3)
    last = add(database, 2)

    tamper(database, delete(audit).where(audit.c.number > 3))
    by_head = verify(database, "acme")
    tamper(database, *truncate_to(3, entry.digest))

    assert (by_head.broken, by_head.entries) == (4, 3)
    assert verify(database, "acme").broken is None, "nothing in the database shows it"
    verification = verify(database, "acme", [anchor(entry), anchor(last)])
    assert (verification.broken, verification.entries, verification.anchors) == (4, 3, 2)
    assert "up.log:1 has entry 5" in verification.problem


def test_an_emptied_log_is_found_by_an_anchor(database: Database) -> None:
    last = add(database, 2)

    tamper(database, delete(audit), delete(audit_heads))

    verification = verify(database, "acme", [anchor(last)])
    assert (verification.broken, verification.entries) == (1, 0)


def test_a_chain_that_was_built_anew_is_found_by_an_anchor(database: Database) -> None:
    last = add(database, 4)

    rebuilt = rebuild(list(entries(database, "acme")), lambda entry: {"principal": "eve"} if entry.number == 2 else {})
    tamper(database, delete(audit), *[insert(audit).values(row_of(entry)) for entry in rebuilt])
    tamper(database, update(audit_heads).values(digest=rebuilt[-1].digest))

    assert verify(database, "acme").broken is None, "it is a whole chain"
    verification = verify(database, "acme", [anchor(last)])
    assert (verification.broken, verification.entries) == (4, 3)


def test_an_anchor_of_the_changed_entry_does_not_hide_an_earlier_one(database: Database) -> None:
    last = add(database, 3)
    rebuilt = rebuild(list(entries(database, "acme")), lambda entry: {"principal": "eve"} if entry.number == 3 else {})
    tamper(database, delete(audit), *[insert(audit).values(row_of(entry)) for entry in rebuilt])
    tamper(database, update(audit_heads).values(digest=rebuilt[-1].digest))
    written_again = replace(anchor(rebuilt[-1]), place="up.log:2")

    for anchors in ([anchor(last), written_again], [written_again, anchor(last)]):
        verification = verify(database, "acme", anchors)

        assert (verification.broken, verification.entries) == (3, 2)
        assert "not the one that up.log:1 has" in verification.problem


def rebuild(whole: list[AuditEntry], change: Callable[[AuditEntry], dict[str, str]]) -> list[AuditEntry]:
    """Return the chain with some fields changed and every digest computed anew."""
    built: list[AuditEntry] = []
    for entry in whole:
        row = row_of(entry) | change(entry) | {"previous": built[-1].digest if built else GENESIS}
        fields = {name: value for name, value in row.items() if name not in ("digest", "facts_json")}
        fresh = AuditEntry(**fields, facts=entry.facts)
        built.append(AuditEntry(**fields, facts=entry.facts, digest=digest_of(fresh)))
    return built


def test_a_head_that_was_changed_alone_is_found(database: Database) -> None:
    add(database, 2)

    tamper(database, update(audit_heads).values(digest="f" * 64))

    assert verify(database, "acme").broken == 2


def test_a_row_is_read_as_it_was_recorded(database: Database) -> None:
    recorded = add(database)

    with database.read() as connection:
        assert entry_of(connection.execute(audit.select()).one()) == recorded
