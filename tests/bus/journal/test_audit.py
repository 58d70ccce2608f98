"""Every door of the journal writes the audit log in the transaction of its change, and nothing removes an entry."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bus.identity.audit.chain import entries, verify
from bus.identity.audit.entry import AuditEntry
from bus.identity.errors import FORBIDDEN
from bus.journal.acceptance import accept as accepting
from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.errors import RunUnknown
from bus.journal.queries.runs import Runs
from bus.journal.records import definition_store as pinned
from bus.journal.retention.removal import remove_runs, remove_threads
from bus.journal.retention.retention import sweep
from config.database.tables import audit, metadata
from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.bus.ended_runs import age, ended
from tests.bus.journal_harness import JournalHarness, cancel
from tests.bus.questions import asks, question
from tests.raising import raises

ME = Principal()
OPERATOR = Principal(id="ann", roles=frozenset({Role.OPERATOR}))
VIEWER = Principal(id="vic", roles=frozenset({Role.VIEWER}))


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> None:
    accepting._recorded.clear()
    pinned._known.clear()


def log(harness: JournalHarness, tenant: str = "default") -> list[AuditEntry]:
    """Return the log's entries without those about agents' definitions, which the first run makes."""
    verification = verify(harness.database, tenant)
    assert verification.broken is None, verification.problem
    return [entry for entry in entries(harness.database, tenant) if entry.action != "agent.configured"]


def test_a_stop_is_recorded_once_with_who_asked(harness: JournalHarness) -> None:
    queued, owned = harness.accept().run_id, harness.own(harness.accept(thread_id="b").run_id).lease.run_id

    for run_id in (queued, queued, owned, owned):
        cancel(harness.database, OPERATOR, run_id, "terminal")

    assert [(entry.action, entry.principal, entry.target_id) for entry in log(harness)] == [
        ("run.controlled", "ann", queued),
        ("run.controlled", "ann", owned),
    ]
    assert log(harness)[0].facts == {"verb": "cancel", "agent": "assistant", "by": "terminal"}


def test_what_was_refused_changes_no_chain(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    with raises(FORBIDDEN):
        cancel(harness.database, VIEWER, run_id, "vic")
    with pytest.raises(RunUnknown):
        cancel(harness.database, Principal(tenant="other"), run_id, "eve")

    assert log(harness) == log(harness, "other") == []


def test_a_decision_is_recorded_with_digests_and_without_what_was_said(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    asks(harness.database, run_id, question("q1"))
    (approval,) = Runs(harness.database).get(ME, run_id)["approvals"]
    answer = Decision(decision="take_as_done", result={"refund": "secret 7"}, message="the bank says so")

    decide(harness.database, ME, run_id, approval["approval_id"], answer, by="local")

    (entry,) = log(harness)
    assert (entry.action, entry.target, entry.target_id) == ("approval.decided", "approval", approval["approval_id"])
    assert (entry.facts["run"], entry.facts["decision"]) == (run_id, "take_as_done")
    assert "secret" not in entry.line()
    assert "bank" not in entry.line()


def test_removals_are_recorded_and_leave_the_log_alone(harness: JournalHarness) -> None:
    first = ended(harness).lease.run_id
    ended(harness)

    remove_runs(harness.database, ME, [first])
    remove_threads(harness.database, OPERATOR, ["talk"], owner="local")

    assert [(entry.action, entry.target_id, entry.facts) for entry in log(harness)] == [
        ("run.removed", first, {}),
        ("thread.removed", "talk", {"owner": "local"}),
    ]


def test_retention_is_recorded_as_a_count_and_leaves_the_log_alone(harness: JournalHarness, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, state_dir=tmp_path, retain_runs_days=7)  # type: ignore[call-arg]  # pydantic's own
    for tenant in ("default", "default", "acme"):
        age(harness, ended(harness, principal=Principal(tenant=tenant)).lease.run_id)
    before = {tenant: list(entries(harness.database, tenant)) for tenant in ("default", "acme")}

    swept = sweep(harness.database, settings, pause=lambda _: None)

    assert swept.runs == 3
    for tenant, count in (("default", 2), ("acme", 1)):
        *others, last = list(entries(harness.database, tenant))
        assert others == before[tenant]
        assert (last.action, last.principal, last.target, last.facts["count"]) == ("retention", "", "run", count)
        assert verify(harness.database, tenant).broken is None


def test_an_agents_definition_is_recorded_when_a_tenants_runs_begin_to_use_it(harness: JournalHarness) -> None:
    for digest in ("a", "a", "b", "a"):
        harness.accept(definition_digest=digest * 64)
        accepting._recorded.clear()  # as another process would
    harness.accept(definition_digest="a" * 64, principal=OPERATOR)
    harness.accept(definition_digest="a" * 64, principal=Principal(tenant="acme", id="eve"))
    harness.accept(input={}, agent_id="order", principal=Principal(tenant="flows"))

    records = [entry for entry in entries(harness.database, "default") if entry.action == "agent.configured"]
    facts = [(entry.target_id, entry.facts["state"]["definition"][0]) for entry in records]
    assert facts == [("assistant", "a"), ("assistant", "b"), ("assistant", "a")]
    assert [entry.facts["changed"] for entry in records] == [["definition"]] * 3
    assert [entry.principal for entry in entries(harness.database, "acme")] == ["eve"]
    assert {entry.target for entry in records} == {"agent"}
    assert [(entry.target, entry.target_id) for entry in entries(harness.database, "flows")] == [("workflow", "order")]


def test_nothing_refers_to_the_log_and_no_run_takes_it_along() -> None:
    assert not audit.foreign_keys
    assert "run_id" not in audit.c, "bus/journal/retention/removal.py empties tables with that column"
    assert not [key for table in metadata.tables.values() for key in table.foreign_keys if key.column.table is audit]


@pytest.mark.parity
def test_stops_at_once_of_runs_that_hold_their_rows_make_one_chain(harness: JournalHarness) -> None:
    run_ids = [harness.accept(thread_id=f"t{i}").run_id for i in range(40)]

    def stop(mine: list[str]) -> None:
        for run_id in mine:
            cancel(harness.database, ME, run_id, "local")

    threads = [threading.Thread(target=stop, args=(run_ids[i::8],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(entry.target_id for entry in log(harness)) == sorted(run_ids)


def test_an_entry_is_as_large_as_its_ids(harness: JournalHarness) -> None:
    cancel(harness.database, ME, harness.accept("x" * 100_000).run_id, "local")

    (entry,) = log(harness)
    assert len(entry.line()) < 1000
