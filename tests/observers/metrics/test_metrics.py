"""What `/metrics` says is what the log has: each event counts once, by however many members it is counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from bus.journal.tailing import Member, ObserverCursors, values_of
from bus.payloads import ApprovalPayload, ControlPayload, EndPayload, ErrorPayload, ToolPayload, ToolResultPayload
from config.clock import stamp
from config.database.engine import Database, open_database
from config.settings import Settings
from observers.metrics import observer as counting
from observers.metrics.exposition import Exposition
from observers.metrics.names import METRICS, SCALING
from observers.metrics.observer import MetricsObserver
from observers.tailing import tailer as tailing
from observers.tailing.tailed import tailed_observer
from observers.tailing.tailer import Tailer
from tests.tailed_log import TailedLog, message, status
from tests.template import upgrade_by_copy


@pytest.fixture
def database(each_database_url: str, monkeypatch) -> Iterator[Database]:
    monkeypatch.setattr(tailing, "CLAIM_S", 0.0)
    with closing(open_database(each_database_url)) as opened:
        upgrade_by_copy(opened)
        yield opened


@pytest.fixture
def settings(usual_settings: Settings, tmp_path: Path) -> Settings:
    return usual_settings.model_copy(update={"state_dir": tmp_path})


def member(database: Database, settings: Settings, name: str = "own_1") -> Tailer:
    tailed = tailed_observer("metrics", settings, start="beginning")
    ObserverCursors(database).register("metrics", "metrics", "reliable", None, "beginning")
    return Tailer(tailed, settings, database, Member(id=name, host="here", pid=1, version="1"))


def drain(*members: Tailer) -> None:
    while any([each.step() for each in members]):
        pass


def samples(database: Database, accept: str = "") -> dict[tuple[str, ...], float]:
    """Return what Prometheus's own parser reads: values by name and values of labels."""
    body, content_type = Exposition(database).text(accept)
    families = openmetrics_families if "openmetrics" in content_type else text_string_to_metric_families
    return {
        (sample.name.removeprefix("callboard_"), *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families(body.decode())
        for sample in family.samples
    }


def call(seq: int, name: str = "lookup", attempt: int = 1, verdict: str | None = None) -> ToolPayload:
    policy = {"verdict": verdict, "rule": "r", "reason": ""} if verdict else None
    return ToolPayload(
        seq=seq, at=stamp(), call_id=f"call_{seq}", name=name, arguments={}, attempt=attempt, policy=policy
    )


def result(seq: int, outcome: str = "done", **fields: object) -> ToolResultPayload:
    ids = {"call_id": f"call_{seq}", "name": "lookup", "outcome": outcome}
    return ToolResultPayload(seq=seq, at=stamp(), duration_ms=40, **ids, **fields)  # type: ignore[arg-type]


def end(seq: int, **fields: object) -> EndPayload:
    values = {"status": "succeeded", "steps": 2, "duration_ms": 1500, **fields}
    return EndPayload(seq=seq, at=stamp(), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_each_event_of_the_log_is_counted(database: Database, settings: Settings, accept: str):
    log = TailedLog(database)
    run, stopped = log.runs(2, tenant="acme")
    question = ApprovalPayload(seq=4, at=stamp(), approval_id="apr_1", decisions=["approve"])
    answer = ApprovalPayload(seq=5, at=stamp(), approval_id="apr_1", decision="approve", by="ana")
    usage = {"input_tokens": 100, "output_tokens": 20}
    log.add(run, status(1, "queued"), call(2), call(3, attempt=2), question, answer, result(6), result(7, "failed"))
    log.add(run, call(8, verdict="block"), message(9, "the key is [redacted]"), end(10, usage=usage, cost_usd=0.25))
    stop = ControlPayload(seq=2, at=stamp(), control_id="ctl_1", verb="stop", state="consumed")
    error = ErrorPayload(seq=3, at=stamp(), code="model_unavailable", message="no", retry_in_ms=100)
    log.add(stopped, status(1, "queued"), stop, error, end(4, status="cancelled", reason="stopped"))

    drain(member(database, settings))
    values = samples(database, accept)

    expected = {
        ("runs_started_total", "atlas", "agent", "acme"): 2,
        ("runs_ended_total", "atlas", "agent", "succeeded", "acme"): 1,
        ("runs_ended_total", "atlas", "agent", "cancelled", "acme"): 1,
        ("activity_executions_total", "lookup", "done", "tool"): 1,
        ("activity_executions_total", "lookup", "failed", "tool"): 1,
        ("activity_executions_total", "fake/model", "failed", "model"): 1,
        ("activity_retries_total", "lookup", "tool"): 1,
        ("activity_retries_total", "fake/model", "model"): 1,
        ("activity_duration_seconds_count", "lookup", "tool"): 2,
        ("activity_duration_seconds_bucket", "0.05", "lookup", "tool"): 2,
        ("run_duration_seconds_sum", "agent", "succeeded"): 1.5,
        ("tokens_total", "atlas", "input"): 100,
        ("cost_usd_total", "atlas", "acme"): 0.25,
        ("governance_evaluations_total", "allow"): 1,
        ("governance_evaluations_total", "block"): 1,
        ("policy_violations_total", "block"): 1,
        ("guardrails_applied_total", "redacted"): 1,
        ("stops_total", "client"): 1,
        ("approvals_asked_total",): 1,
        ("approvals_answered_total", "approve"): 1,
        ("database_up",): 1,
        ("observer_lag_seconds", "metrics"): 0,
    }
    assert {key: values.get(key) for key in expected} == expected


def test_the_calls_that_a_repeated_run_did_not_make_are_not_counted(database: Database, settings: Settings):
    log = TailedLog(database)
    log.add(log.run(), result(1, recorded_in="run_0"), result(2))

    drain(member(database, settings))

    assert samples(database)["activity_executions_total", "lookup", "done", "tool"] == 1


def test_two_members_and_their_deaths_count_each_event_once(database: Database, settings: Settings):
    log = TailedLog(database)
    runs = log.runs(100)
    first, second = member(database, settings, "own_1"), member(database, settings, "own_2")
    for each in (first, second, first, second):
        each.step()
    for number in range(1, 5):
        log.add_all((run, result(number)) for run in runs)
        second.step()
    ObserverCursors(database).leave("metrics", second.member)
    drain(first)
    drain(member(database, settings, "own_3"), first)

    assert samples(database)["activity_executions_total", "lookup", "done", "tool"] == 400


def test_a_label_with_a_million_values_has_a_bounded_number_of_series(
    database: Database, settings: Settings, monkeypatch
):
    monkeypatch.setattr(counting, "MAX_VALUES", 5)
    log = TailedLog(database)
    first, second = member(database, settings), member(database, settings, "own_2")
    drain(first, second)
    for number in range(40):
        log.add(log.run(tenant=f"t{number}"), status(1, "queued"))
        drain(first, second)
    log.add(log.run(tenant="t0"), status(1, "queued"))

    drain(first, second)
    tenants = {key[3]: value for key, value in samples(database).items() if key[0] == "runs_started_total"}

    assert len(tenants) == 6
    assert sum(tenants.values()) == 41


def test_a_label_keeps_no_line_break_and_no_long_text(database: Database, settings: Settings):
    log = TailedLog(database)
    log.add(log.run(agent='odd"\n\\name'), status(1, "queued"))

    drain(member(database, settings))

    assert any(key[1] == 'odd"?\\name' for key in samples(database) if key[0] == "runs_started_total")


def test_the_last_day_is_kept_in_slots(database: Database, settings: Settings):
    log = TailedLog(database)
    old = result(1)
    log.add(log.run(), old, result(2))
    drain(member(database, settings))

    with database.read() as connection:
        slots = [(series.name, value) for series, slot, value in values_of(connection, since_ms=1)]

    assert ("activity_executions", 2.0) in slots


def test_without_the_database_only_that_is_said(settings: Settings, tmp_path: Path):
    with closing(open_database(f"sqlite:///{tmp_path / 'missing' / 'callboard.db'}")) as missing:
        values = samples(missing)

    assert values["database_up",] == 0
    assert ("queue_depth",) not in values


def test_the_six_signals_have_thresholds(database: Database):
    values = samples(database)

    assert {key[1] for key in values if key[0] == "scaling_threshold"} == set(SCALING)
    assert values["scaling_signal", "queue_depth"] == 0


def test_a_metric_has_a_line_in_the_documents():
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()

    for key, metric in METRICS.items():
        name = f"callboard_{key}" + ("_total" if metric.kind == "counter" else "")
        assert f"| `{name}` |" in page, name


def test_it_reads_the_types_of_events_that_it_has_a_hook_for():
    hooks = {name.removeprefix("on_") for name in vars(MetricsObserver) if name.startswith("on_")} - {"commit"}

    assert {*MetricsObserver.tailing.types} == hooks
