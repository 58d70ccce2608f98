"""Calls one capability as a step of a run does: validated, in a sandbox of its own, without journal and model."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.capabilities.build import capability_tool
from agents.capabilities.folder import declared
from agents.catalogue import find_tool
from agents.tools.arguments import validate_arguments
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_sandbox import CallSandbox
from agents.tools.results import validate_output
from agents.tools.tool import Tool
from config.definitions.capability import CapabilityDefinition
from config.definitions.runner_spec import EndpointSpec
from config.identity.contexts import GoldenContext, SecurityContext
from config.identity.principal import Role
from config.ids import new_id
from config.settings import Settings
from config.settings import settings as current_settings
from config.tracing import new_trace_id


def call_capability(
    capability_id: str, arguments: Mapping[str, Any], *, url: str | None = None, settings: Settings | None = None
) -> Any:
    """Return the result of one call; ``url`` replaces that of an HTTP endpoint.

    Raises:
        ToolUnknown: there is no such capability, or it cannot be used.
        ModelVisible: the call failed, or the arguments or the result do not fit their schemas.
    """
    used = settings or current_settings()
    tool = find_tool(capability_id, used) if url is None else _asking(capability_id, url, used)
    validate_arguments(tool, arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(call_tool(tool, arguments, _context(tool, Path(folder)), tool.timeout_s or 60))
    validate_output(tool, result)
    return result


def _asking(capability_id: str, url: str, settings: Settings) -> Tool:
    """Return a capability that asks another server than its file says."""
    definition = declared(settings)[capability_id]
    assert isinstance(definition, CapabilityDefinition), str(definition)
    assert isinstance(definition.runner, EndpointSpec), f"'{capability_id}' asks no server"
    there = EndpointSpec(type="http", url=url, headers=definition.runner.headers)
    return capability_tool(definition.model_copy(update={"runner": there, "hosts": None}), settings)


def _context(tool: Tool, folder: Path) -> ToolContext:
    trace_id = new_trace_id()
    golden = GoldenContext(app_id="callboard", environment="test", initiator_id="local", trace_id=trace_id)
    usual = ToolContext(
        run_id=new_id("run"),
        thread_id=new_id("thread"),
        call_id=new_id("call"),
        idempotency_key=new_id("key"),
        tenant="default",
        principal="local",
        golden=golden,
        security=SecurityContext(initiator_id="local", roles=frozenset(Role), token_ref="process", trace_id=trace_id),
        files=CallSandbox(folder / "sandbox"),
    )
    return dataclasses.replace(usual, timeout_s=tool.timeout_s or 60, hosts=tool.hosts, secrets=tool.secrets)
