"""Internal events are logged once, never changed, and found with the runs of their correlation id."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from bus.identity.errors import FORBIDDEN
from bus.journal import paging
from bus.journal.clients import IdempotencyKey
from bus.journal.errors import IDEMPOTENCY_CONFLICT
from bus.journal.retention.retention import Swept, sweep
from bus.journal.storage.internal_events import InternalEvents, NewInternalEvent
from config.database.tables import idempotency_keys, internal_events, runs
from config.identity.principal import Principal, Role, Verb
from config.settings import Settings
from config.settings.limits import Tenants, TenantSettings
from tests.bus.journal_harness import JournalHarness
from tests.bus.racing import at_once
from tests.raising import raises

ANA, BEN = Principal(tenant="acme", id="ana"), Principal(tenant="acme", id="ben")
SCOPED = frozenset({"assistant"})
DAY_MS = 24 * 3600 * 1000


def new(correlation_id: str = "c", **payload: Any) -> NewInternalEvent:
    return NewInternalEvent(correlation_id=correlation_id, event_type="message", source="discord", payload=payload)


def log(harness: JournalHarness, principal: Principal = ANA, event: NewInternalEvent | None = None) -> str:
    return InternalEvents(harness.database).log(principal, event or new())[0]


def ids(harness: JournalHarness, principal: Principal, correlation_id: str = "c", **page: Any) -> list[str]:
    page = {"limit": 50, **page}
    return [entry["id"] for entry in InternalEvents(harness.database).correlated(principal, correlation_id, **page)[0]]


def start(harness: JournalHarness, principal: Principal = ANA, correlation_id: Any = "c", **fields: Any) -> str:
    return harness.accept(principal=principal, metadata={"correlation_id": correlation_id}, **fields).run_id


def make_old(harness: JournalHarness, days: float) -> None:
    """Let the events look older: as the owner of the database, without the trigger."""
    is_sqlite = harness.database.is_sqlite
    with harness.database.write() as connection:
        trigger = "internal_events_refuse_update"
        if is_sqlite:
            value = connection.exec_driver_sql(f"SELECT sql FROM sqlite_master WHERE name = '{trigger}'").scalar_one()
            connection.exec_driver_sql(f"DROP TRIGGER {trigger}")
        else:
            connection.exec_driver_sql(f"ALTER TABLE internal_events DISABLE TRIGGER {trigger}")
        connection.execute(update(internal_events).values(created_ms=internal_events.c.created_ms - int(days * DAY_MS)))
        connection.exec_driver_sql(value if is_sqlite else f"ALTER TABLE internal_events ENABLE TRIGGER {trigger}")


# --- who sees what


@pytest.mark.parametrize(
    ("principal", "sees"),
    [
        (ANA, True),
        (BEN, False),
        (Principal(tenant="zeta", id="ana", roles=frozenset(Role)), False),
        *((Principal(tenant="acme", id="a", roles=frozenset({role})), True) for role in Role),
        (Principal(tenant="acme", id="ana", agents=SCOPED), True),
        (Principal(tenant="acme", id="ben", agents=SCOPED, roles=frozenset(Role)), False),
    ],
    ids=[
        "own",
        "another's",
        "another tenant's",
        *Role,
        "own, by a scoped credential",
        "another's, by a scoped credential",
    ],
)
def test_its_own_and_with_a_role_those_of_the_tenant(harness: JournalHarness, principal: Principal, sees: bool) -> None:
    event_id = log(harness)

    assert ids(harness, principal) == ([event_id] if sees else [])


def test_a_correlation_id_with_a_secret_is_not_kept_beside_the_run(harness: JournalHarness) -> None:
    secret = "sk-live-0123456789abcdef0123456789"

    correlation_ids = [
        harness.run_row(start(harness, thread_id=correlation_id, correlation_id=correlation_id)).correlation_id
        for correlation_id in ("c-1", "d")
    ]
    refused = start(harness, thread_id="e", correlation_id=secret)

    assert correlation_ids == ["c-1", "d"]
    assert harness.run_row(refused).correlation_id is None


def test_runs_are_found_by_who_sees_them(harness: JournalHarness) -> None:
    shared, private = start(harness, thread_id="a"), start(harness, thread_id="b", is_private=True)
    start(harness, thread_id="c", correlation_id="another")
    start(harness, thread_id="d", correlation_id=["c"])
    start(harness, thread_id="e", correlation_id="c" * 129)

    viewer = Principal(tenant="acme", id="a", roles=frozenset({Role.VIEWER}))
    other_agent = Principal(tenant="acme", id="ana", agents=frozenset({"other"}))

    assert set(ids(harness, ANA)) == {private, shared}  # those of one millisecond have no order
    assert ids(harness, viewer) == [shared]
    assert ids(harness, BEN) == ids(harness, other_agent) == []


def test_a_secret_in_an_event_is_not_kept(harness: JournalHarness) -> None:
    log(harness, ANA, new(text="use sk-proj-Ab12Cd34Ef56Gh78Ij90", password="hunter2222", room="A 12"))

    (entry,) = InternalEvents(harness.database).correlated(ANA, "c", limit=5)[0]
    assert entry["payload"] == {"text": "use [redacted]", "password": "[redacted]", "room": "A 12"}


def test_a_credential_that_starts_no_runs_logs_nothing(harness: JournalHarness) -> None:
    with raises(FORBIDDEN, match="log events; use a credential whose scope has the verb 'start'"):
        log(harness, Principal(tenant="acme", id="ana", verbs=frozenset({Verb.SEE})))

    assert ids(harness, ANA) == []


# --- pages


def test_pages_join_without_gap_or_repetition(harness: JournalHarness) -> None:
    entry_ids = []
    for number in range(4):
        entry_ids += [log(harness), start(harness, thread_id=f"t{number}")]
    entries: list[dict[str, Any]] = []
    store, cursor = InternalEvents(harness.database), dict[str, Any]()
    while True:
        page, _ = store.correlated(ANA, "c", limit=3, **cursor)
        if not page:
            break
        entries += page
        cursor = {"before_ms": _ms(harness, page[-1]), "before_id": page[-1]["id"]}

    assert sorted(entry["id"] for entry in entries) == sorted(entry_ids)
    assert [entry["created_at"] for entry in entries] == sorted(
        (entry["created_at"] for entry in entries), reverse=True
    )


def _ms(harness: JournalHarness, entry: dict[str, Any]) -> int:
    table = internal_events if entry["kind"] == "event" else runs
    return int(harness.rows(select(table.c.created_ms).where(table.c.id == entry["id"]))[0][0])


def test_a_page_that_has_no_room_for_an_event_has_no_older_run(
    harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 10)
    run_id = start(harness)
    with harness.database.write() as connection:
        connection.execute(update(runs).values(created_ms=1))
    log(harness, event=new(text="x" * 20))
    log(harness, event=new(text="x" * 20))
    store = InternalEvents(harness.database)

    page, is_cut = store.correlated(ANA, "c", limit=50)
    rest, is_cut_again = store.correlated(
        ANA, "c", limit=50, before_ms=_ms(harness, page[-1]), before_id=page[-1]["id"]
    )

    assert (is_cut, [entry["kind"] for entry in page]) == (True, ["event"])
    assert (is_cut_again, [entry["kind"] for entry in rest]) == (True, ["event"])
    assert ids(harness, ANA, before_ms=_ms(harness, rest[-1]), before_id=rest[-1]["id"]) == [run_id]


# --- logged once, and never changed


def key(digest: str = "d" * 64) -> IdempotencyKey:
    return IdempotencyKey(key="k", method="POST", path="/events", body_digest=digest)


def test_a_repeated_request_logs_nothing_more(harness: JournalHarness) -> None:
    store = InternalEvents(harness.database)

    logged = at_once(3, lambda _: store.log(ANA, new(), key()))

    assert len(set(logged)) == 1
    assert ids(harness, ANA) == [logged[0][0]]
    with raises(IDEMPOTENCY_CONFLICT):
        store.log(ANA, new("other"), key("e" * 64))
    assert store.log(BEN, new(), key())[0] != logged[0][0]


@pytest.mark.parametrize("statement", ["UPDATE internal_events SET source = 'x'", "REPLACE"])
def test_the_database_refuses_a_change(harness: JournalHarness, statement: str) -> None:
    log(harness)
    if statement == "REPLACE":
        every = "internal_events SELECT * FROM internal_events WHERE true"
        on_postgres = f"INSERT INTO {every} ON CONFLICT (id) DO UPDATE SET source = 'x'"
        statement = f"INSERT OR REPLACE INTO {every}" if harness.database.is_sqlite else on_postgres

    with pytest.raises(Exception, match="immutable"), harness.database.write() as connection:
        connection.execute(text(statement))


def test_they_are_kept_as_long_as_the_tenants_runs(harness: JournalHarness, tmp_path: Any) -> None:
    store = InternalEvents(harness.database)
    store.log(ANA, new(), key())
    event_id = log(harness, Principal(tenant="ever", id="ana"))
    make_old(harness, days=8)
    fresh = log(harness)
    bare = Settings(_env_file=None, state_dir=tmp_path, retain_runs_days=7)  # type: ignore[call-arg]  # pydantic's own
    settings = bare.model_copy(update={"tenants": Tenants(ever=TenantSettings(retain_runs_days=0))})

    assert sweep(harness.database, bare.model_copy(update={"retain_runs_days": 0})) == Swept()
    assert sweep(harness.database, settings, pause=lambda _: None) == Swept(internal_events=1)

    assert {row.id for row in harness.rows(select(internal_events.c.id))} == {event_id, fresh}
    assert harness.rows(select(func.count()).select_from(idempotency_keys))[0][0] == 0
