"""A server on stdio that misbehaves: its call ends with what happened, its session at most, and no process stays."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from contextlib import suppress
from typing import Any

import orjson
import psutil
import pytest

from agents.errors import McpServerDown, OutputUnfit
from agents.tools.mcp.connection.faults import with_remedy
from agents.tools.mcp.connection.stdio import MAX_SHOWN, end_of
from agents.tools.mcp.connection.traffic import MAX_VALUES, TooMuch, require_few_values
from agents.tools.mcp.pool import McpPool
from config.definitions.mcp.server import McpLimitFields, McpServerDefinition
from config.errors import ToolCutOff, ToolFailed
from tests.agents.tools.mcp.conftest import Define, Run, said

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
MIB = 1024 * 1024


def test_a_call_is_answered(run: Run, define: Define) -> None:
    assert said(run(lambda pool: pool.call("t", define(), "echo", {"say": "hello"}))) == "hello"


def test_a_call_is_answered_on_asyncios_own_loop(define: Define) -> None:
    async def use() -> str:
        pool = McpPool()
        try:
            return said(await pool.call("t", define(), "echo", {"say": "hello"}))
        finally:
            await pool.close()

    assert asyncio.run(use()) == "hello"


def test_a_server_has_the_limits_of_its_file_and_the_workers_otherwise(run: Run, define: Define) -> None:
    def limits_of(server: McpServerDefinition) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = json.loads(said(run(lambda pool: pool.call("t", server, "limits", {}))))
        return by_name

    limits = limits_of(define(limits=McpLimitFields(cpu_s=70, memory_mb=2048, files=99, file_mb=3)))
    plain = limits_of(define())

    mine = {name: list(resource.getrlimit(getattr(resource, name))) for name in plain}
    assert plain == {**mine, "RLIMIT_CORE": [0, 0]}
    expected = {
        "RLIMIT_CPU": 70,
        "RLIMIT_AS": 2048 * MIB,
        "RLIMIT_NOFILE": 99,
        "RLIMIT_FSIZE": 3 * MIB,
        "RLIMIT_CORE": 0,
    }
    assert limits == {name: [most, most] for name, most in expected.items()}


def test_a_server_that_needs_more_memory_than_its_file_allows_ends_by_itself(run: Run, define: Define) -> None:
    server = define(limits=McpLimitFields(memory_mb=64))

    with pytest.raises(ToolCutOff, match="it ended with status"):
        run(lambda pool: pool.call("t", server, "values", {"count": 50 * MIB}))


def test_a_server_that_ends_at_once_is_down_with_its_own_words(run: Run, define: Define) -> None:
    with pytest.raises(McpServerDown, match=r"status 4; its standard error ends with: a package is missing"):
        run(lambda pool: pool.call("t", define("exit"), "echo", {}))


def test_a_command_that_is_not_there_is_named(run: Run, define: Define) -> None:
    with pytest.raises(McpServerDown, match=r"there is no program 'no-such-program'"):
        run(lambda pool: pool.call("t", define(command="no-such-program", args=()), "echo", {}))


def test_a_server_of_an_unknown_version_is_down_with_that_version(run: Run, define: Define) -> None:
    with pytest.raises(McpServerDown, match="it speaks the version '1999-01-01' of the protocol") as caught:
        run(lambda pool: pool.call("t", define("version=1999-01-01"), "echo", {}))

    assert "Use a release of the server" in with_remedy(caught.value)


@pytest.mark.parametrize("word", ["silent", "deaf"])
def test_a_server_that_never_answers_the_greeting_is_down_in_time(run: Run, define: Define, word: str) -> None:
    began_s = time.monotonic()

    with pytest.raises(McpServerDown, match=r"not ready within 0\.5 seconds"):
        run(lambda pool: pool.call("t", define(word, start_s=0.5), "echo", {}))

    assert time.monotonic() - began_s < 5


def test_a_crash_in_mid_call_cuts_the_call_off_and_the_next_one_is_answered(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> str:
        with pytest.raises(ToolCutOff, match=r"did not answer: it ended with status 3; .*out of luck"):
            await pool.call("t", define(), "crash", {})
        return said(await pool.call("t", define(), "echo", {"say": "again"}))

    assert run(use) == "again"


def test_a_crash_cuts_off_the_other_calls_as_well(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> list[Any]:
        server = define()
        calls = [pool.call("t", server, name, {}) for name in ("hang", "hang", "crash")]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [type(error) for error in run(use)] == [ToolCutOff] * 3


def test_a_server_that_stops_writing_is_noticed(run: Run, define: Define) -> None:
    with pytest.raises(ToolCutOff):
        run(lambda pool: pool.call("t", define(), "close", {}))


def test_a_call_that_hangs_ends_with_its_caller_and_the_server_goes_on(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> str:
        began_s = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await pool.call("t", define(), "hang", {})
        assert time.monotonic() - began_s < 1.3
        return said(await pool.call("t", define(), "echo", {"say": "still here"}))

    assert run(use) == "still here"


def test_a_server_that_is_silent_for_long_is_replaced(
    run: Run, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.tools.mcp.server_session.SILENT_S", 0.1)

    async def use(pool: McpPool) -> list[int]:
        pids = [await pid_of(pool, define())]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await pool.call("t", define(), "slow", {"seconds": 30})
        return [*pids, await pid_of(pool, define())]

    first, second = run(use)
    assert first != second


def test_a_server_that_is_silent_through_many_short_calls_is_replaced(
    run: Run, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.tools.mcp.server_session.SILENT_S", 0.5)

    async def use(pool: McpPool) -> list[int]:
        pids = [await pid_of(pool, define())]
        for _ in range(4):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await pool.call("t", define(), "slow", {"seconds": 30})
        return [*pids, await pid_of(pool, define())]

    first, second = run(use)
    assert first != second


async def pid_of(pool: McpPool, server: Any) -> int:
    return int(orjson.loads(said(await pool.call("t", server, "environment", {})))["pid"])


@pytest.mark.parametrize("size", [5 * MIB, 100 * MIB])
def test_a_line_that_is_too_long_ends_the_session_and_nothing_else(run: Run, define: Define, size: int) -> None:
    async def use(pool: McpPool) -> str:
        other = define(name="other")
        await pool.call("t", other, "echo", {})
        with pytest.raises(ToolCutOff, match="more than 4,194,304 bytes"):
            await pool.call("t", define(), "big", {"bytes": size})
        return said(await pool.call("t", other, "echo", {"say": "not concerned"}))

    assert run(use) == "not concerned"


def test_a_long_text_with_many_commas_is_no_message_of_many_values(run: Run, define: Define) -> None:
    text = "," * (MAX_VALUES + 10)

    assert said(run(lambda pool: pool.call("t", define(), "echo", {"say": text}))) == text


def test_a_message_that_is_nested_too_deeply_ends_the_session_at_once(run: Run, define: Define) -> None:
    with pytest.raises(ToolCutOff, match="nested more than 200 levels deep"):
        run(lambda pool: pool.call("t", define(), "deep", {"levels": 300}))


async def peak_growth(call: Any) -> int:
    """Return by how many bytes this process grew at most while a call was cut off."""
    process = psutil.Process()
    before = peak = process.memory_info().rss
    task = asyncio.ensure_future(call)
    while not task.done():
        peak = max(peak, process.memory_info().rss)
        await asyncio.sleep(0.002)
    assert isinstance(task.exception(), ToolCutOff)
    return peak - before


def test_what_is_no_message_is_passed_over(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> list[str]:
        server = define("garbage")
        names = ("garbage", "wrong_id", "twice", "number_as_id", "progress")
        return [said(await pool.call("t", server, name, {"count": 50})) for name in names]

    assert run(use) == ["after it", "right", "first", "as text", "progressed"]


ANSWER = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"TEXT"}]}}'


@pytest.mark.parametrize("before", [" \t", "\ufeff", "\r"], ids=["space", "byte order mark", "return"])
def test_what_stands_before_a_message_is_no_part_of_it(run: Run, define: Define, before: str) -> None:
    async def use(pool: McpPool) -> str:
        async with asyncio.timeout(10):
            return said(await pool.call("t", define(), "unread", {"line": before + ANSWER}))

    assert run(use) == "TEXT"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"line": ANSWER.replace("TEXT", r"cut \ud83d")}, "its answer is no message"),
        ({"line": ANSWER.replace('"TEXT"', "9" * 5000)}, "its answer is no message"),
        ({"line": ANSWER.replace("TEXT", "caf\xe9"), "encoding": "latin-1"}, "its answer is no message"),
        ({"line": '{"jsonrpc":"2.0","id":ID,"result":"no object"}'}, "its answer is no message"),
        ({"line": '{"id":"ID","result":{}}'}, "its answer is no message"),
        ({"line": f"[ {ANSWER}]"}, "it answered with a list of messages"),
    ],
    ids=["half a surrogate pair", "digits", "latin-1", "result", "no protocol", "batch"],
)
def test_an_answer_that_cannot_be_read_cuts_its_call_off_and_no_other(
    run: Run, define: Define, arguments: dict[str, str], problem: str
) -> None:
    async def use(pool: McpPool) -> str:
        server = define()
        other = asyncio.ensure_future(pool.call("t", server, "hang", {}))
        with pytest.raises(ToolCutOff, match=f"was asked and did not answer: {problem}"):
            async with asyncio.timeout(10):
                await pool.call("t", server, "unread", arguments)
        assert not other.done()
        other.cancel()
        return said(await pool.call("t", server, "echo", {"say": "and on"}))

    assert run(use) == "and on"


def test_a_list_of_messages_is_looked_at_before_it_is_parsed(run: Run, define: Define) -> None:
    many = "[{}" + ",{}" * MAX_VALUES + "]"

    async def use(pool: McpPool) -> None:
        async with asyncio.timeout(10):
            await pool.call("t", define(), "unread", {"line": many})

    with pytest.raises(ToolCutOff, match="more than 100,000 values"):
        run(use)


def test_a_result_that_is_none_is_unfit(run: Run, define: Define) -> None:
    with pytest.raises(OutputUnfit, match="what the protocol does not know"):
        run(lambda pool: pool.call("t", define(), "malformed", {}))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("short", "short"),
        ("a first line\n" + "x" * (MAX_SHOWN - 4) + "\nlast", "last"),
        ("a first line\n" + "x" * MAX_SHOWN, "x" * MAX_SHOWN),
        ("y" + "x" * MAX_SHOWN, "… " + "x" * MAX_SHOWN),
    ],
    ids=["short", "lines", "whole line", "one line"],
)
def test_of_a_long_standard_error_whole_lines_are_shown(output: str, expected: str) -> None:
    assert end_of(output) == expected


def test_a_call_that_the_server_refuses_has_failed(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> str:
        with pytest.raises(ToolFailed, match="refused the call: no such thing"):
            await pool.call("t", define(), "refuse", {})
        return said(await pool.call("t", define(), "echo", {"say": "and on"}))

    assert run(use) == "and on"


def test_questions_without_end_end_the_session(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> int:
        server = define()
        assert said(await pool.call("t", server, "ask", {"count": 20, "method": "sampling/createMessage"})) == "asked"
        return await peak_growth(pool.call("t", server, "ask", {"count": 5_000_000}))

    assert run(use) < 64 * MIB


def test_changed_tools_are_seen(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> list[bool]:
        server = define()
        name_sets = [{tool.name for tool in await pool.tools("t", server)}]
        await pool.call("t", server, "change", {})
        name_sets.append({tool.name for tool in await pool.tools("t", server)})
        return ["fresh" in names for names in name_sets]

    assert run(use) == [False, True]


@pytest.mark.parametrize("word", ["", "stays"])
def test_a_server_is_ended_with_all_that_it_started(run: Run, define: Define, word: str) -> None:
    async def use(pool: McpPool) -> list[int]:
        server = define(word)
        return [await pid_of(pool, server), int(said(await pool.call("t", server, "spawn", {})))]

    pids = run(use)

    assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_its_standard_error_is_logged_redacted_and_not_without_end(
    run: Run, define: Define, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="agents.tools.mcp.connection.stdio")
    secret = "sk-" + "a1" * 20

    run(lambda pool: pool.call("t", define(), "complain", {"say": f"the key is {secret} " + "x" * 5000, "count": 1000}))

    lines = [record.getMessage() for record in caplog.records if record.name == "agents.tools.mcp.connection.stdio"]
    assert 60 <= len(lines) <= 62
    assert "[redacted]" in lines[0]
    assert not any(secret in line or len(line) > 700 for line in lines)


def test_the_server_gets_listed_variables_and_no_others(
    run: Run, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "b2" * 20)
    monkeypatch.setenv("SHOP_REGION", "north")
    monkeypatch.setenv("SHOP_OTHER", "x")
    server = define(env={"MODE": "test"}, env_from=("SHOP_REGION",))

    environment = orjson.loads(said(run(lambda pool: pool.call("t", server, "environment", {}))))

    listed = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "MODE", "SHOP_REGION"}
    assert set(environment["names"]) <= listed
    assert {"MODE", "SHOP_REGION", "PATH"} <= set(environment["names"])


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"' + b'\\"' * 2_000_000 + b'","b":[' + b"1," * 300_000,
        b'{"a":' + b'"",' * 1_300_000,
        b"{" + b'"\\' * 2_000_000,
    ],
    ids=["escapes", "texts", "no end"],
)
def test_counting_the_values_of_a_message_takes_little_time(data: bytes) -> None:
    began_s = time.process_time()

    with suppress(TooMuch):
        require_few_values(data + b"," * (MAX_VALUES + 1))

    assert time.process_time() - began_s < 0.3
