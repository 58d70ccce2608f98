"""The calls of the first chat design."""

from __future__ import annotations

import pytest

from bus.journal.approvals import Decision
from bus.journal.owner import Commit, HistoryItem
from config.identity.principal import LOCAL
from tests.bus.questions import asks, question_before
from tests.web.conftest import RunOwner

HISTORIES = ("/conversation-history", "/get-conversation-history")
STARTER = "What is 17 * 23?"
CALL = {"call_id": "c1", "name": "calculator", "arguments": {"expression": "17 * 23"}, "arguments_text": "{}"}


def work_off(journal, run_id: str) -> None:
    """Write a run as a worker would: a call of a tool, its result, the answer."""
    owner = RunOwner(journal, run_id)
    history_item = HistoryItem(id="msg_a", role="assistant", data={"content": "", "tool_calls": [CALL]})
    result = HistoryItem(
        id="msg_b", role="tool", data={"call_id": "c1", "name": "calculator", "outcome": "done", "result": 391}
    )
    journal.loop.run(owner.writer.commit(Commit(events=(), history=(history_item, result))))
    owner.finish("It is 391.")


@pytest.mark.parametrize("path", HISTORIES)
def test_a_conversation_that_has_not_begun_has_an_empty_history(client, path: str) -> None:
    assert client.get(path).json == {"messages": []}
    assert client.get(path, query_string={"thread_id": "mine"}).json == {"messages": []}


@pytest.mark.parametrize("path", HISTORIES)
def test_the_history_has_what_each_side_said_and_did(client, journal, path: str) -> None:
    begun = client.post("/start-workflow", json={})
    work_off(journal, begun.json["run_id"])

    history = client.get(path)

    assert (begun.status_code, begun.json["thread_id"]) == (202, "conversation")
    assert begun.headers["Location"] == f"/v1/runs/{begun.json['run_id']}"
    assert history.json["messages"] == [
        {"actor": "user", "response": STARTER},
        {"actor": "agent", "response": {"tool": "calculator", "args": {"expression": "17 * 23"}}},
        {"actor": "tool_result", "response": {"name": "calculator", "outcome": "done", "result": 391}},
        {"actor": "agent", "response": "It is 391."},
    ]


@pytest.mark.parametrize("edited", [None, {"order": 7}])
def test_the_history_names_the_person_who_confirmed_a_call(client, journal, edited) -> None:
    run_id = client.post("/send-prompt", json={"prompt": "Refund it."}).json["run_id"]
    open_question, other = question_before(), question_before()
    journal.live.publish(asks(journal.database, run_id, open_question, other))
    approve = Decision(decision="approve", arguments=edited)
    journal.clients.decide(LOCAL, run_id, open_question.id, approve, by="ada")
    journal.clients.decide(LOCAL, run_id, other.id, Decision(decision="reject"), by="ada")

    _, call, confirmation, *rest = client.get("/conversation-history").json["messages"]

    assert call == {"actor": "agent", "response": {"tool": open_question.name, "args": dict(open_question.arguments)}}
    assert confirmation.pop("actor") == "user_confirmed_tool_run"
    assert confirmation["response"].pop("at")
    assert confirmation["response"] == {
        "tool": open_question.name,
        "args": edited or dict(open_question.arguments),
        "by": "ada",
    }
    assert [entry["actor"] for entry in rest] == ["agent"], "what was rejected was confirmed by no one"


def test_a_history_comes_in_pages(client, journal) -> None:
    work_off(journal, client.post("/start-workflow", json={}).json["run_id"])

    first = client.get("/conversation-history?limit=2").json
    second = client.get("/conversation-history", query_string={"after": first["next"]}).json

    assert [len(first["messages"]), len(second["messages"])] == [2, 2]


def test_a_prompt_continues_the_conversation_with_its_agent(client, settings) -> None:
    other = settings.agent_folders[0] / "other.yaml"
    other.write_text("name: Other\nmodel: demo/assistant\nsystem_prompt: You answer.\nstarters: [Hello]\n")
    client.post("/start-workflow", json={"agent_id": "other"})

    prompted = client.post("/send-prompt", json={"prompt": "And you?"})
    elsewhere = client.post("/send-prompt", json={"prompt": "And you?", "thread_id": "mine"})

    agents = [client.get(f"/v1/runs/{sent.json['run_id']}").json["agent"] for sent in (prompted, elsewhere)]
    assert agents == ["other", settings.default_agent]
    assert client.get("/agent-goal").json == {
        "id": "other",
        "category_tag": "",
        "agent_name": "Other",
        "agent_friendly_description": "",
        "tools": [],
        "description": "",
        "starter_prompt": "Hello",
        "example_conversation_history": "",
    }


def test_a_repeated_prompt_with_its_key_is_sent_once(client) -> None:
    headers = {"Idempotency-Key": "prompt-1"}

    sent = [client.post("/send-prompt", json={"prompt": "Hello"}, headers=headers) for _ in range(2)]

    assert sent[0].json["run_id"] == sent[1].json["run_id"]
    assert len(client.get("/v1/runs").json["runs"]) == 1


def test_the_end_of_a_chat_stops_its_runs_and_no_others(client) -> None:
    own, other = (client.post("/send-prompt", json={"prompt": "Hello", "thread_id": name}).json for name in "ab")

    ended = client.post("/end-chat", json={"thread_id": "a"})
    again = client.post("/end-chat", json={"thread_id": "a"})

    assert ended.json == {"thread_id": "a", "stopped": [own["run_id"]]}
    assert again.json == {"thread_id": "a", "stopped": []}
    assert client.get(f"/v1/runs/{own['run_id']}").json["status"] == "cancelled"
    assert client.get(f"/v1/runs/{other['run_id']}").json["status"] == "queued"


def test_an_agent_without_starters_is_begun_with_a_prompt(client, settings) -> None:
    (settings.agent_folders[0] / "mute.yaml").write_text("name: M\nmodel: demo/assistant\nsystem_prompt: You answer.\n")

    refused = client.post("/start-workflow", json={"agent_id": "mute"})

    assert (refused.status_code, refused.json["code"]) == (409, "no_starters")
    assert "/send-prompt" in refused.json["detail"]


NAMED = (("POST", "/end-chat"), ("POST", "/send-prompt"), ("GET", "/conversation-history"), ("GET", "/agent-goal"))


@pytest.mark.parametrize(("method", "path"), NAMED)
@pytest.mark.parametrize("name", ["", " mine", "a/b", "..", "a\x03b", "x" * 129])
def test_a_conversation_has_a_name_that_a_thread_can_have(client, method: str, path: str, name: str) -> None:
    options = {"json": {"thread_id": name, "prompt": "Hi"}} if path == "/send-prompt" else {"json": {"thread_id": name}}

    refused = client.open(
        path, method=method, **(options if method == "POST" else {"query_string": {"thread_id": name}})
    )

    assert (refused.status_code, refused.json["code"]) == (400, "bad_request")
