"""Public MCP programs as they are installed: servers that agents use through a worker, and clients of our server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from bus.payloads import Payload, ToolProgressPayload, ToolResultPayload
from config.folders import ROOT
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment
from tests.journeys.web_server import Web
from tests.locked_environment import LockedEnvironment
from tests.mcp_suite.environment import MODULES, NEWEST, NODE, OLDER, require_suite
from tests.mcp_suite.server_tools import TOOLS
from tests.model_server import Call, Turn
from tests.ports import free_port
from tests.processes import run_python

pytestmark = [pytest.mark.journey, pytest.mark.timeout(300)]

SERVERS = MODULES / "@modelcontextprotocol"
EVERYTHING = SERVERS / "server-everything" / "dist" / "index.js"
FILES = SERVERS / "server-filesystem" / "dist" / "index.js"
PROGRAMS = ROOT / "tests" / "mcp_suite"
RUN_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def suite() -> None:
    """The programs, installed."""
    require_suite()
    NEWEST.ready()
    OLDER.ready()


@pytest.fixture(scope="module")
def fleet_settings(fleet_settings: Settings, suite: None) -> Settings:
    """A deployment that asks for credentials, with MCP servers and an agent that has the suite's tools."""
    folder = fleet_settings.state.parent
    for name in ("servers", "agents"):
        (folder / name).mkdir()
    agent = {"name": "Suite", "model": "demo/assistant", "system_prompt": "You are a test.", "tools": TOOLS}
    (folder / "agents" / "suite.yaml").write_text(yaml.safe_dump(agent))
    more = {"mcp_servers_dir": str(folder / "servers"), "port": free_port(), "auth": "required"}
    return fleet_settings.model_copy(update={**more, "default_agent": "suite"})


@pytest.fixture(scope="module")
def served(suite: None) -> Iterator[dict[str, str]]:
    """The server `everything` over HTTP: the addresses of both of its transports."""
    ports = {"streamableHttp": free_port(), "sse": free_port()}
    started = [_everything(transport, port) for transport, port in ports.items()]
    yield {"http": f"http://127.0.0.1:{ports['streamableHttp']}/mcp", "sse": f"http://127.0.0.1:{ports['sse']}/sse"}
    for process in started:
        process.terminate()
        process.communicate()


def _everything(transport: str, port: int) -> subprocess.Popen[str]:
    """Start the server, and return when it says that it listens."""
    process = subprocess.Popen(
        [NODE, EVERYTHING, transport], env={"PORT": str(port)}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any(str(port) in line for line in lines), f"{transport} did not start"
    return process


class PackagedServer:
    """An agent whose tools are those of one server, and a script for its model."""

    def __init__(self, harness: AppHarness, name: str, **fields: Any) -> None:
        self._harness = harness
        self.name = name
        servers = harness.settings.mcp_servers_folders[0]
        (servers / f"{name}.yaml").write_text(yaml.safe_dump(fields))
        harness.agent(f"tools: ['mcp:{name}']", name)

    def events(self, *calls: Call) -> list[Payload]:
        """Let the worker run the agent, whose model makes the calls one after the other; return the run's log."""
        self._harness.model.script([*(Turn(calls=(call,)) for call in calls), Turn(text="Done.")])
        handle = self._harness.runner.run("Do it.", self.name, detached=True)
        payloads = list(handle.events())
        assert handle.result(RUN_S).status == "succeeded", payloads
        return payloads


def results(events: list[Payload]) -> list[tuple[str, Any]]:
    """Return how each call ended, and with what."""
    return [(event.outcome, event.result) for event in events if isinstance(event, ToolResultPayload)]


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_an_agent_uses_the_server_everything(
    transport: str, fleet_harness: AppHarness, worker: Worker, served: Mapping[str, str]
) -> None:
    fields: dict[str, Any] = {"url": served.get(transport), "transport": transport}
    if transport == "stdio":
        fields = {"command": str(NODE), "args": [str(EVERYTHING), "stdio"]}
    server = PackagedServer(fleet_harness, f"everything-{transport}", **fields)

    events = server.events(
        Call(name="echo", arguments={"message": "héllo"}),
        Call(name="get-sum", arguments={"a": 2, "b": 40}),
        Call(name="get-structured-content", arguments={"location": "Chicago"}),
        Call(name="get-tiny-image", arguments={}),
        Call(name="trigger-long-running-operation", arguments={"duration": 0.4, "steps": 2}),
        Call(name="get-sum", arguments={"a": "two", "b": 40}),
    )

    picture = {"type": "image", "mime_type": "image/png", "note": "4,035 bytes, which are not shown"}
    assert results(events) == [
        ("done", "Echo: héllo"),
        ("done", "The sum of 2 and 40 is 42."),
        ("done", {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}),
        ("done", ["Here's the image you requested:", picture, "The image above is the MCP logo."]),
        ("done", "Long running operation completed. Duration: 0.4 seconds, Steps: 2."),
        ("failed", 'The call was not made: the arguments of get-sum do not fit: a: "two" is not of type "number".'),
    ]
    assert {event.total for event in events if isinstance(event, ToolProgressPayload)} == {2}


def test_an_agent_uses_the_server_filesystem(fleet_harness: AppHarness, worker: Worker, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    letter = str(shared / "letter.txt")
    server = PackagedServer(fleet_harness, "files", command=str(NODE), args=[str(FILES), str(shared)])

    events = server.events(
        Call(name="write_file", arguments={"path": letter, "content": "Dear Ann"}),
        Call(name="list_directory", arguments={"path": str(shared)}),
        Call(name="read_text_file", arguments={"path": letter}),
        Call(name="read_text_file", arguments={"path": "/etc/passwd"}),
    )

    *done, (outcome, message) = results(events)
    assert done == [
        ("done", {"content": f"Successfully wrote to {letter}"}),
        ("done", {"content": "[FILE] letter.txt"}),
        ("done", {"content": "Dear Ann"}),
    ]
    assert (outcome, message.partition(": /")[0]) == (
        "failed",
        "Error: Access denied - path outside allowed directories",
    )
    assert (shared / "letter.txt").read_text() == "Dear Ann"


class Shop(SimpleHTTPRequestHandler):
    """A site of one page."""

    def log_message(self, *_: Any) -> None:
        pass


def test_an_agent_uses_the_server_fetch(fleet_harness: AppHarness, worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "shop.html").write_text("<html><body><h1>Shop</h1><p>Open until <b>six</b>.</p></body></html>")
    words = ["-m", "mcp_server_fetch", "--allow-private-ips"]
    server = PackagedServer(fleet_harness, "fetch", command=str(NEWEST.python), args=words)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Shop, directory=str(tmp_path))) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        pages = [f"http://127.0.0.1:{site.server_port}/{name}.html" for name in ("shop", "none")]
        events = server.events(*(Call(name="fetch", arguments={"url": page}) for page in pages))
        site.shutdown()

    (read, page), (refused, message) = results(events)
    print(page, message)
    assert (read, refused) == ("done", "failed")
    assert "Open until **six**." in page
    assert "404" in message


# --- clients of our server --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(fleet_settings: Settings, worker: Worker) -> Iterator[Web]:
    """A web process that asks for credentials."""
    with Web(fleet_settings) as process:
        yield process


@pytest.mark.parametrize(("program", "used"), [("fastmcp", NEWEST), ("older", OLDER)], ids=["fastmcp", "older"])
@pytest.mark.parametrize("way", ["http", "stdio"])
def test_a_client_from_a_package_uses_our_server(
    program: str, used: LockedEnvironment, way: str, web: Web, fleet_settings: Settings
) -> None:
    shows_forms = (program, way) != ("older", "http")  # which has no sessions for the handshake era
    variables = environment(fleet_settings) | {"PYTHONPATH": str(ROOT)}
    where: dict[str, Any] = {"command": sys.executable, "args": ["-P", "-m", "cli", "mcp", "serve"], "env": variables}
    if way == "http":
        created = run_python("-P", "-m", "cli", "keys", "create", program, "--json", env=variables, timeout_s=60)
        where = {"url": f"{web.address}/mcp", "key": json.loads(created.stdout)["key"]}

    ran = subprocess.run(
        [used.python, PROGRAMS / f"{program}_program.py", json.dumps(where)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)

    ended = {name: result["status"] for name, result in report.items() if name.startswith("test_")}
    test_streaming_elicitation = report["test_streaming_elicitation"]
    assert report["tools"][-3:] == ["run_status", "run_events", "cancel_run"]
    assert report["test_simple_text"]["text"] == "This is a simple text response for testing."
    assert {"calls test_tool_with_progress", "test_tool_with_progress: done"} <= set(report["said"])
    assert report["test_error_handling"]["is_error"]
    assert report["resource"] == test_streaming_elicitation["run_id"]
    assert ended == {"test_simple_text": "succeeded", "test_tool_with_progress": "succeeded"} | {
        "test_error_handling": "failed",
        "test_streaming_elicitation": "succeeded" if shows_forms else "waiting",
    }
    assert test_streaming_elicitation.get("output") == ("Hello, Ann!" if shows_forms else None)
    assert test_streaming_elicitation.get("code") == (None if shows_forms else "APPROVAL_REQUIRED")
