"""The seven calls of the first chat design, by a client that knows its document alone, over HTTP with a real worker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from config.database.migrate import migrate
from config.folders import ROOT
from config.settings import Settings
from tests.fleet import Worker, bare_environment, keep_turn
from tests.journeys.web_server import Web
from tests.ports import free_port
from tests.test_docs import examples

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

ACTORS = {"user", "agent", "tool_result", "user_confirmed_tool_run"}
NEXT = {"confirm", "question", "pick-new-goal", "done"}


@pytest.fixture
def web(redis_settings: Settings) -> Iterator[Web]:
    folder = redis_settings.state / "goals"
    shutil.copytree(ROOT / "config" / "goals", folder)
    its = {"agents_dir": str(folder), "default_agent": "multi", "port": free_port()}
    settings = redis_settings.model_copy(update=its)
    migrate(settings)
    with Web(settings) as web, Worker(settings, log=settings.state / "worker.log") as worker:
        yield web
        worker.stop()


class Client:
    """What the document says of the API, and nothing else."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def post(self, path: str, **body: Any) -> None:
        status, _, answer, _ = self._web.ask(path, body)
        assert status in (200, 202), answer

    def get(self, path: str) -> Any:
        status, _, answer, _ = self._web.ask(path)
        assert status == 200, answer
        return answer

    def tool_data(self) -> dict[str, Any]:
        tool_data: dict[str, Any] = self.get("/tool-data")
        types = {"next": str, "tool": str, "args": dict, "response": str, "force_confirm": bool}
        assert {name: type(tool_data[name]) for name in types} == types
        assert tool_data["next"] in NEXT
        return tool_data

    def history(self) -> list[tuple[str, Any]]:
        messages = self.get("/get-conversation-history")["messages"]
        assert all(set(message) == {"actor", "response"} and message["actor"] in ACTORS for message in messages)
        assert all(type(message["response"]) in (str, dict) for message in messages)
        return [(message["actor"], message["response"]) for message in messages]

    def goal(self) -> dict[str, Any]:
        goal: dict[str, Any] = self.get("/agent-goal")
        names = "id category_tag agent_name agent_friendly_description description starter_prompt"
        assert all(type(goal[name]) is str for name in [*names.split(), "example_conversation_history"])
        assert all(type(tool["name"]) is str for tool in goal["tools"])
        assert goal.get("mcp_server_definition") is None
        return goal

    def poll(self, is_there: Any) -> None:
        """Ask once a moment, as the document's client does, until the history or what is waited for is there."""
        deadline = time.monotonic() + 30
        while not is_there():
            assert time.monotonic() < deadline, (self.history(), self.tool_data())
            time.sleep(0.05)  # the design's clients poll


def test_a_client_of_the_first_chat_design_gets_what_its_document_says(web: Web) -> None:
    client = Client(web)
    assert client.history() == []
    assert client.tool_data()["next"] == "done"

    client.post("/start-workflow")
    client.poll(lambda: client.tool_data()["next"] == "pick-new-goal" and client.history()[-1][0] == "agent")
    assert client.tool_data()["tool"] == "ListAgents"
    assert client.goal()["id"] == "multi"

    client.post("/send-prompt", prompt="Switch to finance: move 100 euros from checking to savings")
    client.poll(lambda: client.tool_data()["next"] == "confirm")
    waiting = client.tool_data()
    assert (waiting["tool"], waiting["force_confirm"]) == ("move_money", True)
    assert waiting["args"] == {"from_account": "checking", "to_account": "savings", "amount_eur": 100.0}
    goal = client.goal()
    assert (goal["id"], goal["category_tag"], goal["agent_name"]) == ("finance", "finance", "Finance")
    assert "move_money" in [tool["name"] for tool in goal["tools"]]

    client.post("/confirm")
    client.poll(lambda: client.tool_data()["next"] == "done" and client.history()[-1][0] == "agent")
    assert client.tool_data()["tool"] == "move_money"
    confirmed = [response for actor, response in client.history() if actor == "user_confirmed_tool_run"]
    assert [entry["tool"] for entry in confirmed] == ["move_money"]
    results = [response["result"] for actor, response in client.history() if actor == "tool_result"]
    assert results[-1] == waiting["args"]

    client.post("/send-prompt", prompt="What are my account balances?")
    client.poll(lambda: "2,350.75" in str(client.history()[-1][1]))

    client.post("/send-prompt", prompt="Move money from checking to savings")
    client.poll(lambda: client.tool_data()["next"] == "question")
    client.post("/end-chat")
    client.poll(lambda: client.tool_data()["next"] == "done")
    assert [actor for actor, _ in client.history()].count("user_confirmed_tool_run") == 1


def test_the_block_of_the_page_works_as_it_is_pasted(tmp_path: Path) -> None:
    port = free_port()
    (block,) = examples((ROOT / "docs" / "seed-000.md").read_text(), "sh")
    for written, ours in {":8000": f":{port}", "./callboard": f"{sys.executable} -P -m cli"}.items():
        assert written in block
        block = block.replace(written, ours)
    keep_turn(tmp_path / "state")
    state = {"CALLBOARD_STATE_DIR": str(tmp_path / "state"), "CALLBOARD_PORT": str(port), "CALLBOARD_WORKERS": "1"}
    process = subprocess.Popen(
        ["bash", "-c", f"{block}kill $!\nwait"],
        env=bare_environment(**state),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=100)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    answers = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    by_next = {answer["next"]: answer for answer in answers if "next" in answer}
    assert list(by_next) == ["pick-new-goal", "confirm", "done"]
    assert by_next["confirm"]["tool"] == "move_money"
    assert [answer["id"] for answer in answers if "category_tag" in answer] == ["finance"]
    assert by_next["done"]["result"]["amount_eur"] == 100
    (history,) = (answer["messages"] for answer in answers if "messages" in answer)
    assert [message["response"]["name"] for message in history if message["actor"] == "tool_result"][-1] == "move_money"
