"""What the policy decided about a run's calls, over HTTP."""

from __future__ import annotations

import pytest

from agents.runner import Runner
from bus.journal.owner import Commit, StepStarted
from config.policy_decision import PolicyDecision, Verdict
from tests.web.conftest import RunOwner, accept


def step(number: int) -> StepStarted:
    decided = PolicyDecision(
        verdict=Verdict.CONSTRAIN, rule="few", reason="Few.", version="v1", arguments={"limit": number}, timeout_s=5.0
    )
    return StepStarted(
        id=f"stp_{number}",
        kind="tool",
        name="search",
        call_id=f"call_{number}",
        effect="pure",
        arguments_digest="d",
        idempotency_key=f"key_{number}",
        decision=decided,
    )


@pytest.fixture
def run_id(runner: Runner) -> str:
    run_id = accept(runner)
    owner = RunOwner(runner.journal, run_id)
    runner.journal.loop.run(owner.writer.commit(Commit(started=[step(number) for number in (1, 2, 3)])))
    return run_id


def test_decisions_are_listed_in_pages(client, run_id):
    first = client.get(f"/v1/runs/{run_id}/decisions?limit=2").json
    rest = client.get(f"/v1/runs/{run_id}/decisions", query_string={"after": first["next"]}).json

    assert [decision["number"] for decision in first["decisions"]] == [1, 2]
    (last,) = rest["decisions"]
    assert last | {"at": "now"} == {
        "step_id": "stp_3",
        "number": 3,
        "point": "tool",
        "name": "search",
        "call_id": "call_3",
        "effect": "pure",
        "status": "started",
        "at": "now",
        "verdict": "constrain",
        "rule": "few",
        "reason": "Few.",
        "version": "v1",
        "arguments": {"limit": 3},
        "timeout_s": 5.0,
    }
    assert "next" not in rest


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=201", "before=1"])
def test_bad_parameters_are_refused(client, run_id, query):
    assert client.get(f"/v1/runs/{run_id}/decisions?{query}").status_code == 400


def test_an_unknown_run_has_none(client):
    refused = client.get("/v1/runs/run_unknown/decisions")

    assert refused.status_code == 404
    assert refused.json["code"] == "run_unknown"
