"""A call of an MCP client is a run: waited for or started, found again, stopped, and refused in sentences."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import TextResourceContents

from config.identity.principal import Principal
from tests.web.mcp import counter
from tests.web.mcp.conftest import Place


def test_a_call_returns_the_result_of_its_run(place: Place, mode: str) -> None:
    answer = place.call("add", mode, a=20, b=22)

    state = answer.structured_content
    assert (answer.is_error, state["status"], state["output"]) == (False, "succeeded", {"sum": 42})
    assert answer.content[0].text == '{"sum":42}'
    assert state["status_url"] == f"https://callboard.example.org/v1/runs/{state['run_id']}"
    assert place.service.runner.handle(state["run_id"]).status() == "succeeded"


def test_an_agent_is_a_tool_whose_thread_can_be_continued(place: Place, mode: str) -> None:
    first = place.state("counter", mode, input="What is 2 + 3?", thread_id="sums")
    second = place.state("counter", mode, input="And 3 + 4?", thread_id="sums")

    assert (first["status"], second["status"]) == ("succeeded", "succeeded")
    assert first["thread_id"] == second["thread_id"]
    found = place.service.journal.threads.get(place.service.runner.principal, "sums")
    assert [run["run_id"] for run in found["runs"]] == [first["run_id"], second["run_id"]]


def test_a_call_that_takes_too_long_returns_its_run_and_how_to_go_on(place: Place, mode: str) -> None:
    place = place.with_settings(mcp_await_s=0.2)

    async def work(client: Client) -> tuple[Any, Any]:
        begun = (await client.call_tool("wait_outside", {})).structured_content
        counter.is_open.set()
        ended = await client.call_tool("run_status", {"run_id": begun["run_id"], "wait_s": 20})
        return begun, ended.structured_content

    begun, ended = place.use(work, mode)

    assert begun["status"] in ("queued", "running")
    assert begun["status_url"].endswith(begun["run_id"])
    assert "run_status" in begun["next"]
    assert (ended["status"], ended["output"]) == ("succeeded", "in")


def test_with_start_a_call_returns_at_once(place: Place, mode: str) -> None:
    place = place.with_settings(mcp_capability_behavior="start")

    begun = place.state("wait_outside", mode)

    assert "output" not in begun
    assert "run_status" in begun["next"]


def test_what_a_run_does_arrives_as_progress(place: Place, mode: str) -> None:
    said: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del total
        said.append((progress, message))

    place.use(lambda client: client.call_tool("add", {"a": 1, "b": 2}, progress_callback=note), mode)

    assert [message for _, message in said] == ["queued", "running", "calls add", "add: done"]
    assert [number for number, _ in said] == sorted({number for number, _ in said})


def test_the_events_of_a_run_are_read_by_cursor(place: Place, mode: str) -> None:
    run_id = place.state("add", mode, a=1, b=2)["run_id"]

    first = place.state("run_events", mode, run_id=run_id, limit=2)
    rest = place.state("run_events", mode, run_id=run_id, after=first["cursor"])

    assert ([event["seq"] for event in first["events"]], first["ended"]) == ([1, 2], False)
    assert rest["events"][0]["seq"] == 3
    assert (rest["events"][-1]["type"], rest["ended"]) == ("end", True)
    assert place.state("run_events", mode, run_id=run_id, after=rest["cursor"])["ended"] is True
    assert place.state("run_events", mode, run_id=run_id, after="-1")["code"] == "cursor_invalid"


def test_a_run_is_stopped_and_a_second_time_changes_nothing(place: Place, mode: str) -> None:
    place = place.with_settings(mcp_capability_behavior="start")
    run_id = place.state("wait_outside", mode)["run_id"]

    place.call("cancel_run", mode, run_id=run_id)
    counter.is_open.set()

    ended = place.state("run_status", mode, run_id=run_id, wait_s=20)
    assert (ended["status"], ended["code"]) == ("cancelled", "stopped")
    assert place.state("cancel_run", mode, run_id=run_id)["status"] == "cancelled"


def test_a_client_that_goes_away_leaves_its_run_running(place: Place, mode: str) -> None:
    async def leave(client: Client) -> None:
        call = asyncio.ensure_future(client.call_tool("wait_outside", {}))
        while not await _newest(place):
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    place.use(leave, mode)
    run_id = place.service.journal.runs.newest(place.service.runner.principal)[0]["run_id"]
    counter.is_open.set()

    assert place.state("run_status", mode, run_id=run_id, wait_s=20)["output"] == "in"


async def _newest(place: Place) -> list[dict[str, Any]]:
    return await place.service.loop.read(place.service.journal.runs.newest, place.service.runner.principal)


@pytest.mark.parametrize(
    ("name", "arguments", "code", "sentence"),
    [
        ("add", {"a": "x", "b": 1}, "arguments_invalid", "a"),
        ("burn", {}, "tool_failed", "RuntimeError"),
        ("counter", {}, "bad_request", "'input' is missing"),
        ("counter", {"input": "Hi", "thread": "x"}, "bad_request", "there is no argument 'thread'"),
        ("counter", {"input": 7}, "bad_request", "'input' has to be text"),
        ("counter", {"input": " "}, "input_empty", ""),
        ("counter", {"input": "Hi", "thread_id": "a/b"}, "bad_request", "thread"),
        ("counter", {"input": "a\0b"}, "bad_request", "NUL"),
        ("add", {"a": [{"b\0": 1}]}, "bad_request", "NUL"),
        ("run_status", {"run_id": "run_\0"}, "bad_request", "NUL"),
        ("run_status", {"run_id": "run_0"}, "run_unknown", "run_0"),
        ("run_status", {}, "bad_request", "'run_id' is missing"),
        ("run_status", {"run_id": "run_0", "wait_s": 1e9}, "bad_request", "wait_s"),
        ("run_events", {"run_id": "run_0"}, "run_unknown", "run_0"),
        ("cancel_run", {"run_id": "run_0"}, "run_unknown", "run_0"),
    ],
)
def test_what_goes_wrong_is_a_result_with_a_sentence_and_a_code(
    place: Place, mode: str, name: str, arguments: dict[str, Any], code: str, sentence: str
) -> None:
    answer: Any = place.use(lambda client: client.call_tool(name, arguments), mode)

    assert (answer.is_error, answer.structured_content["code"]) == (True, code)
    assert sentence in answer.structured_content["error"]
    assert "Traceback" not in answer.content[0].text


def test_a_defect_is_one_sentence_without_a_traceback(
    place: Place, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(type(place.service.runner), "call_tool", lambda *_, **__: 1 / 0)

    answer = place.call("add", mode, a=1, b=2)

    assert (answer.is_error, answer.structured_content["code"]) == (True, "internal")
    assert "ZeroDivisionError" not in answer.content[0].text
    assert "ZeroDivisionError" in caplog.text


def test_an_unknown_tool_is_an_error_of_the_protocol_with_the_nearest_name(place: Place, mode: str) -> None:
    with pytest.raises(MCPError, match=r"no tool 'ad'\. Did you mean 'add'"):
        place.call("ad", mode)


def test_a_run_is_unknown_to_another_caller(place: Place, mode: str) -> None:
    run_id = place.state("add", mode, a=1, b=2)["run_id"]
    stranger = place.as_principal(Principal(tenant="other", id="eve"))

    for name in ("run_status", "run_events", "cancel_run"):
        assert stranger.state(name, mode, run_id=run_id)["code"] == "run_unknown"
    with pytest.raises(MCPError, match="there is no run"):
        stranger.use(lambda client: client.read_resource(f"callboard://runs/{run_id}"), mode)
    assert stranger.use(lambda client: client.list_resources(), mode).resources == []


def test_runs_and_threads_are_resources(place: Place, mode: str) -> None:
    state = place.state("counter", mode, input="What is 2 + 3?", thread_id="sums")

    async def work(client: Client) -> tuple[list[str], list[str]]:
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        read = [(await client.read_resource(uri)).contents[0] for uri in listed]
        return listed, [one.text for one in read if isinstance(one, TextResourceContents)]

    listed, texts = place.use(work, mode)

    assert listed == [f"callboard://runs/{state['run_id']}", f"callboard://threads/{state['thread_id']}"]
    assert '"status":"succeeded"' in texts[0]
    assert "What is 2 + 3?" in texts[1]
    templates = place.use(lambda client: client.list_resource_templates(), mode).resource_templates
    assert [one.uri_template for one in templates] == ["callboard://runs/{run_id}", "callboard://threads/{thread_id}"]


@pytest.mark.parametrize(
    "uri", ["callboard://runs/no", "callboard://threads/no", "callboard://threads/a%00b", "file:///etc/passwd"]
)
def test_what_is_no_resource_is_refused(place: Place, mode: str, uri: str) -> None:
    with pytest.raises(MCPError, match=r"there is no|NUL"):
        place.use(lambda client: client.read_resource(uri), mode)


def test_an_output_that_does_not_fit_is_in_the_text_alone(place: Place, mode: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("web.mcp.results.schema_errors", lambda *_: ["no"])

    answer = place.call("add", mode, a=1, b=2)

    assert "output" not in answer.structured_content
    assert answer.content[0].text == '{"sum":3}'


def test_many_calls_at_once_all_return(place: Place, mode: str) -> None:
    async def work(client: Client) -> list[Any]:
        return await asyncio.gather(*(client.call_tool("add", {"a": number, "b": 1}) for number in range(40)))

    answers = place.use(work, mode)

    assert [one.structured_content["output"]["sum"] for one in answers] == list(range(1, 41))
