"""The MCP server in memory: an SDK's client beside it on the process's loop, and runs that this process executes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client

from agents.governance.guardrails.guardrails import Guardrails
from agents.process import Process, current_process, use_process
from agents.registry import AgentRegistry
from agents.runner import Runner
from bus.journal import Journal
from cli.mcp.stdio import OwnTools
from config.identity.principal import Principal
from config.settings import Settings
from tests.web.mcp import counter
from web.mcp.server import build_server
from web.mcp.service import Acting, Service

T = TypeVar("T")

TOOLS = ("add", "book", "burn", "count_money", "open_safe", "repeat", "seat", "wait_outside")
AGENT = f"""\
name: Counter
description: Counts things.
model: demo/assistant
system_prompt: You count.
tools: [{", ".join(f"'tests.web.mcp.counter:{name}'" for name in TOOLS)}]
"""
MODES = ("legacy", "2026-07-28")


@dataclass(frozen=True)
class Place:
    """A served installation."""

    service: Service

    def use(self, work: Callable[[Client], Coroutine[Any, Any, T]], mode: str = "legacy", **options: Any) -> T:
        """Connect a client, and return the result of what it does."""

        async def connected() -> T:
            server = await self.service.loop.wait(build_server, self.service)
            async with Client(server, mode=mode, **options) as client:
                done = asyncio.ensure_future(work(client))
                await asyncio.wait([done])
            return done.result()  # outside, where it is in no group of exceptions

        return self.service.loop.run(connected(), 40)

    def call(self, name: str, mode: str = "legacy", options: dict[str, Any] | None = None, **arguments: Any) -> Any:
        """Call a tool, and return the result."""
        return self.use(lambda client: client.call_tool(name, arguments), mode, **(options or {}))

    def state(self, name: str, mode: str = "legacy", options: dict[str, Any] | None = None, **arguments: Any) -> Any:
        """Call a tool, and return the structured content."""
        return self.call(name, mode, options, **arguments).structured_content

    def with_settings(self, **changed: Any) -> Place:
        """Return the place with other settings of the server."""
        process = current_process()
        with_settings = replace(process, settings=process.settings.model_copy(update=changed))
        return Place(replace(self.service, runner=Runner(with_settings)))

    def as_principal(self, principal: Principal) -> Place:
        """Return the place for another caller."""
        return Place(replace(self.service, caller=lambda _: Acting(principal=principal)))


@pytest.fixture(autouse=True)
def _without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no worker's tools, since there is none."""
    monkeypatch.setattr("web.mcp.offers.START_S", 0.0)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """The era of the protocol."""
    return str(request.param)


@pytest.fixture
def place(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name in ("TURN_S", "WAITING_S"):
        monkeypatch.setattr(f"handlers.run_agent.{name}", 0.02)
    counter.is_open.clear()
    counter.calls_made.clear()
    (Path(settings.agents_dir) / "counter.yaml").write_text(AGENT)
    settings = settings.model_copy(update={"default_agent": "counter"})
    journal = Journal(settings, publish=lambda message: None, guard=Guardrails)
    registry = AgentRegistry(settings.agent_folders, settings.local_principal)
    process = Process(settings=settings, journal=journal, registry=registry)
    use_process(process)
    runner = Runner(process)
    tools = OwnTools(process)
    yield Place(
        Service(
            runner=runner,
            caller=lambda _: Acting(principal=runner.principal, url="https://callboard.example.org"),
            tools_of=tools.of,
            is_detached=lambda _: False,
            has_one_client=True,
        )
    )
    counter.is_open.set()
    for run in journal.readers.runs.newest(runner.principal, status="open"):
        runner.handle(run["run_id"]).cancel()
    runner.settle(20)
    runner.close()
