"""What arrives at a tool is on the disk before the tool is called."""

import asyncio
from pathlib import Path

import pytest

from agents.catalogue import find_tool, tools_of, wrap_tools
from agents.tools import tool
from agents.tools.call_context import ToolContext, enter_call
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.schema import build_tool
from cli.crashlab import ledger
from config.definitions.loading import pinned_definition
from config.effects import Effect


@tool(effect="pure")
def double(value: int) -> int:
    """Double it."""
    return 2 * value


@tool
async def later(value: int) -> dict[str, int]:
    """Wait for it."""
    return {"value": value}


@tool
def explode() -> str:
    """Raise."""
    raise ValueError("the fuse was lit")


def plain(value: int) -> int:
    """Say nothing of its effect."""
    return value


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    monkeypatch.setenv(ledger.VARIABLE, str(path))
    enter_call(
        ToolContext(
            run_id="run_1",
            thread_id="thr_1",
            call_id="call_1",
            idempotency_key="key_1",
            tenant="t",
            principal="p",
            files=CallSandbox(Path()),
        )
    )
    return path


def marks(path: Path) -> list[tuple[str, str, object]]:
    return [(entry.mark, entry.tool, entry.result) for entry in ledger.read(path)]


def test_a_call_is_written_down_before_and_after(file):
    assert ledger.watched(build_tool(double)).function(value=4) == 8

    assert marks(file) == [("began", "double", None), ("returned", "double", 8)]
    entry = ledger.read(file)[0]
    assert (entry.key, entry.call_id, entry.says, dict(entry.arguments)) == ("key_1", "call_1", "pure", {"value": 4})


def test_an_async_tool_stays_one(file):
    watched = ledger.watched(build_tool(later))

    assert watched.is_async
    assert asyncio.run(watched.function(value=1)) == {"value": 1}
    assert marks(file) == [("began", "later", None), ("returned", "later", {"value": 1})]


def test_what_a_tool_raises_is_raised(file):
    with pytest.raises(ValueError, match="fuse"):
        ledger.watched(build_tool(explode)).function()

    assert marks(file) == [("began", "explode", None), ("raised", "explode", None)]


def test_a_function_without_marks_says_nothing_of_its_effect(file):
    ledger.watched(build_tool(plain)).function(value=1)

    assert ledger.read(file)[0].says is None


def test_a_line_that_was_cut_off_never_was(file):
    ledger.watched(build_tool(double)).function(value=4)
    file.write_bytes(file.read_bytes()[:-5])

    assert marks(file) == [("began", "double", None)]


def test_there_may_be_no_ledger_yet(file):
    assert ledger.read(file) == ()


def test_tools_are_wrapped_as_they_are_before_the_agents_overrides(settings):
    text = (
        '{"name": "A", "model": "demo/instant", "system_prompt": "x", "tools": ["tests.soak.tools:pay"],'
        ' "tool_overrides": {"pay": {"effect": "pure"}}}'
    )
    seen = []

    def wrap(tool):
        seen.append((tool.name, str(tool.effect)))
        return tool

    wrap_tools(wrap)
    try:
        tools = tools_of(pinned_definition("a", "", text), settings)
    finally:
        wrap_tools(None)

    assert seen == [("pay", "unsafe")]
    assert tools["pay"].effect is Effect.PURE
    assert find_tool("tests.soak.tools:pay", settings).effect is Effect.UNSAFE


def test_a_line_behind_one_that_a_kill_truncated_is_read(tmp_path):
    entry = ledger.Entry(mark=ledger.BEGAN, tool="order", says=None, key="k", call_id="c", arguments={})
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"mark":"beg')

    ledger.write(path, entry)

    assert ledger.read(path) == (entry,)
