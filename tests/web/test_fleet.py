"""What the page of a fleet reads: workers, queues, the last day's numbers, the policy, and how calls were decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from sqlalchemy import insert, update

from agents.runner import Runner
from bus.journal.approvals import Decision
from bus.journal.stores import WorkerRow
from bus.journal.tailing import ObserverCursors, Series, add_values, values_of
from config.clock import epoch_ms, stamp
from config.database.tables import approvals, failed_deliveries, runs, workers
from config.identity.principal import Principal, Role
from config.settings import Settings
from observers.metrics.names import quantile
from tests.bus.questions import asks, question, question_before
from tests.credentials import key_of
from tests.web.conftest import accept, process_of, serve_queues
from web.app import create_app

VIEWER = Principal(id="vera", roles=frozenset({Role.VIEWER}))
STRANGER = Principal(tenant="acme", id="ben", roles=frozenset({Role.ADMIN}))


@pytest.fixture
def guarded(runner: Runner, settings: Settings) -> Iterator[FlaskClient]:
    """A client of a process that requires credentials."""
    app = create_app(settings.model_copy(update={"auth": "required"}), runner)
    yield app.test_client()
    process_of(app).close()


def as_(settings: Settings, principal: Principal) -> dict[str, str]:
    return {"Authorization": f"Bearer {key_of(settings, principal)}"}


def get(client: FlaskClient, path: str, headers: dict[str, str] | None = None) -> Any:
    return client.get(path, headers=headers or {}).json


def test_workers_are_listed_with_their_state(client: FlaskClient, journal: Any) -> None:
    facts: dict[str, Any] = {"host": "oslo-1", "pid": 7, "pool": "threads", "slots": 20, "queue": "runs"}
    states: dict[str, dict[str, Any]] = {
        "own_a": {"busy": 3, "cpu_share": 0.5},
        "own_b": {"draining": True},
        "own_c": {},
    }
    for name, fields in states.items():
        journal.stores.workers.renew(WorkerRow(id=name, **facts | {"busy": 0} | fields))
    with journal.database.write() as connection:
        connection.execute(update(workers).where(workers.c.id == "own_c").values(seen_ms=workers.c.seen_ms - 60_000))

    rows = {row["worker_id"]: row for row in get(client, "/v1/workers")["workers"]}

    assert {name: row["state"] for name, row in rows.items()} == {
        "own_a": "alive",
        "own_b": "draining",
        "own_c": "lost",
    }
    assert rows["own_c"]["seen_s"] >= 60
    assert (rows["own_a"]["busy"], rows["own_a"]["cpu_share"], rows["own_a"]["queues"]) == (3, 0.5, ["runs"])
    assert rows["own_a"]["host"] == "oslo-1"


def test_machines_are_for_the_deployments_administrators(
    guarded: FlaskClient, journal: Any, settings: Settings
) -> None:
    serve_queues(journal, "secret-queue", slots=4, busy=1)

    for principal in (VIEWER, STRANGER):
        (row,) = get(guarded, "/v1/workers", as_(settings, principal))["workers"]
        assert row.keys() == {"worker_id", "state", "pool", "slots", "busy", "started_at", "seen_at", "seen_s"}
        assert row["worker_id"] != "own_1"
        assert "secret-queue" not in guarded.get("/v1/queues", headers=as_(settings, principal)).text


def test_a_queue_says_who_waits_and_who_serves_it(client: FlaskClient, runner: Runner, journal: Any) -> None:
    serve_queues(journal, "runs", slots=4, busy=1)
    accept(runner)
    gpu = [accept(runner, thread_id=f"gpu-{number}") for number in range(3)]
    with journal.database.write() as connection:
        waiting = update(runs).where(runs.c.id.in_(gpu))
        connection.execute(waiting.values(queue="gpu", created_ms=runs.c.created_ms - 60_000))
        connection.execute(update(runs).where(runs.c.id == gpu[0]).values(tenant="acme"))

    of_gpu, default = get(client, "/v1/queues")["queues"]

    assert (of_gpu["queue"], of_gpu["queued"], of_gpu["workers"]) == ("gpu", 3, 0)
    assert of_gpu["tenants"] == {"default": 2, "acme": 1}
    assert of_gpu["oldest_s"] >= 60
    assert "./callboard worker --queues gpu" in of_gpu["detail"]
    assert (default["queued"], default["workers"], default["slots"], default["busy"]) == (1, 1, 4, 1)
    assert default["worker_ids"] == ["own_1"]
    assert "detail" not in default


def test_others_count_the_runs_that_they_see_by_owner(guarded: FlaskClient, runner: Runner, settings: Settings) -> None:
    accept(runner, principal=Principal(id="ana"))
    accept(runner, principal=Principal(id="ben"))

    def owners(principal: Principal) -> Any:
        return get(guarded, "/v1/queues", as_(settings, principal))["queues"][0].get("owners")

    assert owners(VIEWER) == {"ana": 1, "ben": 1}
    assert owners(Principal(id="ana")) == {"ana": 1}
    assert owners(STRANGER) is None


# --- numbers of a day


def test_what_the_observer_counted_is_in_rows(client: FlaskClient, journal: Any) -> None:
    now_ms = epoch_ms()
    ended = ("kind", "agent"), ("agent", "writer"), ("tenant", "acme")
    counts = {
        Series("runs_ended", (*ended, ("status", "succeeded"))): 3.0,
        Series("runs_started", ended): 7.0,
        Series("runs_ended", (*ended, ("status", "failed"))): 1.0,
        Series("tokens", (("agent", "writer"), ("direction", "output"))): 20.0,
        Series("cost_usd", (("agent", "writer"), ("tenant", "acme"))): 0.25,
        Series("activity_executions", (("type", "tool"), ("name", "clock"), ("outcome", "done"))): 2.0,
        Series("activity_executions", (("type", "model"), ("name", "m"), ("outcome", "done"))): 9.0,
        Series("time_to_first_token_seconds:0.5", (("model", "m"),)): 4.0,
        Series("time_to_first_token_seconds:sum", (("model", "m"),)): 1.6,
    }
    with journal.database.write() as connection:
        add_values(connection, {(series, now_ms): count for series, count in counts.items()})
        add_values(connection, {(next(iter(counts)), now_ms - 7_200_000): 5.0})

    answer = get(client, "/v1/metrics?since=1h")

    (row,) = answer["rows"]
    assert (row["started"], row["runs"]) == (7, {"succeeded": 3, "failed": 1})
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (0, 20, 0.25)
    assert row["tool_calls"] == {"done": 2}
    assert 0.25 < row["first_token_p50_s"] < row["first_token_p95_s"] <= 0.5
    assert answer["first_token_p95_s"] == row["first_token_p95_s"]
    assert [sum(row["runs"].values()) for row in get(client, "/v1/metrics")["rows"]] == [5, 4]


def test_counts_are_kept_by_the_minute_and_summed_by_longer_steps(client: FlaskClient, journal: Any) -> None:
    hour_ms = 3_600_000
    begin_ms = epoch_ms() // hour_ms * hour_ms - 3 * hour_ms
    with journal.database.write() as connection:
        for agent, at_ms, count in (("a", 30_000, 1.0), ("b", 45_000, 2.0), ("a", 90_000, 4.0), ("a", 1_000_000, 8.0)):
            series = Series("runs_started", (("kind", "agent"), ("agent", agent), ("tenant", "acme")))
            add_values(connection, {(series, begin_ms + at_ms): count})
        slots = [(series.labels, value) for series, _, value in values_of(connection, since_ms=1)]

    started = {step: [row["started"] for row in metrics_of(client, step)] for step in ("", "1m", "5m", "15m", "1h")}

    assert slots == [((), 3.0), ((), 4.0), ((), 8.0)]
    assert started == {"": [3, 4, 8], "1m": [3, 4, 8], "5m": [7, 8], "15m": [7, 8], "1h": [15]}
    assert client.get("/v1/metrics?step=2m").status_code == 400
    since = quote(stamp(begin_ms + 60_000 + 1))
    assert [row["started"] for row in metrics_of(client, f"1h&since={since}")] == [15], "the first row is whole"
    assert [row["started"] for row in metrics_of(client, f"1m&since={since}")] == [4, 8]


def metrics_of(client: FlaskClient, step: str) -> list[dict[str, Any]]:
    return get(client, "/v1/metrics" + (f"?step={step}" if step else ""))["rows"]


def test_a_run_names_its_worker_as_the_list_of_workers_does(
    guarded: FlaskClient, runner: Runner, settings: Settings
) -> None:
    journal = runner.journal
    serve_queues(journal, "runs")
    run_id = accept(runner)
    with journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(owner="own_1", status="running"))

    ids = {}
    for principal in (Principal(id="ada", roles=frozenset({Role.ADMIN})), VIEWER):
        headers = as_(settings, principal)
        (row,) = get(guarded, "/v1/runs", headers)["runs"]
        (worker,) = get(guarded, "/v1/workers", headers)["workers"]
        assert row["worker_id"] == worker["worker_id"]
        ids[principal.id] = row["worker_id"]

    assert ids["ada"] == "own_1"
    assert "own_1" not in ids["vera"]


def test_without_an_observer_that_is_fed_the_answer_says_so(client: FlaskClient) -> None:
    answer = get(client, "/v1/metrics")

    assert (answer["rows"], answer["is_fed"]) == ([], False)
    assert "./callboard observe metrics" in answer["detail"]


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ({"0.5": 10}, 0.5, 0.375),
        ({"0.25": 5, "1": 5}, 0.95, 0.95),
        ({"0.005": 1}, 0.5, 0.0025),
        ({"inf": 3}, 0.5, 1800.0),
    ],
    ids=str,
)
def test_a_quantile_is_read_within_its_bucket(counts: dict[str, float], share: float, value: float) -> None:
    assert quantile(counts, share) == pytest.approx(value)


# --- the policy


RULES = """\
rules:
  - name: large-refunds
    when: {tools: [refund_order], tenants: [default]}
    condition: arguments.amount > 50
    verdict: require_approval
    reason: Refunds above 50 EUR are decided by a person.
  - name: others
    when: {tenants: [acme]}
    verdict: block
    reason: Theirs alone.
"""


@pytest.fixture
def settings(settings: Settings, tmp_path: Any) -> Settings:
    (tmp_path / "policy.yaml").write_text(RULES)
    return settings.model_copy(update={"policy": str(tmp_path / "policy.yaml")})


def test_the_rules_in_force_are_shown(client: FlaskClient) -> None:
    policy = get(client, "/v1/policy")

    by_name = {rule["name"]: rule for rule in policy["rules"]}
    assert policy["defaults"] == {"tool": "allow", "model": "allow"}
    assert by_name.keys() >= {"large-refunds", "others", "rule-of-two"}
    assert by_name["large-refunds"].items() >= {"verdict": "require_approval", "point": "tool", "line": 2}.items()
    assert by_name["large-refunds"]["when"] == {"tools": ["refund_order"], "tenants": ["default"]}
    assert by_name["large-refunds"]["condition"] == "arguments.amount > 50"


def test_rules_are_for_those_who_see_others_runs_and_of_their_tenant(guarded: FlaskClient, settings: Settings) -> None:
    theirs = get(guarded, "/v1/policy", as_(settings, STRANGER))["rules"]
    viewers = get(guarded, "/v1/policy", as_(settings, VIEWER))["rules"]
    refused = get(guarded, "/v1/policy", as_(settings, Principal(id="ana")))

    assert {"others"} <= {rule["name"] for rule in theirs}
    assert "large-refunds" not in {rule["name"] for rule in theirs}
    assert "others" not in {rule["name"] for rule in viewers}
    assert all("file" not in rule for rule in [*theirs, *viewers])
    assert (refused["status"], refused["code"]) == (403, "forbidden")


# --- how calls were decided


def decided(runner: Runner, decision: Decision, **fields: Any) -> str:
    """Return the id of a question that was answered."""
    open_question = question_before(**fields) if decision.decision in ("approve", "reject") else question()
    run_id = accept(runner, thread_id=f"talk-{open_question.id}")
    asks(runner.journal.database, run_id, open_question)
    runner.journal.clients.decide(runner.principal, run_id, open_question.id, decision, by="ann")
    return open_question.id


def test_answered_questions_are_listed_with_their_answers(client: FlaskClient, runner: Runner, journal: Any) -> None:
    open_id = accept(runner)
    asks(journal.database, open_id, question())
    first = decided(runner, Decision(decision="reject", message="already paid"))
    second = decided(runner, Decision(decision="approve", arguments={"order": 7}))
    with journal.database.write() as connection:
        for number, approval_id in enumerate((first, second)):
            times = {"decided_ms": approvals.c.created_ms + 5000 + number}
            connection.execute(update(approvals).where(approvals.c.id == approval_id).values(times))

    page = get(client, "/v1/approvals?state=answered&limit=1")
    rest = get(client, f"/v1/approvals?state=answered&before={page['next']}")

    (changed,), (rejected,) = page["approvals"], rest["approvals"]
    assert (changed["approval_id"], changed["answer"]["decision"], changed["answer"]["by"]) == (
        second,
        "approve",
        "ann",
    )
    assert changed["answer"]["changed"] == ["amount", "order", "to"]
    assert (rejected["approval_id"], rejected["answer"]["message"]) == (first, "already paid")
    assert 4000 <= rejected["answer"]["after_ms"] <= 6000
    assert [row["run_id"] for row in get(client, "/v1/approvals?state=open")["approvals"]] == [open_id]


def test_decisions_about_a_tools_calls_are_counted(client: FlaskClient, runner: Runner, journal: Any) -> None:
    ids = [decided(runner, Decision(decision="approve")) for _ in range(3)]
    decided(runner, Decision(decision="approve", arguments={"order": 7}))
    decided(runner, Decision(decision="reject", message="wrong order"))
    decided(runner, Decision(decision="run_again"))
    with journal.database.write() as connection:
        connection.execute(update(approvals).where(approvals.c.id == ids[0]).values(decided_by="expiry"))
        connection.execute(update(approvals).where(approvals.c.id == ids[1]).values(decided_ms=1))

    (tool,) = get(client, "/v1/approvals/decided")["tools"]
    of_tool = get(client, "/v1/approvals/decided?tool=refund_order")

    counts = {name: tool[name] for name in ("approved", "changed", "rejected", "expired")}
    assert (tool["name"], counts) == ("refund_order", {"approved": 1, "changed": 1, "rejected": 1, "expired": 1})
    assert of_tool["tools"] == [tool]
    assert [row.get("message") for row in of_tool["latest"]].count("wrong order") == 1
    assert sum(row.get("is_changed", False) for row in of_tool["latest"]) == 1
    assert get(client, "/v1/approvals/decided?tool=other") == {"tools": [], "latest": [], "is_cut": False}


def test_approvals_that_hold_are_listed_in_place_of_questions(client: FlaskClient, runner: Runner) -> None:
    scope: dict[str, Any] = {"scopes": ("thread",), "scope_s": 600}
    decided(runner, Decision(decision="approve", scope="thread"), **scope)
    (held,) = get(client, "/v1/approvals?state=holding")["sticky_approvals"]

    client.delete(f"/v1/sticky-approvals/{held['sticky_id']}")

    assert (held["name"], held["scope"], held["is_valid"]) == ("refund_order", "thread", True)
    assert get(client, "/v1/approvals?state=holding") == {"approvals": [], "sticky_approvals": []}
    assert client.get("/v1/approvals?state=late").status_code == 400


@pytest.mark.parametrize("path", ["/v1/metrics?since=x", "/v1/workers?limit=1", "/v1/policy?x=1", "/v1/queues?by=x"])
def test_a_wrong_parameter_is_refused(door: FlaskClient, path: str) -> None:
    assert get(door, path)["code"] == "bad_request"


# --- runs by tool, and observers


def test_runs_are_found_by_a_tool_that_they_called(client: FlaskClient, runner: Runner, journal: Any) -> None:
    with_call, without = (accept(runner) for _ in range(2))
    asks(journal.database, with_call, question())
    name = question().name

    listed = get(client, f"/v1/runs?tool={name}")["runs"]

    assert [run["run_id"] for run in listed] == [with_call]
    assert without in {run["run_id"] for run in get(client, "/v1/runs?tool=")["runs"]}
    assert get(client, "/v1/runs?tool=none")["runs"] == []
    assert get(client, f"/v1/runs/counts?by=agent&tool={name}")["total"] == 1


def test_observers_are_listed_and_one_has_its_failed_deliveries(client: FlaskClient, journal: Any) -> None:
    for name in ("shop", "traces"):
        ObserverCursors(journal.database).register(name, "observers.webhooks:Webhooks", "each", "{}", "now")
    facts = {"observer": "shop", "partition": 0, "position": 3, "run_id": "run_1", "seq": 3, "type": "end"}
    with journal.database.write() as connection:
        times = {"attempts": 5, "first_ms": 1000, "error": "503", "next_ms": None}
        connection.execute(insert(failed_deliveries).values(**facts, **times, state="dead"))

    listed = {row["name"]: row for row in get(client, "/v1/observers")["observers"]}
    (shop,) = get(client, "/v1/observers?name=shop")["observers"]

    assert {name: (row["state"], row["dead"], row["is_late"]) for name, row in listed.items()} == {
        "shop": ("stopped", 1, True),
        "traces": ("stopped", 0, False),
    }
    assert "letters" not in listed["shop"]
    ((letter, *others),) = [shop["letters"]]
    assert (letter["run_id"], letter["error"], letter["attempts"], others) == ("run_1", "503", 5, [])
    assert "next_at" not in letter
    assert get(client, "/v1/observers?name=other")["observers"] == []


def test_observers_are_for_the_deployments_administrators(guarded: FlaskClient, settings: Settings) -> None:
    for principal in (VIEWER, STRANGER):
        assert get(guarded, "/v1/observers", as_(settings, principal))["code"] == "forbidden"
