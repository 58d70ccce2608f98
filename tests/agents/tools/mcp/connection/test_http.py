"""Servers that are reached by HTTP: the SDK's own in both eras, and some that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import httpx2
import orjson
import psutil
import pytest

from agents.errors import McpServerDown, OutputUnfit
from agents.tools.mcp.pool import McpPool
from agents.tools.mcp.server_states import McpServerState, McpState
from config.definitions.mcp.server import McpServerDefinition
from config.errors import ToolCutOff, ToolFailed
from tests.agents.tools.mcp.conftest import Run, said
from tests.ports import free_port

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
SDK = Path(__file__).parents[1] / "sdk_server.py"
MIB = 1024 * 1024


class Served:
    """The SDK's server at a port."""

    def __init__(self, kind: str, port: int | None = None, script: Path = SDK) -> None:
        self.kind, self.port = kind, port or free_port()
        self.process = subprocess.Popen([sys.executable, str(script), kind, str(self.port)], stderr=subprocess.DEVNULL)
        until_s = time.monotonic() + 20
        while time.monotonic() < until_s:
            try:
                httpx2.get(f"http://127.0.0.1:{self.port}/nothing")
                return
            except httpx2.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def definition(self) -> McpServerDefinition:
        is_old = self.kind == "sse"
        url = f"http://127.0.0.1:{self.port}/{'sse' if is_old else 'mcp'}"
        kind: Literal["sse", "http"] = "sse" if is_old else "http"
        return McpServerDefinition(name="shop", url=url, transport=kind, file="shop.yaml", start_s=10.0)


@pytest.fixture(scope="module", params=["http", "json", "stateless", "sse"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    server = Served(request.param)
    yield server
    server.stop()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_of_the_sdk_is_called_in_both_eras(run: Run, served: Served, mode: str) -> None:
    server = served.definition.model_copy(update={"mode": mode})

    async def use(pool: McpPool) -> Any:
        names = [tool.name for tool in await pool.tools("t", server)]
        return names, (await pool.call("t", server, "add", {"a": 2, "b": 3})).structured_content

    assert run(use) == (["add", "process", "fail"], {"result": 5})


def test_many_calls_at_once_are_all_answered(run: Run, served: Served) -> None:
    async def use(pool: McpPool) -> list[Any]:
        calls = (pool.call("t", served.definition, "add", {"a": number, "b": 0}) for number in range(50))
        return [result.structured_content["result"] for result in await asyncio.gather(*calls)]

    assert run(use) == list(range(50))


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_that_is_gone_is_down_and_one_that_is_back_is_called(run: Run, kind: str) -> None:
    first = Served(kind)

    async def use(pool: McpPool) -> tuple[str, int]:
        server = first.definition
        await pool.call("t", server, "process", {})
        first.stop()
        await asyncio.sleep(0.2)
        with pytest.raises(McpServerDown):
            await pool.call("t", server, "process", {})
        second = await asyncio.to_thread(Served, kind, first.port)
        try:
            return said(await eventually(lambda: pool.call("t", server, "process", {}))), second.process.pid
        finally:
            second.stop()

    text, pid = run(use)
    assert text == str(pid)


async def eventually(ask: Callable[[], Any]) -> Any:
    for _ in range(100):
        try:
            return await ask()
        except McpServerDown:
            await asyncio.sleep(0.05)
    return await ask()


def test_the_metadata_service_of_a_cloud_is_no_server(run: Run) -> None:
    server = McpServerDefinition(name="shop", url="http://169.254.169.254/mcp", file="shop.yaml")

    with pytest.raises(McpServerDown, match="metadata service"):
        run(lambda pool: pool.tools("t", server))


# --- servers that misbehave -------------------------------------------------------------------------


SESSION: dict[str, dict[str, str]] = defaultdict(dict, {"/stays": {"mcp-session-id": "one"}})
"""Headers of the greeting, by path."""
DISCOVERED = {
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
}


def many_values(number: int) -> bytes:
    """Return a result of 1,300,000 values in less than 4 MiB."""
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":[' % number
    return head + b"[]," * 1_300_000 + b"[]]}}}"


class Odd(BaseHTTPRequestHandler):
    """Greets as a server does, and answers calls as its path says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request.get("method") == "initialize":
            version = request["params"]["protocolVersion"]
            info = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "odd", "version": "1"}}
            self.answer(
                200, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": info}), **SESSION[self.path]
            )
        elif "id" not in request:
            self.answer(202, b"")
        elif request["method"] == "server/discover" and self.path == "/untyped":
            self.answer(200, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": DISCOVERED}))
        elif request["method"] == "tools/call":
            getattr(self, self.path.strip("/"))(request["id"])
        else:
            error = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}}
            self.answer(200, orjson.dumps(error))

    def do_GET(self) -> None:
        if self.path == "/silent_events":
            self.begin("text/event-stream")
            self.wfile.flush()
            time.sleep(5)
        elif self.path == "/other_endpoint":
            self.begin("text/event-stream")
            self.wfile.write(b"event: endpoint\ndata: http://127.0.0.2:1/steal\n\n")
        else:
            self.answer(405, b"")

    def do_DELETE(self) -> None:
        time.sleep(30)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.close_connection = True

    def stays(self, number: int) -> None:
        self.answer(200, orjson.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": []}}))

    def untyped(self, number: int) -> None:
        self.stays(number)

    def status_401(self, number: int) -> None:
        self.answer(401, b"no")

    def status_403(self, number: int) -> None:
        self.answer(403, b"no", WWW_Authenticate='Bearer error="insufficient_scope", scope="read write"')

    def status_500(self, number: int) -> None:
        self.answer(500, b"oh")

    def status_502(self, number: int) -> None:
        self.answer(502, b"oh")

    def elsewhere(self, number: int) -> None:
        self.answer(307, b"", Location="http://127.0.0.2:1/mcp")

    def html(self, number: int) -> None:
        self.answer(200, b"<html>", Content_Type="text/html")

    def accepted(self, number: int) -> None:
        self.answer(202, b"null")

    def empty(self, number: int) -> None:
        self.send_response(204)
        self.end_headers()

    def garbage(self, number: int) -> None:
        self.answer(200, b"{no json")

    def packed(self, number: int) -> None:
        self.answer(200, gzip.compress(bytes(50 * MIB)), Content_Encoding="gzip")

    def informational(self, number: int) -> None:
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 17)
        self.stays(number)

    def closes(self, number: int) -> None:
        self.close_connection = True

    def half(self, number: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"jsonrpc')
        self.close_connection = True

    def values(self, number: int) -> None:
        self.answer(200, many_values(number))

    def values_in_an_event(self, number: int) -> None:
        body = b': "\nevent: message\ndata: ' + many_values(number).replace(b"[],[],", b"[],\ndata:[],", 5) + b"\n\n"
        self.answer(200, body, Content_Type="text/event-stream")

    def values_in_another_encoding(self, number: int) -> None:
        body = b"data: " + many_values(number) + b"\n\n"
        self.answer(200, body.decode().encode("cp500"), Content_Type="text/event-stream; charset=cp500")

    def endless_comments(self, number: int) -> None:
        self.begin("text/event-stream")
        self.pour(b": a comment\n" * 5000)

    def endless(self, number: int) -> None:
        self.begin("application/json")
        self.pour(b"x" * 65536)

    def endless_event(self, number: int) -> None:
        self.begin("text/event-stream")
        self.wfile.write(b"data: ")
        self.pour(b"x" * 65536)

    def endless_events(self, number: int) -> None:
        self.begin("text/event-stream")
        message = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 60000}})
        self.pour(b"data: " + message + b"\n\n")

    def pour(self, piece: bytes) -> None:
        try:
            for _ in range(16 * 1024):
                self.wfile.write(piece)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def odd() -> Iterator[Callable[[str], McpServerDefinition]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def at(path: str) -> McpServerDefinition:
        url = f"http://127.0.0.1:{server.server_port}/{path}"
        return McpServerDefinition(name="odd", url=url, file="odd.yaml", mode="legacy", start_s=5.0)

    yield at
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("status_401", ToolFailed, "does not accept the credentials"),
        ("status_403", ToolFailed, "it wants the scope 'read write' (HTTP 403)"),
        ("status_500", ToolFailed, "refused"),
        ("status_502", ToolCutOff, "its gateway got no answer"),
        ("elsewhere", ToolFailed, "not followed"),
        ("html", ToolCutOff, "HTTP 200 with text/html, which is no message"),
        ("accepted", ToolCutOff, "HTTP 202 with application/json, which is no message"),
        ("empty", ToolCutOff, "HTTP 204 with a body without a type, which is no message"),
        ("garbage", ToolCutOff, "its answer is no message"),
        ("packed", ToolCutOff, "compressed its answer"),
        ("closes", ToolCutOff, "connection broke"),
        ("informational", ToolCutOff, "it sent more than 16 informational answers (1xx) and no other"),
        ("half", ToolCutOff, "connection broke"),
        ("endless", ToolCutOff, "more than 4,194,304 bytes"),
        ("endless_event", ToolCutOff, "4194304 byte limit"),
        ("endless_events", ToolCutOff, "without being asked"),
        ("endless_comments", ToolCutOff, "an event of more than 5,242,880 bytes"),
        ("values", ToolCutOff, "more than 100,000 values"),
        ("values_in_an_event", ToolCutOff, "more than 100,000 values"),
        ("values_in_another_encoding", ToolCutOff, "ended without a response"),
    ],
)
def test_a_server_that_misbehaves_costs_its_call(
    run: Run, odd: Callable[[str], McpServerDefinition], path: str, kind: type[Exception], message: str
) -> None:
    process = psutil.Process()

    async def use(pool: McpPool) -> int:
        before = process.memory_info().rss
        with pytest.raises((ToolCutOff, ToolFailed, OutputUnfit)) as caught:
            await pool.call("t", odd(path), "anything", {})
        assert type(caught.value) is kind
        assert message in str(caught.value)
        return process.memory_info().rss - before

    assert run(use) < 64 * MIB


def test_a_result_without_its_type_is_complete(run: Run, odd: Callable[[str], McpServerDefinition]) -> None:
    server = odd("untyped").model_copy(update={"mode": "auto"})

    async def use(pool: McpPool) -> tuple[str, Any]:
        answer = await pool.call("t", server, "anything", {})
        [session] = pool._sessions
        return session.life.protocol, answer.result_type

    assert run(use) == ("2026-07-28", "complete")


def test_a_server_that_wants_other_credentials_needs_a_login(
    run: Run, odd: Callable[[str], McpServerDefinition]
) -> None:
    async def use(pool: McpPool) -> McpServerState:
        with pytest.raises(ToolFailed):
            await pool.call("t", odd("status_401"), "anything", {})
        return pool.states()["odd"]

    assert run(use).state is McpState.NEEDS_LOGIN


@pytest.mark.parametrize("path", ["silent_events", "other_endpoint", "status_401"])
def test_a_server_of_the_older_kind_that_does_not_greet_is_down_in_time(
    run: Run, odd: Callable[[str], McpServerDefinition], path: str
) -> None:
    server = odd(path).model_copy(update={"transport": "sse", "start_s": 0.5})
    began_s = time.monotonic()

    with pytest.raises(McpServerDown):
        run(lambda pool: pool.tools("t", server))

    assert time.monotonic() - began_s < 4


def test_the_end_of_a_session_does_not_wait_for_its_server(run: Run, odd: Callable[[str], McpServerDefinition]) -> None:
    began_s = time.monotonic()

    run(lambda pool: pool.call("t", odd("stays"), "anything", {}))

    assert time.monotonic() - began_s < 5
