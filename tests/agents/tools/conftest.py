"""A call to be in, and a loop to call tools on."""

import asyncio

import pytest

from agents.tools.call_context import ToolContext, enter_call
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.schema import build_tool


@pytest.fixture
def context(tmp_path):
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    return ToolContext(
        run_id="run_1",
        thread_id="thread_1",
        call_id="call_1",
        idempotency_key="key_1",
        tenant="default",
        principal="local",
        files=CallSandbox(sandbox),
    )


@pytest.fixture
def call(context):
    """Call a function as an agent does and return its result."""

    def call(function, /, timeout_s=5.0, **arguments):
        return asyncio.run(call_tool(build_tool(function), arguments, context, timeout_s))

    return call


@pytest.fixture
def inside(context):
    """Be inside a tool call in this thread."""
    enter_call(context)
    return context
