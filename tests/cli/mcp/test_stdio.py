"""`mcp serve` as clients start it: a process, its pipes, and what happens when the client goes away."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, MCPError
from mcp.client.subscriptions import ToolsListChanged
from mcp.types import ElicitRequestParams, ElicitResult, ToolListChangedNotification

from agents.runner import Runner
from agents.tools.mcp.pool import close_pools
from agents.tools.mcp.tool_builder import mcp_tools
from config.database.migrate import migrate
from config.effects import Effect
from config.folders import ROOT
from tests.cli.mcp.conftest import Installation
from tests.processes import run_python

pytestmark = pytest.mark.parity

MODES = ("legacy", "2026-07-28")
FILES = sorted((ROOT / "docs" / "examples" / "mcp").glob("*.json"))
TEMPLATE = "/path/to/callboard/callboard"


def started_by(file: Path) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the arguments and the variables with which a client starts the server that a file of the page names."""
    written = json.loads(file.read_text())
    (server,) = (written.get("mcpServers") or written["servers"]).values()
    assert (server["command"], server.get("type", "stdio")) == (TEMPLATE, "stdio")
    variables = server.get("env", {}).items()
    return tuple(server["args"]), tuple((name, "" if value.startswith("${") else value) for name, value in variables)


STARTS = {started_by(file): file.name for file in FILES}
"""Each start that files name, with the last of them: clients differ in the form of the file, not in the start."""


@pytest.mark.parametrize("start", STARTS, ids=STARTS.get)
def test_a_client_that_is_set_up_with_a_file_of_the_page_connects(
    start: tuple[tuple[str, ...], tuple[tuple[str, str], ...]], installation: Installation
) -> None:
    arguments, env = start[0], dict(start[1])
    assert (ROOT / "callboard").is_file()

    async def work() -> tuple[list[str], dict[str, Any]]:
        async with Client(installation.parameters(arguments, env)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            state = (await client.call_tool("calculator", {"expression": "17 * 23"})).structured_content
            return names, state

    names, state = asyncio.run(work())

    assert names[:2] == ["tester", "book"]
    if env.get("CALLBOARD_MCP_CAPABILITY_BEHAVIOR") == "start":
        assert "run_status" in state["next"]
    else:
        assert state["output"] == "391"


@pytest.mark.parametrize("mode", MODES)
def test_a_session_over_pipes(mode: str, installation: Installation) -> None:
    messages: list[str | None] = []

    async def approve(context: Any, params: ElicitRequestParams) -> ElicitResult:
        del context
        messages.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        messages.append(message)

    async def work() -> list[Any]:
        async with Client(installation.parameters(), mode=mode, elicitation_callback=approve) as client:
            first = await client.call_tool("tester", {"input": "What is 2 + 3?"}, progress_callback=note)
            shouted = await client.call_tool("shout", {})
            booked = await client.call_tool("book", {"room": "blue"})
            listed = await client.list_resources()
            return [first, shouted, booked, listed]

    first, shouted, booked, listed = asyncio.run(work())

    assert "5" in first.structured_content["output"]
    assert "calls calculator" in messages
    assert shouted.structured_content["output"] == "done"
    assert booked.structured_content["output"] == "booked blue"
    assert any('book(room="blue")' in (text or "") for text in messages)
    assert len([resource for resource in listed.resources if "runs" in str(resource.uri)]) == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_client_on_pipes_is_notified_of_a_new_agent(mode: str, installation: Installation) -> None:
    notified = asyncio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            notified.set()

    async def work() -> None:
        async with Client(installation.parameters(), mode=mode, message_handler=note) as client:
            assert "second" not in [tool.name for tool in (await client.list_tools()).tools]
            if mode == "legacy":
                assert client.server_capabilities is not None
                assert client.server_capabilities.tools is not None
                assert client.server_capabilities.tools.list_changed
                await _add_until(installation, notified)
                return
            async with client.listen(tools_list_changed=True) as changes:
                change = asyncio.ensure_future(anext(aiter(changes)))
                change.add_done_callback(lambda _: notified.set())
                await _add_until(installation, notified)
                assert await change == ToolsListChanged()

    asyncio.run(work())


async def _add_until(installation: Installation, notified: asyncio.Event) -> None:
    """Add and remove an agent until the client is notified, whenever the first comparison was."""
    file = installation.folder / "agents" / "second.yaml"
    async with asyncio.timeout(40):
        while not notified.is_set():
            if file.exists():
                file.unlink()
            else:
                file.write_text("name: Second\nmodel: demo/assistant\nsystem_prompt: You are a test.\n")
            with suppress(TimeoutError):
                await asyncio.wait_for(notified.wait(), 5)


class Wire:
    """The process without an SDK: lines go in, and lines come out."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    def send(self, message: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self, request_id: int) -> dict[str, Any]:
        """Return the answer to a request; every line until then is a message of the protocol."""
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, "the server ended"
            self.lines.append(json.loads(line))
            assert self.lines[-1]["jsonrpc"] == "2.0"
            if self.lines[-1].get("id") == request_id:
                return self.lines[-1]

    def begin(self) -> None:
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.send({"id": 0, "method": "initialize", "params": client})
        assert self.answer(0)["result"]["serverInfo"]["name"] == "callboard"
        self.send({"method": "notifications/initialized"})


@contextmanager
def _served(installation: Installation) -> Iterator[Wire]:
    command = [sys.executable, "-P", "-m", "cli", "mcp", "serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=installation.environment(), cwd=ROOT, **pipes) as process:  # type: ignore[call-overload]  # the pipes
        try:
            yield Wire(process)
        finally:
            process.kill()


def test_standard_output_has_messages_of_the_protocol_only(installation: Installation) -> None:
    with _served(installation) as wire:
        wire.begin()
        for number in range(1, 4):
            wire.send({"id": number, "method": "tools/call", "params": {"name": "shout", "arguments": {}}})
            assert wire.answer(number)["result"]["structuredContent"]["output"] == "done"
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        assert wire.process.stdout is not None
        assert wire.process.stdout.read() == b""
        assert wire.process.wait(20) == 0
        assert wire.process.stderr is not None
        assert b"from a child" in wire.process.stderr.read()


def test_lines_that_are_no_messages_are_answered_and_cost_nothing(installation: Installation) -> None:
    call = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "calculator", "arguments": %s}}'
    broken = [
        b"",
        b"not JSON",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 2000,
        b'[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]',
        b'{"jsonrpc": "1.0", "id": 9, "method": "ping"}',
        b'{"jsonrpc": "2.0", "method": 7}',
        call % (b"[" * 100_000 + b"]" * 100_000),
    ]
    refused = [
        b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": 7}}',
        b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}',
        call % b"[]",
        call % (b'{"expression": ' + b"[" * 100 + b"]" * 100 + b"}"),
        call % b'{"expression": NaN}',
    ]
    with _served(installation) as wire:
        wire.begin()
        for number in range(1, 101):
            for line in broken + refused:
                wire.send(line)
            wire.send({"id": 1000 + number, "method": "ping"})
            assert wire.answer(1000 + number)["result"] == {}
            if number == 50:
                before_kib = _resident_kib(wire.process.pid)
            if number == 100:
                unread = [line for line in wire.lines if "id" in line and line["id"] is None]
        wire.send({"id": 1, "method": "ping"})
        wire.answer(1)

        assert {line["error"]["code"] for line in unread} == {-32700}
        assert 100 * (len(broken) - 1) <= len(unread) <= 100 * (len(broken) + 3)
        assert all("Traceback" not in json.dumps(line) for line in wire.lines)
        assert _resident_kib(wire.process.pid) - before_kib < 20_000


def _resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize("is_terminated", [False, True], ids=["closed", "closed and SIGTERM"])
def test_a_run_is_finished_when_the_client_goes_away(is_terminated: bool, installation: Installation) -> None:
    with _served(installation) as wire:
        wire.begin()
        call = {"name": "take_long", "arguments": {"folder": str(installation.folder)}}
        wire.send({"id": 1, "method": "tools/call", "params": call})
        _wait_for(installation.folder / "begun")
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        if is_terminated:
            wire.process.send_signal(signal.SIGTERM)
        assert wire.process.wait(20) == 0

    assert (installation.folder / "ended").exists()
    with closing(Runner.open(installation.settings)) as runner:
        (run,) = runner.journal.readers.runs.newest(runner.principal)
    with _served(installation) as wire:
        wire.begin()
        wire.send(
            {"id": 1, "method": "tools/call", "params": {"name": "run_status", "arguments": {"run_id": run["run_id"]}}}
        )
        result = wire.answer(1)["result"]["structuredContent"]
        assert (result["status"], result["output"]) == ("succeeded", "done")


def test_a_client_that_is_killed_before_it_reads_an_answer_is_no_error(installation: Installation) -> None:
    with _served(installation) as wire:
        wire.begin()
        assert wire.process.stdin is not None
        assert wire.process.stdout is not None
        assert wire.process.stderr is not None

        wire.process.stdout.close()
        wire.send({"id": 1, "method": "ping"})
        wire.process.stdin.close()

        assert wire.process.wait(20) == 0
        assert b"rror" not in wire.process.stderr.read()


def _wait_for(file: Path) -> None:
    deadline_s = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline_s, f"{file.name} did not appear"
        time.sleep(0.02)


def test_with_a_key_its_principal_acts_until_the_key_is_revoked(installation: Installation) -> None:
    created = _callboard(installation, "keys", "create", "ci", "--agent", "tester", "--json")
    key = json.loads(created)

    async def work() -> tuple[str, str]:
        with_key = installation.parameters(env={"CALLBOARD_MCP_API_KEY": key["key"]})
        async with Client(with_key) as client:
            done = (await client.call_tool("calculator", {"expression": "1 + 1"})).structured_content
            await asyncio.to_thread(_callboard, installation, "keys", "revoke", key["id"])
            await asyncio.sleep(1)
            refused = (await client.call_tool("calculator", {"expression": "1 + 1"})).structured_content
            with pytest.raises(MCPError, match="no valid API key"):
                await client.list_resources()
            return done["run_id"], refused["code"]

    run_id, code = asyncio.run(work())

    assert code == "unauthenticated"
    with closing(Runner.open(installation.settings)) as runner:
        assert runner.journal.readers.runs.get(runner.principal, run_id)["principal"] == "ci"


def test_a_key_that_is_not_valid_is_said_at_once(installation: Installation) -> None:
    env = installation.environment(CALLBOARD_MCP_API_KEY="cb_nothing")

    ended = run_python("-P", "-m", "cli", "mcp", "serve", env=env, timeout_s=30)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "CALLBOARD_MCP_API_KEY is no valid API key" in ended.stderr


def _callboard(installation: Installation, *words: str) -> str:
    ended = run_python("-P", "-m", "cli", *words, env=installation.environment(), timeout_s=30)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


AGENT = "name: Caller\nmodel: demo/assistant\nsystem_prompt: You are a test.\ntools: ['mcp:other']\n"


def test_a_tool_of_another_callboard_has_its_effect_class_there_and_the_trace_of_its_run_here(
    installation: Installation, tmp_path: Path
) -> None:
    here = Installation(tmp_path / "here")
    for name in ("agents", "servers"):
        (here.folder / name).mkdir(parents=True)
    (here.folder / "agents" / "tester.yaml").write_text(AGENT)
    variables = [f"{name}={value}" for name, value in installation.environment().items()]
    program = [sys.executable, "-P", "-m", "cli", "mcp", "serve"]
    server = {"command": "env", "args": ["-i", *variables, *program], "trusted_hints": True}
    (here.folder / "servers" / "other.yaml").write_text(yaml.safe_dump(server))
    settings = here.settings.model_copy(update={"mcp_servers_dir": str(here.folder / "servers")})
    migrate(settings)

    with closing(Runner.open(settings)) as runner:
        effects = {name: mcp_tools(f"mcp:other/{name}", settings)[0].effect for name in ("calculator", "book")}
        handle = runner.call_tool("calculator", {"expression": "17 * 23"})
        state = handle.result(60).output
        trace_id = runner.journal.readers.runs.get(runner.principal, handle.run_id)["trace_id"]
        close_pools()

    assert effects == {"calculator": Effect.PURE, "book": Effect.KEYED}
    assert (state["status"], state["output"], state["trace_id"]) == ("succeeded", "391", trace_id)
    with closing(Runner.open(installation.settings)) as runner:
        assert [run["run_id"] for run in runner.journal.readers.runs.newest(runner.principal)] == [state["run_id"]]
