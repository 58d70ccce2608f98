"""Which runs a list and a count have: filters, orders with exact places, groups, and the indexes that answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text

from bus.journal.paging import ORDERS
from bus.journal.queries.run_filters import DAY_MS, MOST_AGENTS, MOST_GROUPS
from bus.journal.queries.runs import Runs
from config.database.engine import Database
from config.identity.principal import Principal, Role
from tests.bus.crowd import Crowd
from tests.bus.journal_harness import JournalHarness, cancel

ME = Principal()
FAILED: dict[str, Any] = {"status": "failed", "error_code": "model_timeout", "ended_ago_ms": 1000}


@pytest.fixture
def crowd(harness: JournalHarness) -> Crowd:
    like = harness.accept(principal=Principal(tenant="template")).run_id
    return Crowd(harness.database, like, tenant=ME.tenant)


def names(harness: JournalHarness, **filters: Any) -> list[str]:
    """Return the ids of the runs in the list, the newest first."""
    return [run["run_id"] for run in Runs(harness.database).page(ME, default_queue="runs", **filters)[0]]


def walked(harness: JournalHarness, limit: int, principal: Principal = ME, **filters: Any) -> list[str]:
    """Return the ids of the runs on all pages of the list."""
    run_ids: list[str] = []
    before = None
    while True:
        rows, before = Runs(harness.database).page(principal, limit=limit, before=before, **filters)
        run_ids += [row["run_id"] for row in rows]
        if before is None:
            return run_ids


@pytest.mark.parametrize(
    ("filters", "run_ids"),
    [
        ({"queue": "gpu"}, ["gpu-1"]),
        ({"queue": "runs"}, ["refund-1", "tool-1", "old-1"]),
        ({"kind": "tool"}, ["tool-1"]),
        ({"model": "openai/x"}, ["gpu-1"]),
        ({"text": "REFUND orders"}, ["refund-1"]),
        ({"text": "100%"}, ["tool-1"]),
        ({"text": "no such words"}, []),
        ({"since_ms": -60_000}, ["gpu-1", "refund-1", "tool-1"]),
        ({"until_ms": -60_000}, ["old-1"]),
        ({"since_ms": -DAY_MS, "until_ms": -60_000}, ["old-1"]),
        ({"code": "model_timeout"}, []),
    ],
    ids=str,
)
def test_a_filter_selects_runs(
    harness: JournalHarness, crowd: Crowd, filters: dict[str, Any], run_ids: list[str]
) -> None:
    crowd.add("gpu", 1, queue="gpu", model="openai/x")
    crowd.add("refund", 1, title="Orders 7 and 8: please refund both")
    crowd.add("tool", 1, kind="tool", title="at 100% of it")
    crowd.add("old", 1, title="old", created_ago_ms=3_600_000)

    assert sorted(names(harness, **filters)) == sorted(run_ids)


def test_the_beginning_and_the_end_of_an_id_find_its_run(harness: JournalHarness) -> None:
    run_id, *others = (harness.accept(thread_id=f"talk-{number}").run_id for number in range(3))

    assert names(harness, text=run_id) == names(harness, text=run_id[-6:].upper()) == [run_id]
    assert run_id in names(harness, text=run_id[:26])
    assert sorted(names(harness, text="run_")) == sorted([run_id, *others])
    assert names(harness, text="run_0zzz") == []


def test_a_failure_is_filtered_by_its_end(harness: JournalHarness, crowd: Crowd) -> None:
    day: dict[str, Any] = {"since_ms": -DAY_MS}
    crowd.add("lately", 1, **FAILED, created_ago_ms=2 * DAY_MS)
    crowd.add("before", 1, **FAILED | {"ended_ago_ms": DAY_MS + 1000})
    crowd.add("other", 1, **FAILED | {"error_code": "tool_failed"})
    crowd.add("well", 1, status="succeeded", ended_ago_ms=1000)

    assert names(harness, code="model_timeout", **day) == ["lately-1"]
    assert sorted(names(harness, code="any", **day)) == ["lately-1", "other-1"]
    assert sorted(names(harness, code="model_timeout")) == ["before-1", "lately-1"]


# --- orders


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("order", ORDERS)
def test_the_pages_of_each_order_have_each_run_once(
    harness: JournalHarness, crowd: Crowd, order: str, limit: int
) -> None:
    for number in range(7):  # with equal values, so that the id decides
        ended: dict[str, Any] = {
            "status": "succeeded",
            "ended_ago_ms": 1,
            "duration_ms": number // 2,
            "cost_usd": number // 2 / 7,
        }
        crowd.add(f"run-{number}", 1, **ended)

    run_ids = walked(harness, limit, order=order)

    forward = [f"run-{number}-1" for number in range(7)]
    assert run_ids == (forward if order == "oldest" else forward[::-1])


def test_orders_by_length_and_cost_have_ended_runs_with_a_known_one(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("open", 2, status="running")
    crowd.add("known", 1, status="succeeded", ended_ago_ms=1, duration_ms=5, cost_usd=0.1)
    crowd.add("unknown", 1, status="succeeded", ended_ago_ms=1)

    assert names(harness, order="longest") == names(harness, order="dearest") == ["known-1"]
    assert names(harness, order="longest", status="open") == ["open-2", "open-1"]


def test_a_run_that_ends_has_its_length(harness: JournalHarness) -> None:
    owner = harness.own()
    harness.do(owner.end())
    stopped = harness.accept(thread_id="other").run_id
    cancel(harness.database, ME, stopped, "ann")

    assert set(names(harness, order="longest")) == {owner.lease.run_id, stopped}
    for run_id in (owner.lease.run_id, stopped):
        row = harness.run_row(run_id)
        assert abs(row.duration_ms - (row.ended_ms - row.created_ms)) <= 1000


# --- counts


def test_counts_are_exact_and_those_of_the_list(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("running", 3, status="running", queue="gpu", agent_id="writer")
    crowd.add("queued", 2, status="queued", principal="ann")
    crowd.add("hidden", 4, status="queued", principal="ann", private=True)
    viewer = Principal(id="vera", roles=frozenset({Role.VIEWER}))
    runs = Runs(harness.database)

    by_status = runs.counts(viewer, "status")

    assert by_status == {
        "by": "status",
        "total": 5,
        "groups": [{"value": "running", "count": 3}, {"value": "queued", "count": 2}],
    }
    by_queue = runs.counts(viewer, "queue", default_queue="runs")["groups"]
    assert by_queue == [{"value": "gpu", "count": 3}, {"value": "runs", "count": 2}]
    assert runs.counts(viewer, "agent", agent="writer")["total"] == len(walked(harness, 2, viewer, agent="writer")) == 3
    assert runs.counts(viewer, "owner", status="queued")["groups"] == [{"value": "ann", "count": 2}]
    assert runs.counts(Principal(tenant="other"), "agent") == {"by": "agent", "total": 0, "groups": []}


def test_groups_beyond_the_largest_are_one_rest(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("many", 2, agent_id="many")
    for number in range(MOST_GROUPS + 4):
        crowd.add(f"one-{number}", 1, agent_id=f"agent-{number:03}")

    counted = Runs(harness.database).counts(ME, "agent")

    assert counted["total"] == MOST_GROUPS + 6
    assert counted["groups"][0] == {"value": "many", "count": 2}
    assert len(counted["groups"]) == MOST_GROUPS
    assert counted["rest"] == {"groups": 5, "count": 5}


def test_a_cause_has_its_latest_run_and_its_agents(harness: JournalHarness, crowd: Crowd) -> None:
    for number in range(MOST_AGENTS + 1):
        crowd.add(f"a{number}", 1, **FAILED | {"agent_id": f"agent-{number:02}", "ended_ago_ms": 1000 + number})
    crowd.add("more", 2, **FAILED | {"agent_id": "agent-07", "ended_ago_ms": 5000})
    crowd.add("old", 1, **FAILED | {"ended_ago_ms": DAY_MS + 1000})
    crowd.add("tool", 1, **FAILED | {"error_code": "tool_failed", "ended_ago_ms": 3000})

    counted = Runs(harness.database).counts(ME, "code")

    timeout, tool = counted["groups"]
    assert (counted["total"], timeout["count"], timeout["latest_run_id"]) == (MOST_AGENTS + 4, MOST_AGENTS + 3, "a0-1")
    assert timeout["agents"][:2] == [{"agent": "agent-07", "count": 3}, {"agent": "agent-00", "count": 1}]
    assert len(timeout["agents"]) == MOST_AGENTS
    assert (tool["value"], tool["agents"]) == ("tool_failed", [{"agent": "assistant", "count": 1}])
    assert Runs(harness.database).counts(ME, "code", since_ms=0)["total"] == MOST_AGENTS + 5


# --- indexes


@contextmanager
def plans(database: Database) -> Iterator[list[str]]:
    """Yield a list that has the plans of the queries of runs in the block."""
    statements: list[tuple[str, Any]] = []
    lines: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if " runs" in statement:
            statements.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield lines
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    with database.write() as connection:
        if not database.is_sqlite:  # of a small table it reads all rows in any case, and sorts them
            for other in ("seqscan", "bitmapscan", "sort"):
                connection.execute(text(f"SET LOCAL enable_{other} = off"))
        for statement, parameters in statements:
            lines += [str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", parameters)]


@pytest.mark.parametrize(
    ("options", "index"),
    [
        ({}, "ix_runs_tenant_principal_created_ms_id"),
        ({"order": "oldest"}, "ix_runs_tenant_principal_created_ms_id"),
        ({"since_ms": -1000}, "ix_runs_tenant_principal_created_ms_id"),
        ({"order": "longest"}, "ix_runs_longest"),
        ({"order": "dearest"}, "ix_runs_dearest"),
        ({"code": "model_timeout", "since_ms": -1000}, "ix_runs_failed"),
        ({"status": "open"}, "ix_runs_in_order"),
    ],
    ids=str,
)
def test_an_index_has_the_runs_of_a_list(harness: JournalHarness, options: dict[str, Any], index: str) -> None:
    principal = ME if index.startswith("ix_runs_tenant_p") else Principal(id="vera", roles=frozenset({Role.ADMIN}))
    with plans(harness.database) as lines:
        Runs(harness.database).page(principal, **options)

    plan = "\n".join(lines)
    # Of a table without rows Postgres takes any index.
    assert (index if harness.database.is_sqlite else " using ix_runs_") in plan, plan
    if index not in ("ix_runs_failed", "ix_runs_in_order"):  # of which there are few, so that they are sorted
        assert "TEMP B-TREE" not in plan, plan
