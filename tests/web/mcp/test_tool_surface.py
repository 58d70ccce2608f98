"""A call of an MCP client is a run: waited for or started, found again, stopped, and refused in sentences."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import TextResourceContents

from bus.journal.approvals import Decision
from cli.dev.error_catalogue import catalogue
from config.definitions.schemas.json_schema import schema_errors
from config.identity.principal import Principal
from tests.bus.journal_harness import claim
from tests.web.mcp import counter
from tests.web.mcp.conftest import AGENT, Place
from web.mcp.errors import NAMES

pytestmark = pytest.mark.parity


def test_a_call_returns_the_result_of_its_run(place: Place, mode: str) -> None:
    answer = place.call("add", mode, a=20, b=22)

    state = answer.structured_content
    assert (answer.is_error, state["status"], state["output"]) == (False, "succeeded", {"sum": 42})
    assert answer.content[0].text == '{"sum":42}'
    assert state["status_url"] == f"https://callboard.example.org/v1/runs/{state['run_id']}"
    assert place.service.runner.handle(state["run_id"]).status() == "succeeded"


def test_a_call_gets_its_end_by_the_commit_though_no_observer_streams_it(
    place: Place, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GAP_S", "IDLE_S", "POLL_S"):
        monkeypatch.setattr(f"bus.journal.live.reader.{name}", 3600.0)
    definition = Path(place.service.settings.agents_dir) / "counter.yaml"
    definition.write_text(f"{AGENT}observers: [logger]\n")

    async def work(client: Client) -> Any:
        calling = asyncio.ensure_future(client.call_tool("wait_outside", {}))
        while not place.service.journal.live.hot_log._listeners:  # type: ignore[attr-defined]  # of the hot log in memory
            await asyncio.sleep(0)
        counter.is_open.set()
        return (await calling).structured_content

    assert place.use(work, mode)["output"] == "in"


def test_an_agent_is_a_tool_whose_thread_can_be_continued(place: Place, mode: str) -> None:
    first = place.state("counter", mode, input="What is 2 + 3?", thread_id="sums")
    second = place.state("counter", mode, input="And 3 + 4?", thread_id="sums")

    assert (first["status"], second["status"]) == ("succeeded", "succeeded")
    assert first["thread_id"] == second["thread_id"]
    thread = place.service.journal.readers.threads.get(place.service.runner.principal, "sums")
    assert [run["run_id"] for run in thread["runs"]] == [first["run_id"], second["run_id"]]


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


def test_what_a_run_does_arrives_as_progress_whose_first_message_names_it(place: Place, mode: str) -> None:
    progress_reports: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del total
        progress_reports.append((progress, message))

    work = place.use(lambda client: client.call_tool("add", {"a": 1, "b": 2}, progress_callback=note), mode)

    run_id = (work.structured_content or {})["run_id"]
    assert [message for _, message in progress_reports] == [f"{run_id}: queued", "running", "calls add", "add: done"]
    assert [number for number, _ in progress_reports] == sorted({number for number, _ in progress_reports})


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

    stopped = place.call("cancel_run", mode, run_id=run_id)

    assert not stopped.is_error
    is_ended = stopped.structured_content["status"] == "cancelled"  # its worker may be quicker than the answer
    assert ("wait_s for its end" in stopped.content[0].text) != is_ended
    ended = place.state("run_status", mode, run_id=run_id, wait_s=20)
    counter.is_open.set()  # not before: its tool might return, and the run succeed, before its worker stops it
    assert (ended["status"], ended["code"]) == ("cancelled", "stopped")
    again = place.call("cancel_run", mode, run_id=run_id)
    assert (again.structured_content["status"], again.is_error) == ("cancelled", False)


def test_a_stop_that_the_runs_worker_has_not_seen_yet_says_how_to_wait_for_it(place: Place, mode: str) -> None:
    service = replace(place.with_settings(mcp_capability_behavior="start").service, is_detached=lambda _: True)
    place = Place(service)  # which leaves runs to workers
    run_id = place.state("wait_outside", mode)["run_id"]
    assert claim(service.journal.database, run_id, "own_another", 0.5) is not None

    answer = place.call("cancel_run", mode, run_id=run_id)

    assert (answer.structured_content["status"], answer.is_error) == ("running", False)
    assert f"Call run_status with run_id {run_id} and wait_s for its end." in answer.content[0].text


def test_a_client_that_goes_away_leaves_its_run_running(place: Place, mode: str) -> None:
    async def leave(client: Client) -> None:
        call = asyncio.ensure_future(client.call_tool("wait_outside", {}))
        while not await _newest(place):
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    place.use(leave, mode)
    run_id = place.service.journal.readers.runs.newest(place.service.runner.principal)[0]["run_id"]
    counter.is_open.set()

    assert place.state("run_status", mode, run_id=run_id, wait_s=20)["output"] == "in"


async def _newest(endpoint: Place) -> list[dict[str, Any]]:
    return await endpoint.service.loop.read(
        endpoint.service.journal.readers.runs.newest, endpoint.service.runner.principal
    )


@pytest.mark.parametrize(
    ("name", "arguments", "code", "sentence"),
    [
        ("add", {"a": "x", "b": 1}, "INPUT_VALIDATION_FAILED", "a"),
        ("burn", {}, "tool_failed", "RuntimeError"),
        ("counter", {}, "INPUT_VALIDATION_FAILED", "'input' is missing"),
        ("counter", {"input": "Hi", "thread": "x"}, "INPUT_VALIDATION_FAILED", "there is no argument 'thread'"),
        ("counter", {"input": 7}, "INPUT_VALIDATION_FAILED", "'input' has to be text"),
        ("counter", {"input": " "}, "input_empty", ""),
        ("counter", {"input": "Hi", "thread_id": "a/b"}, "INPUT_VALIDATION_FAILED", "thread"),
        ("counter", {"input": "a\0b"}, "bad_request", "NUL"),
        ("add", {"a": [{"b\0": 1}]}, "bad_request", "NUL"),
        ("run_status", {"run_id": "run_\0"}, "bad_request", "NUL"),
        ("run_status", {"run_id": "run_0"}, "run_unknown", "run_0"),
        ("run_status", {}, "INPUT_VALIDATION_FAILED", "'run_id' is missing"),
        ("run_status", {"run_id": "run_0", "wait_s": 1e9}, "INPUT_VALIDATION_FAILED", "wait_s"),
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


@pytest.mark.parametrize("name", ["run_status", "run_events", "cancel_run"])
def test_the_answer_about_a_run_of_others_is_that_about_none(place: Place, name: str) -> None:
    run_id = place.state("add", a=1, b=2)["run_id"]
    stranger = place.as_principal(Principal(tenant="other", id="eve"))
    run_ids = [run_id, "run_0", run_id.upper(), "no id", "../runs", "%", f" {run_id}", "é", ""]

    async def work(client: Client) -> list[Any]:
        replies = [
            (await client.call_tool(name, {"run_id": candidate})).structured_content or {} for candidate in run_ids
        ]
        return [
            (answer["code"], answer["error"].replace(id_, "ID")) for answer, id_ in zip(replies, run_ids, strict=True)
        ]

    answers = stranger.use(work)

    assert answers[0][0] == "run_unknown"
    assert {*answers[:-1]} == {answers[0]}


def test_each_result_fits_the_schema_that_its_tool_is_listed_with(place: Place, mode: str) -> None:
    async def work(client: Client) -> list[tuple[str, dict[str, Any] | None]]:
        async def state(name: str, **arguments: Any) -> Any:
            structured_content = (await client.session.call_tool(name, arguments)).structured_content
            results.append((name, structured_content))
            return structured_content

        results: list[tuple[str, dict[str, Any] | None]] = []
        added = await state("add", a=1, b=2)
        await state("add", a="x")
        await state("burn")
        await state("counter", input="What is 2 + 3?")
        waiting = await state("book", room="blue")
        for run_state in (added, waiting):
            await state("run_status", run_id=run_state["run_id"])
            await state("run_events", run_id=run_state["run_id"])
        await state("run_events", run_id="run_0")
        await state("cancel_run", run_id=waiting["run_id"])
        schemas.update({tool.name: tool.output_schema for tool in (await client.list_tools()).tools})
        return results

    schemas: dict[str, Any] = {}
    results = place.use(work, mode)

    assert len(results) == 11
    for name, result in results:
        assert schema_errors(schemas[name], result) == [], name


def test_runs_and_threads_are_resources(place: Place, mode: str) -> None:
    state = place.state("counter", mode, input="What is 2 + 3?", thread_id="sums")

    async def work(client: Client) -> tuple[list[str], list[str]]:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        read = [(await client.read_resource(uri)).contents[0] for uri in listed]
        return listed, [part.text for part in read if isinstance(part, TextResourceContents)]

    listed, texts = place.use(work, mode)

    assert listed == [f"callboard://runs/{state['run_id']}", f"callboard://threads/{state['thread_id']}"]
    assert '"status":"succeeded"' in texts[0]
    assert "What is 2 + 3?" in texts[1]
    templates = place.use(lambda client: client.list_resource_templates(), mode).resource_templates
    assert [template.uri_template for template in templates] == [
        "callboard://runs/{run_id}",
        "callboard://threads/{thread_id}",
    ]


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

    assert [answer.structured_content["output"]["sum"] for answer in answers] == list(range(1, 41))


# --- the same call again -------------------------------------------------------------------------

KEY = "callboard/idempotency_key"


def _again(endpoint: Place, mode: str, key: Any, name: str = "add", **arguments: Any) -> Any:
    meta: Any = {KEY: key}
    work = endpoint.use(lambda client: client.call_tool(name, arguments, meta=meta), mode)
    return work.structured_content


def test_a_repeated_call_with_the_same_key_returns_the_first_run(place: Place, mode: str) -> None:
    first, again, other = (_again(place, mode, key, a=1, b=2) for key in ("one", "one", "two"))
    run_ids = [_again(place, mode, "three", "counter", input="What is 2 + 3?")["run_id"] for _ in range(2)]

    assert (again["run_id"], again["output"]) == (first["run_id"], {"sum": 3})
    assert other["run_id"] != first["run_id"]
    assert run_ids[0] == run_ids[1]
    assert len(place.service.journal.readers.runs.newest(place.service.runner.principal)) == 3
    theirs = place.as_principal(Principal(tenant="default", id="eve"))
    assert _again(theirs, mode, "one", a=1, b=2)["run_id"] != first["run_id"]


@pytest.mark.parametrize(
    ("key", "name", "arguments", "code"),
    [
        ("one", "add", {"a": 1, "b": 3}, "idempotency_conflict"),
        ("one", "seat", {}, "idempotency_conflict"),
        ("", "add", {"a": 1, "b": 2}, "bad_request"),
        ("x" * 256, "add", {"a": 1, "b": 2}, "bad_request"),
        ("a\nb", "add", {"a": 1, "b": 2}, "bad_request"),
        ("\ud800", "add", {"a": 1, "b": 2}, "bad_request"),
        (7, "add", {"a": 1, "b": 2}, "bad_request"),
        (["one"], "add", {"a": 1, "b": 2}, "bad_request"),
        ("one", "add", {"a": 2**70, "b": 2}, "bad_request"),
    ],
)
def test_a_key_is_for_one_call(place: Place, key: Any, name: str, arguments: dict[str, Any], code: str) -> None:
    _again(place, "legacy", "one", a=1, b=2)

    refused = _again(place, "legacy", key, name, **arguments)

    assert (refused["status"], refused["code"]) == ("refused", code)
    assert len(place.service.journal.readers.runs.newest(place.service.runner.principal)) == 1


def test_a_call_that_a_person_has_approved_is_resumed_by_calling_it_again(place: Place, mode: str) -> None:
    waiting = _again(place, mode, "one", "book", room="blue")
    place.service.runner.handle(waiting["run_id"]).decide(waiting["approval_id"], Decision(decision="approve"))

    done = _again(place, mode, "one", "book", room="blue")

    assert (waiting["code"], done["output"], done["run_id"]) == ("APPROVAL_REQUIRED", "booked blue", waiting["run_id"])
    assert counter.calls_made == ["blue"]


def test_arguments_that_do_not_fit_become_no_run_and_each_misfit_is_named(place: Place, mode: str) -> None:
    refused = place.state("add", mode, a="x", b=[])

    assert (refused["status"], refused["code"]) == ("refused", "INPUT_VALIDATION_FAILED")
    assert [error[:2] for error in refused["errors"]] == ["a:", "b:"]
    assert place.service.journal.readers.runs.newest(place.service.runner.principal) == []


def test_without_an_address_of_the_web_process_the_status_url_is_a_resource(place: Place, mode: str) -> None:
    state = place.as_principal(place.service.runner.principal).state("book", mode, room="blue")

    read = place.use(lambda client: client.read_resource(state["status_url"]), mode).contents[0]
    assert isinstance(read, TextResourceContents)
    assert '"status":"waiting"' in read.text


def test_codes_have_the_names_of_the_capability_design() -> None:
    entries = {entry.code: entry.seed_name for entry in catalogue().values() if entry.seed_name is not None}

    assert entries == NAMES


def test_a_tool_that_the_worker_cannot_load_is_not_configured(place: Place, mode: str) -> None:
    file = Path(place.service.settings.agents_dir) / "counter.yaml"

    async def work(client: Client) -> Any:
        await client.list_tools()
        await asyncio.to_thread(file.write_text, AGENT.replace("counter:add'", "counter:gone'"))
        return (await client.call_tool("add", {"a": 1, "b": 2})).structured_content

    state = place.use(work, mode)

    assert (state["status"], state["code"]) == ("failed", "NOT_CONFIGURED")
    assert "gone" in state["error"]


def test_a_restricted_tool_needs_a_person(place: Place, mode: str) -> None:
    state = place.state("open_safe", mode)

    assert (state["status"], state["code"], counter.calls_made) == ("waiting", "APPROVAL_REQUIRED", [])
