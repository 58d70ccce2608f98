"""The summaries of a thread over HTTP: what models are given in place of old messages, for who may read the thread."""

from __future__ import annotations

from typing import Any

from agents.runner import Runner
from bus.journal.owner import HistoryItem
from bus.journal.stores import NewSummary
from config.policy_decision import PolicyDecision, Verdict
from tests.web.conftest import RunOwner, accept


def summarise(runner: Runner, upto: dict[str, Any], text: str, **facts: Any) -> None:
    """Keep a summary of the thread up to one of its messages, as a worker does."""
    run = runner.journal.readers.runs.row(runner.principal, upto["run_id"])
    last = HistoryItem(id=upto["message_id"], role=upto["role"], data={}, turn=upto["turn"], number=upto["number"])
    new = NewSummary(
        thread_key=run.thread_key,
        agent_id="assistant",
        from_number=1,
        last=last,
        text=text,
        facts={"pinned": {}, "calls": [], **facts},
        model="demo/assistant",
        decision=PolicyDecision(verdict=Verdict.ALLOW, rule="all", version="1"),
        usage={"input_tokens": 9},
        cost_usd=0.25,
    )
    assert runner.journal.stores.summaries.add(new)


def test_summaries_say_what_they_replace_and_the_messages_stay(client: Any, runner: Runner) -> None:
    for text in ("one", "two"):
        RunOwner(runner.journal, accept(runner, text, thread_id="talk", detached=True)).finish(f"{text}!")
    before = client.get("/v1/threads/talk/messages").json["messages"]
    assert client.get("/v1/threads/talk/summaries").json == {"summaries": []}

    summarise(runner, before[1], "They said one.", pinned={"order": "7"})
    summarise(runner, before[3], "They said one and two.", calls=["#4 pay() call_1: done"], left_out=2)
    first = client.get("/v1/threads/talk/summaries?limit=1").json
    second = client.get(f"/v1/threads/talk/summaries?limit=1&before={first['next']}").json

    (newest,), (oldest,) = first["summaries"], second["summaries"]
    names = "agent", "from_number", "upto_number", "text", "model", "calls"
    assert {name: newest[name] for name in names} == {
        "agent": "assistant",
        "from_number": 1,
        "upto_number": before[3]["number"],
        "text": "They said one and two.",
        "model": "demo/assistant",
        "calls": ["#4 pay() call_1: done"],
    }
    assert (newest["left_out"], newest["cost_usd"], "used_by" in newest) == (2, 0.25, False)
    assert (oldest["upto_number"], oldest["pinned"], "left_out" in oldest) == (
        before[1]["number"],
        {"order": "7"},
        False,
    )
    assert client.get("/v1/threads/talk/messages").json["messages"] == before


def test_a_dropped_summary_says_who_dropped_it_and_an_unknown_thread_has_none(client: Any, runner: Runner) -> None:
    RunOwner(runner.journal, accept(runner, "one", thread_id="talk", detached=True)).finish("one!")
    summarise(runner, client.get("/v1/threads/talk/messages").json["messages"][1], "They said one.")
    (summary,) = client.get("/v1/threads/talk/summaries").json["summaries"]
    runner.journal.stores.summaries.drop(runner.principal, "talk", summary["summary_id"])

    (dropped,) = client.get("/v1/threads/talk/summaries").json["summaries"]

    assert (dropped["dropped_by"], "dropped_at" in dropped) == (runner.principal.id, True)
    assert client.get("/v1/threads/none/summaries").status_code == 404
    assert client.get("/v1/threads/talk/summaries?owner=ben").status_code == 404
    assert client.get("/v1/threads/talk/summaries?limit=101").status_code == 400
