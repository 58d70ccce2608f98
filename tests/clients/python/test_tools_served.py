"""Tools of a project that the SDK's client calls over stdio, in each era of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult, TextContent

from tests.clients.python.served_tools import MODES, command, connected, make_project, start, started, variables

pytestmark = [pytest.mark.parity]

Use = Callable[[Client], Coroutine[Any, Any, Any]]
Calls = list[tuple[str, dict[str, Any]]]
UNTIL_S = 20


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's folder."""
    return make_project(tmp_path / "project")


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    """What the server's process printed."""
    return tmp_path / "errors.txt"


def using(project: Path, errors: Path, use: Use, mode: str = "auto") -> Any:
    """Return what ``use`` returns with a client of the project's tools."""

    async def run() -> Any:
        async with connected(project, mode, errors) as client:
            return await use(client)

    return asyncio.run(run())


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("mode", ["auto", *MODES])
def test_tools_are_listed_with_their_schemas_and_effects(project: Path, errors: Path, mode: str) -> None:
    async def list_tools(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in using(project, errors, list_tools, mode)}

    price, send = tools["price"], tools["send"]
    assert (price.description, price.meta) == (
        "Say what a book costs.",
        {"callboard/effect": "pure", "callboard/timeout_s": 5},
    )
    assert price.input_schema["properties"] == {"title": {"type": "string", "description": "the book's title."}}
    assert price.output_schema == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }
    assert send.output_schema["properties"]["size"] == {"enum": ["s", "l"]}
    hints = {
        name: (tool.annotations.read_only_hint, tool.annotations.idempotent_hint, tool.annotations.destructive_hint)
        for name, tool in tools.items()
    }
    assert hints["price"] == (True, True, False)
    assert hints["send"] == (False, True, True)
    assert hints["pay"] == hints["hang"] == (False, False, True)


@pytest.mark.parametrize("mode", MODES)
def test_calls_return_structured_content_and_prints_do_not_disturb(project: Path, errors: Path, mode: str) -> None:
    parcel = {"number": "P-1", "sent": "2026-11-23", "size": "l"}

    async def call(client: Client) -> list[CallToolResult]:
        key = {"callboard/idempotency_key": "run 1 step 2"}
        return [
            await client.call_tool("price", {"title": "Emma"}),
            await client.call_tool("send", {"parcel": parcel}),
            await client.call_tool("pay", {"euros": 3}, meta=key),  # type: ignore[arg-type]  # a TypedDict of the SDK's keys
        ]

    price, sent, paid = using(project, errors, call, mode)

    assert (text_of(price), price.structured_content, price.is_error) == ("7", {"result": 7}, False)
    assert (sent.structured_content, json.loads(text_of(sent))) == (parcel, parcel)
    assert (text_of(paid), paid.structured_content) == ("3.00 paid with run 1 step 2", None)
    printed = errors.read_text()
    assert [f"printed by {what}" in printed for what in ("the import", "the tool", "a child")] == [True] * 3
    assert "stdin has ''" in printed


@pytest.mark.parametrize("mode", MODES)
def test_what_goes_wrong_is_a_sentence_for_the_model(project: Path, errors: Path, mode: str) -> None:
    async def call(client: Client) -> list[CallToolResult]:
        named: Calls = [
            ("price", {"title": "Dracula"}),
            ("price", {"title": 3, "shelf": 1}),
            ("send", {}),
            ("leave", {}),
        ]
        named += [
            ("send", {"parcel": {"number": "P-2", "sent": "2026-11-23"}}),
            ("leave_loop", {}),
            ("lie", {}),
            ("large", {}),
            ("surrogate", {}),
        ]
        return [await client.call_tool(name, arguments) for name, arguments in named]

    *failed, surrogate = using(project, errors, call, mode)

    assert [result.is_error for result in failed] == [True] * len(failed)
    assert [text_of(result) for result in failed] == [
        "KeyError: 'Dracula'",
        "the arguments of price do not fit: there is no 'shelf'; known: title; title is 3, and has to be text.",
        "the arguments of send do not fit: parcel is missing.",
        "SystemExit: good bye",
        "KeyError: 'P-2'",
        "SystemExit: good bye",
        "lie was called, and its result cannot be used: the result is 'three', and has to be a whole number.",
        text_of(failed[-1]),
    ]
    assert re.fullmatch(
        r"large was called, and its result has 5,000,\d+ bytes, of at most 4,194,304; return less\.",
        text_of(failed[-1]),
    )
    assert text_of(surrogate) == "a?b"
    assert "Traceback" in errors.read_text()


@pytest.mark.parametrize("mode", MODES)
def test_calls_run_at_once(project: Path, errors: Path, mode: str) -> None:
    async def meet(client: Client) -> list[CallToolResult]:
        return await asyncio.gather(*(client.call_tool("meet") for _ in range(3)))

    assert [result.is_error for result in using(project, errors, meet, mode)] == [False] * 3


def test_two_hundred_calls_at_once_are_answered(project: Path, errors: Path) -> None:
    async def call(client: Client) -> list[CallToolResult]:
        named: Calls = [("price", {"title": "Emma"}), ("pay", {"euros": 1})] * 100
        return await asyncio.gather(*(client.call_tool(name, arguments) for name, arguments in named))

    results = using(project, errors, call)

    assert [result.is_error for result in results] == [False] * 200


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_takes_too_long_has_an_unknown_outcome(project: Path, errors: Path, mode: str) -> None:
    async def hang(client: Client) -> tuple[MCPError, CallToolResult]:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("hang")
        return caught.value, await client.call_tool("price", {"title": "Emma"})

    error, after = using(project, errors, hang, mode)

    assert (error.code, str(error)) == (-32001, "hang did not answer within 0.1 seconds; it is not known what it did.")
    assert after.structured_content == {"result": 7}


@pytest.mark.parametrize("mode", MODES)
def test_a_call_is_cancelled(project: Path, errors: Path, tmp_path: Path, mode: str) -> None:
    marker = tmp_path / "cancelled"

    async def cancel(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("cancelled", {"marker": str(marker)}))
        await until(marker.with_suffix(".begun").exists)
        call.cancel()
        await until(marker.exists)

    using(project, errors, cancel, mode)


async def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + UNTIL_S
    while not condition():
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)  # another process; its file is the only sign


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(project: Path, errors: Path, mode: str) -> None:
    async def call(client: Client) -> MCPError:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("refund")
        return caught.value

    error = using(project, errors, call, mode)

    assert error.code == -32602
    assert "there is no tool 'refund'; known: price, send, " in str(error)


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "with_child"}}


@pytest.mark.parametrize("way", ["end of input", "SIGTERM"])
def test_the_process_ends_at_once_with_what_its_tools_started(project: Path, tmp_path: Path, way: str) -> None:
    marker = tmp_path / "child"
    call = {**CALL, "params": {"name": "with_child", "arguments": {"marker": str(marker)}}}
    with started(project) as server:
        assert server.stdin is not None
        server.stdin.write(json.dumps(call).encode() + b"\n")
        server.stdin.flush()
        asyncio.run(until(marker.exists))
        child = int(marker.read_text())

        if way == "SIGTERM":
            server.send_signal(signal.SIGTERM)
        else:
            server.stdin.close()
        status = server.wait(5)

    assert status == (128 + signal.SIGTERM if way == "SIGTERM" else 0)
    asyncio.run(until(lambda: not is_alive(child)))


def is_alive(process: int) -> bool:
    """Return whether a process runs; one that has ended and that nothing has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_garbage_is_answered_and_does_not_end_the_server(project: Path) -> None:
    lines = [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b'{"jsonrpc": "2.0"}', b"[" * 100_000, b'{"a": NaN}']
    lines += [b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', b'{"jsonrpc": "2.0", "id": 1, "result": {}}']
    lines += [b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": 3}', b"x" * 17_000_000]
    lines += [b'{"jsonrpc": "2.0", "id": 3, "method": "ping"}']

    output, _ = start(project).communicate(b"\n".join(lines) + b"\n", timeout=30)

    answers = [json.loads(line) for line in output.splitlines()]
    codes = [answer["error"]["code"] for answer in answers[:-1]]
    assert codes == [-32700, -32600, -32600, -32700, -32600, -32700, -32700, -32600, -32600, -32600]
    assert answers[-1] == {"jsonrpc": "2.0", "id": 3, "result": {}}


MARKED = "from callboard_client.tools import tool\n\n@tool{}\ndef refund({}){}:\n    '''Pay back.'''\n"
REFUSED = {
    "no such module": (
        None,
        "shop.tolls",
        "there is no module 'shop.tolls' in {cwd} or on Python's path; start this in",
    ),
    "no such package": (None, "shap.tools", "there is no module 'shap' in {cwd} or on Python's path; start this in"),
    "a path": (None, "shop/tools.py", "'shop/tools.py' is not the name of a module; write it with dots"),
    "no tools": ("X = 1", "shop.tools", "shop.tools has no tools; write `from callboard_client.tools import tool`"),
    "another import": (
        "import missing_thing",
        "shop.tools",
        "shop.tools imports 'missing_thing', which is not there; ",
    ),
    "it raises": ("\n1 / 0", "shop.tools", "ZeroDivisionError: division by zero ({cwd}/shop/tools.py, line 2)."),
    "it exits": ("raise SystemExit(0)", "shop.tools", "shop.tools cannot be imported: SystemExit: 0"),
    "no syntax": ("def", "shop.tools", "shop.tools cannot be imported: SyntaxError: "),
    "one name twice": (
        MARKED.format("", "", "") + "\n@tool(name='refund')\ndef other():\n    '''Do.'''\n",
        "shop.tools",
        "two tools are called 'refund': shop.tools:refund and shop.tools:other; give one of them another name",
    ),
    "no effect": (
        MARKED.format("(effect='pur')", "", ""),
        "shop.tools",
        "there is no effect 'pur'; write one of 'pure'",
    ),
    "checkable": (MARKED.format("(effect='checkable')", "", ""), "shop.tools", "effect 'checkable' needs a check"),
    "no time": (MARKED.format("(timeout_s=0)", "", ""), "shop.tools", "timeout_s is 0; write the seconds"),
    "no type": (MARKED.format("", "number", ""), "shop.tools", "number has no type; write `number: str`"),
    "any arguments": (MARKED.format("", "**rest: str", ""), "shop.tools", "takes **rest, which no schema can describe"),
    "by position": (MARKED.format("", "number: str, /", ""), "shop.tools", "takes number by position only"),
    "bytes": (MARKED.format("", "photo: bytes", ""), "shop.tools", "photo has a type without a JSON Schema"),
    "bytes back": (MARKED.format("", "", " -> bytes"), "shop.tools", "its result has a type without a JSON Schema"),
    "a name": (MARKED.format("(name='pay back')", "", ""), "shop.tools", "is called 'pay back'; a tool's name has"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_served_is_said_before_anything_is_served(tmp_path: Path, case: str) -> None:
    text, module, sentence = REFUSED[case]
    project = make_project(tmp_path / "project", text or "")

    server = start(project, module)
    output, errors = server.communicate(timeout=30)

    assert (server.returncode, output) == (1, b"")
    last = errors.decode().splitlines()[-1]
    assert last.startswith("error: ")
    assert sentence.format(cwd=os.path.realpath(project)) in last
    assert "Traceback" not in errors.decode()


def test_a_process_without_a_client_says_how_it_is_used(project: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *command("shop.tools")]

    ran = subprocess.run(closed, cwd=project, env=variables(), capture_output=True, text=True, timeout=30, check=False)

    assert (ran.returncode, ran.stderr) == (
        1,
        "error: stdin or stdout is closed; let an MCP client start this, or add --list.\n",
    )


def test_the_tools_can_be_listed_without_a_client(project: Path) -> None:
    server = start(project, "--list", "shop.tools")

    output, _ = server.communicate(timeout=30)

    assert b"price (pure, 5 s): Say what a book costs.\nsend (idempotent): Send a parcel.\n" in output
    assert server.returncode == 0
