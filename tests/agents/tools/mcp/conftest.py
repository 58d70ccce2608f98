"""Definitions of the fake server, and a pool that leaves no process behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agents.tools.mcp.pool import McpPool
from bus.loop import new_event_loop
from config.definitions.mcp.server import McpServerDefinition

FAKE = Path(__file__).with_name("fake_server.py")
Define = Callable[..., McpServerDefinition]
Run = Callable[[Callable[[McpPool], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def define(tmp_path: Path) -> Define:
    """Defines the fake server, begun with these words; fields may be others."""

    def defined(*words: str, **fields: Any) -> McpServerDefinition:
        values = {"name": "fake", "command": sys.executable, "args": ("-I", str(FAKE), *words), "start_s": 10.0}
        return McpServerDefinition(**{**values, "file": str(tmp_path / "fake.yaml"), **fields})

    return defined


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs a coroutine that takes a pool; nothing may be left of its servers."""
    before = set(psutil.Process().children(recursive=True))

    def ran(use: Callable[[McpPool], Coroutine[Any, Any, Any]]) -> Any:
        async def used() -> Any:
            pool = McpPool()
            try:
                return await use(pool)
            finally:
                await pool.close()

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(used())

    yield ran
    left = [child for child in set(psutil.Process().children(recursive=True)) - before if child.is_running()]
    assert not left, "a server, or what it started, outlived its pool"


def said(result: Any) -> str:
    """Return the text of a result."""
    (content,) = result.content
    return str(content.text)
