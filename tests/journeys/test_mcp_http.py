"""`/mcp` of an installation as users start it: the SDK's client over HTTP, in both eras."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.types import ElicitRequestParams, ElicitResult

from config.folders import ROOT
from tests.certificates import Authority
from tests.fleet import bare_environment
from tests.journeys.up import Up
from tests.ports import free_port
from tests.processes import folder_variables, run_python

pytestmark = pytest.mark.journey

FILES = sorted((ROOT / "docs" / "examples" / "mcp" / "http").glob("*.json"))
MODES = ("legacy", "2026-07-28")
AGENT = """\
name: Tester
model: demo/assistant
system_prompt: You are a test.
tools: [calculator, 'tests.cli.mcp.noisy_tools:take_long', 'tests.cli.mcp.noisy_tools:book']
"""


class Installation:
    """One `up` that asks for credentials."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.tls: ssl.SSLContext | bool = True
        """What clients check the server's certificate with."""
        (folder / "agents").mkdir()
        (folder / "agents" / "tester.yaml").write_text(AGENT)
        self.variables = folder_variables(folder) | {
            "CALLBOARD_DEFAULT_AGENT": "tester",
            "CALLBOARD_AUTH": "required",
            "CALLBOARD_EMBEDDED": "process",
            **variables,
        }
        self.port = free_port()
        scheme = "https" if "CALLBOARD_TLS_CERTIFICATE" in variables else "http"
        self.address = f"{scheme}://127.0.0.1:{self.port}"

    def command(self, *words: str) -> str:
        ended = run_python("-P", "-m", "cli", *words, env=bare_environment(**self.variables), timeout_s=60)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def key(self, name: str, *options: str) -> dict[str, Any]:
        """Return a new API key."""
        created: dict[str, Any] = json.loads(self.command("keys", "create", name, "--json", *options))
        return created

    @asynccontextmanager
    async def client(self, key: str, mode: str, **options: Any) -> Any:
        """Connect with a key."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(headers=headers, timeout=60, verify=self.tls) as http_client:
            transport = streamable_http_client(f"{self.address}/mcp", http_client=http_client)
            async with Client(transport, mode=mode, **options) as client:
                yield client

    @contextmanager
    def up(self) -> Iterator[Installation]:
        with Up(self.folder / "state", "--port", str(self.port), "--workers", "1", **self.variables) as up:
            up.wait_for("Callboard is up at")
            yield self


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with Installation(tmp_path_factory.mktemp("mcp")).up() as server:
        yield server


@pytest.mark.parametrize("mode", MODES)
def test_a_session_over_http(mode: str, installation: Installation) -> None:
    messages: list[str | None] = []
    key = installation.key(f"ci-{mode}")["key"]

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        messages.append(message)

    async def work() -> tuple[list[str], Any, Any]:
        async with installation.client(key, mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            first = await client.call_tool("tester", {"input": "What is 2 + 3?"}, progress_callback=note)
            again = await client.call_tool("run_status", {"run_id": first.structured_content["run_id"]})
            return names, first.structured_content, again.structured_content

    names, first, again = asyncio.run(work())

    assert names[:2] == ["tester", "book"]
    assert (first["status"], again["output"]) == ("succeeded", first["output"])
    assert first["status_url"] == f"{installation.address}/v1/runs/{first['run_id']}"
    assert "calls calculator" in messages


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_client_that_is_set_up_with_a_file_of_the_page_connects(file: Path, installation: Installation) -> None:
    written = json.loads(file.read_text())
    (server,) = (written.get("mcpServers") or written["servers"]).values()
    scheme, _, token = server["headers"]["Authorization"].partition(" ")
    inputs = {f"${{input:{entry['id']}}}" for entry in written.get("inputs", [])}
    placeholders = {"${CALLBOARD_MCP_API_KEY}", "${env:CALLBOARD_MCP_API_KEY}", "YOUR-API-KEY", *inputs}
    assert (server["url"], scheme) == ("http://127.0.0.1:8000/mcp", "Bearer")
    assert token in placeholders
    is_inspectors = file.name == "inspector.json"  # which takes `http` since its version 2 alone
    assert server.get("type", "http") == ("streamable-http" if is_inspectors else "http")
    key = installation.key(f"copied-{file.name.partition('.')[0]}")["key"]

    async def work() -> Any:
        async with installation.client(key, MODES[0]) as client:
            return (await client.call_tool("calculator", {"expression": "17 * 23"})).structured_content

    assert asyncio.run(work())["output"] == "391"


@pytest.mark.parametrize("mode", MODES)
def test_a_long_call_continues_on_the_loop_and_outlives_its_client(
    mode: str, installation: Installation, tmp_path: Path
) -> None:
    key = installation.key(f"long-{mode}")["key"]

    async def leave() -> None:
        async with installation.client(key, mode) as client:
            call = asyncio.ensure_future(client.call_tool("take_long", {"folder": str(tmp_path)}))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    async def stay() -> Any:
        async with installation.client(key, mode) as client:
            resources = (await client.list_resources()).resources
            run_id = next(
                str(resource.uri).rpartition("/")[2] for resource in resources if "/runs/" in str(resource.uri)
            )
            ended = (await client.call_tool("run_status", {"run_id": run_id, "wait_s": 20})).structured_content
            whole = (await client.call_tool("take_long", {"folder": str(tmp_path)})).structured_content
            return ended, whole

    asyncio.run(leave())
    ended, whole = asyncio.run(stay())

    assert (ended["status"], ended["output"]) == ("succeeded", "done")
    assert whole["output"] == "done"


def test_questions_are_forms_since_2026_and_otherwise_say_how_to_answer(installation: Installation) -> None:
    key = installation.key("asked")["key"]

    async def approve(context: Any, params: ElicitRequestParams) -> ElicitResult:
        del context, params
        return ElicitResult(action="accept", content={"decision": "approve"})

    async def book(mode: str) -> Any:
        async with installation.client(key, mode, elicitation_callback=approve) as client:
            return (await client.call_tool("book", {"room": "blue"})).structured_content

    assert asyncio.run(book("2026-07-28"))["output"] == "booked blue"
    assert asyncio.run(book("legacy"))["code"] == "APPROVAL_REQUIRED"


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_is_approved_in_the_terminal_is_resumed(mode: str, installation: Installation) -> None:
    key = installation.key(f"approved-{mode}")["key"]

    async def work() -> Any:
        async with installation.client(key, mode) as client:
            waiting = (await client.call_tool("book", {"room": "blue"})).structured_content
            assert waiting["code"] == "APPROVAL_REQUIRED"
            await asyncio.to_thread(installation.command, "approve", waiting["run_id"], "--decision", "approve")
            arguments = {"run_id": waiting["run_id"], "wait_s": 20}
            return (await client.call_tool("run_status", arguments)).structured_content

    assert asyncio.run(work())["output"] == "booked blue"


@pytest.mark.parametrize("mode", MODES)
def test_a_client_reads_beyond_an_event_that_is_larger_than_it_takes(mode: str, installation: Installation) -> None:
    key = installation.key(f"large-{mode}")["key"]

    async def work() -> Any:
        async with installation.client(key, mode) as client:
            arguments = {
                "run_id": (await client.call_tool("book", {"room": "x" * 900_000})).structured_content["run_id"]
            }
            return (await client.call_tool("run_events", arguments)).structured_content["events"] + [
                *(await client.call_tool("run_events", {**arguments, "after": "2"})).structured_content["events"]
            ]

    events = asyncio.run(work())

    assert [event["seq"] for event in events][:3] == [1, 2, 3]
    assert any("of 900,000 characters are shown" in str(event.get("arguments")) for event in events)


def test_a_run_of_another_key_is_unknown(installation: Installation) -> None:
    ann, eve = installation.key("ann")["key"], installation.key("eve")["key"]

    async def call(key: str, name: str, arguments: dict[str, Any]) -> Any:
        async with installation.client(key, "2026-07-28") as client:
            return (await client.call_tool(name, arguments)).structured_content

    run_id = asyncio.run(call(ann, "calculator", {"expression": "1 + 1"}))["run_id"]

    assert asyncio.run(call(eve, "run_status", {"run_id": run_id}))["code"] == "run_unknown"


def test_an_answer_under_way_ends_with_its_key(installation: Installation, tmp_path: Path) -> None:
    key = installation.key("short")
    held = tmp_path / "held"
    held.touch()

    async def work() -> float:
        async with installation.client(key["key"], "legacy") as client:
            call = asyncio.ensure_future(client.call_tool("take_long", {"folder": str(tmp_path)}))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.05)
            await asyncio.to_thread(installation.command, "keys", "revoke", key["id"])
            began = time.monotonic()
            with pytest.raises(Exception, match=r"."):
                await asyncio.wait_for(call, 30)
            return time.monotonic() - began

    assert asyncio.run(work()) < 15
    held.unlink()
    deadline = time.monotonic() + 20
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < deadline, "the run was not finished"
        time.sleep(0.1)


def test_an_answer_that_has_not_begun_is_refused_when_its_key_ends(installation: Installation, tmp_path: Path) -> None:
    key = installation.key("early")
    (tmp_path / "held").touch()
    client_of: Any = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "take_long", "arguments": {"folder": str(tmp_path)}, "_meta": client_of}
    headers = {
        "Authorization": f"Bearer {key['key']}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "take_long",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    async def work() -> httpx2.Response:
        async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
            answering = asyncio.ensure_future(client.post(f"{installation.address}/mcp", json=message))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.05)
            await asyncio.to_thread(installation.command, "keys", "revoke", key["id"])
            return await answering

    answer = asyncio.run(work())
    (tmp_path / "held").unlink()

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["X-Trace-Id"] == answer.json()["trace_id"]


def test_a_client_that_listens_is_sent_what_changes(installation: Installation, tmp_path: Path) -> None:
    key = installation.key("listens")["key"]
    second = installation.folder / "agents" / "second.yaml"

    async def work() -> list[Any]:
        async with installation.client(key, "2026-07-28") as client:
            begun = asyncio.ensure_future(client.call_tool("take_long", {"folder": str(tmp_path)}))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.05)
            listed = (await client.list_resources()).resources
            uri = next(str(resource.uri) for resource in listed if "/runs/" in str(resource.uri))
            async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as changes:
                await begun
                notifications = [await asyncio.wait_for(anext(aiter(changes)), 20)]
                await asyncio.to_thread(second.write_text, AGENT)
                notifications.append(await asyncio.wait_for(anext(aiter(changes)), 20))
            return [*notifications, uri, [tool.name for tool in (await client.list_tools()).tools]]

    try:
        *events, uri, names = asyncio.run(work())
    finally:
        second.unlink(missing_ok=True)

    assert events == [ResourceUpdated(uri), ToolsListChanged()]
    assert "second" in names


@pytest.mark.parametrize("mode", MODES)
def test_the_first_list_has_the_tools_which_workers_import_after_the_page_answers(mode: str, tmp_path: Path) -> None:
    fresh = Installation(tmp_path, CALLBOARD_AUTH="none", CALLBOARD_EMBEDDED="wheel")

    async def work() -> list[str]:
        async with fresh.client("", mode) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    with fresh.up():
        names = asyncio.run(work())

    assert {"book", "calculator", "take_long"} <= {*names}


def test_over_tls_a_long_call_continues_in_the_same_session(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    (tmp_path / "home").mkdir()
    files = {"CALLBOARD_TLS_CERTIFICATE": str(pair.certificate), "CALLBOARD_TLS_KEY": str(pair.key)}
    with Installation(tmp_path / "home", **files).up() as installation:
        installation.tls = ssl.create_default_context(cafile=str(authority.certificate))
        key = installation.key("tls")["key"]

        async def work(mode: str) -> tuple[Any, Any]:
            async with installation.client(key, mode) as client:
                short = await client.call_tool("calculator", {"expression": "1 + 1"})
                long = await client.call_tool("take_long", {"folder": str(tmp_path)})
                return short.structured_content["output"], long.structured_content["output"]

        assert [asyncio.run(work(mode)) for mode in MODES] == [("2", "done")] * 2


def test_a_storm_of_broken_messages_costs_nothing(installation: Installation) -> None:
    key = installation.key("storm")["key"]
    address = urlsplit(installation.address)
    broken = [b"not JSON", b"[]", b'{"jsonrpc": "2.0"}', b"[" * 3000, b'{"jsonrpc": "2.0", "id": 1, "method": "no"}']
    statuses = set()
    with (
        socket.create_connection((address.hostname or "", address.port or 0)) as connection,
        connection.makefile("rb") as answers,
    ):
        for number in range(500):
            body = broken[number % len(broken)]
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n"
                f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
                f"MCP-Protocol-Version: 2026-07-28\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body)
            statuses.add(_status(answers))

    assert statuses <= {400, 404}

    async def work() -> Any:
        async with installation.client(key, "2026-07-28") as client:
            return (await client.call_tool("calculator", {"expression": "1 + 1"})).structured_content["output"]

    assert asyncio.run(work()) == "2"


def _status(answers: Any) -> int:
    """Read one answer of a connection that stays open, and return its status."""
    status, length = int(answers.readline().split()[1]), 0
    while (line := answers.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    answers.read(length)
    return status
