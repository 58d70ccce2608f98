"""The four runners, each with the same behaviours, and calls of them as a step makes them."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.runners.calling import ProcessRunner
from agents.tools.runners.container import Container, ContainerRunner
from agents.tools.runners.endpoint import EndpointRunner
from agents.tools.tool import Tool
from config.errors import ToolFailed
from config.identity.contexts import GoldenContext, SecurityContext
from config.identity.principal import Role
from config.settings.container_engine import engine_of
from tests.agents.tools.runners.machines import (
    BEHAVE,
    container_engine,
    containers,
    endpoint,
    import_image,
    processes_with,
)

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CONTEXTS = {
    "golden.context": {
        "app_id": "shop",
        "environment": "production",
        "initiator_id": 'Jürgen "J"',
        "trace_id": TRACE_ID,
    },
    "golden.securityContext": {
        "initiatorId": "ann",
        "roles": ["operator"],
        "tokenRef": "key:key_1",
        "traceId": TRACE_ID,
    },
}
"""What the calls' programs and servers get of their contexts."""
KINDS = ("function", "process", "container", "http")
LIMITS = ProcessLimits(output_kb=1024, processes=32)


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """A container engine of this session's own, with the image ``callboard-test:1``."""
    folder = tmp_path_factory.mktemp("engine")
    text = container_engine(folder)
    import_image(text, folder, "callboard-test:1")
    return text


@pytest.fixture(scope="session")
def address():
    with endpoint() as (url, seen):
        yield url, seen


@dataclass
class Bench:
    """Calls one runner, and knows what its calls leave behind."""

    kind: str
    tool: Tool
    context: ToolContext
    engine: str | None = None
    tasks: list = field(default_factory=list)

    async def awaited(self, do, timeout_s=30.0, **arguments):
        return await call_tool(self.tool, {"do": do, **arguments}, self.context, timeout_s)

    def call(self, do, timeout_s=30.0, **arguments):
        return asyncio.run(self._settled(do, timeout_s, arguments))

    async def _settled(self, do, timeout_s, arguments):
        try:
            return await self.awaited(do, timeout_s, **arguments)
        finally:
            await settle()

    def left(self):
        """Return what is left of its calls: processes, folders and containers."""
        leftovers = [str(process) for process in processes_with(f"CALLBOARD_RUN_ID={self.context.run_id}")]
        leftovers += [str(path) for path in self.context.sandbox.parent.glob("calls/*")]
        return leftovers + (containers(self.engine) if self.engine else [])


async def settle():
    """Wait for what a call that was given up still does."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    if rest:
        await asyncio.wait(rest, timeout=20)


async def behave(do: str, **arguments: object) -> object:
    """Do what a program does for the other runners."""
    if do == "fail":
        raise ToolFailed("the reason: kein Fünfer")
    if do in ("sleep", "stubborn"):
        await asyncio.sleep(60)
    return {"do": do, **arguments} if do == "echo" else len(str(arguments))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def context(tmp_path):
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    ids: dict[str, Any] = {
        name: f"{name}_{uuid.uuid4().hex[:8]}" for name in ("run_id", "thread_id", "call_id", "idempotency_key")
    }
    golden = GoldenContext(app_id="shop", environment="production", initiator_id='Jürgen "J"', trace_id=TRACE_ID)
    security = SecurityContext(
        initiator_id="ann", roles=frozenset({Role.OPERATOR}), token_ref="key:key_1", trace_id=TRACE_ID
    )
    return ToolContext(
        **ids,
        tenant="default",
        principal="local",
        files=CallSandbox(sandbox),
        timeout_s=30,
        golden=golden,
        security=security,
    )


@pytest.fixture
def bench(kind, context, request):
    """The runner of this kind, ready to be called."""
    engine = request.getfixturevalue("engine") if kind == "container" else None
    secrets, config = {"SHOP_TOKEN": "env:TEST_SHOP_TOKEN"}, {"unit": "cm"}
    request.getfixturevalue("monkeypatch").setenv("TEST_SHOP_TOKEN", "tok-en-123456789")
    function: Callable[..., Any] = behave
    if kind == "function":
        pass
    elif kind == "process":
        folders, command = context.sandbox.parent / "calls", ["/bin/sh", str(BEHAVE)]
        runner = ProcessRunner(folders=folders, command=command, secrets=secrets, config=config, limits=LIMITS)
        function = runner.call
    elif kind == "container":
        box = Container(image="callboard-test:1", command=("/bin/sh", "/behave.sh"), limits=LIMITS)
        function = ContainerRunner(engine=engine_of(str(engine)), container=box, secrets=secrets, config=config).call
    else:
        url, _ = request.getfixturevalue("address")
        function = EndpointRunner(url=url, headers={"Authorization": "Bearer ${SHOP_TOKEN}"}, secrets=secrets).call
    tool = Tool(name=kind, description="Behave.", parameters={"type": "object"}, function=function)
    return Bench(kind=kind, tool=tool, context=context, engine=engine)
