"""Makes the tool of a capability's definition."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from agents.tools.isolation.call_folder import calls_folder
from agents.tools.isolation.errors import CapabilityFailed
from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.runners.calling import ProcessRunner
from agents.tools.runners.container import Container, ContainerRunner
from agents.tools.runners.endpoint import EndpointRunner
from agents.tools.schema import build_tool
from agents.tools.tool import Tool
from config.definitions.capability import CapabilityDefinition, RetryRule
from config.definitions.dotted_path import NotImportable, import_path, require_own
from config.definitions.errors import ToolUnknown
from config.definitions.runner_spec import ContainerSpec, EndpointSpec, FunctionSpec, ProcessSpec, RunnerLimits
from config.effects import INWARD, OUTWARD, TRUSTED, UNTRUSTED
from config.egress.errors import HostUnreachable
from config.errors import ToolCutOff
from config.ids import canonical_digest
from config.settings import Settings
from config.settings.container_engine import engine_of

SAME = (
    "description title version maintainer kind effect classification roles output_schema secrets hosts timeout_s "
    "confirm approvers on_expiry default labels"
).split()
"""Fields that a definition and a tool have alike."""


class CapabilityRunner(Protocol):
    """Carries out calls; ``call`` is the tool's function, so it is timed and cancelled like every tool's."""

    async def call(self, **arguments: Any) -> Any:
        """Return the result of one call, JSON data.

        When it is cancelled, or its worker dies, everything that it started is ended.

        Raises:
            CapabilityFailed, OUTPUT_NOT_JSON: the call failed.
            ToolCutOff, OUTPUT_TOO_LONG: it may have taken effect.
            SECRET_MISSING: nothing was started.
        """
        ...


def capability_tool(definition: CapabilityDefinition, settings: Settings) -> Tool:
    """Return a capability as a tool, which is called by its id.

    Raises:
        ToolUnknown: its function, or a file that it names, is not there.
    """
    fields = {name: getattr(definition, name) for name in SAME}
    runner_fields = definition.runner.model_dump(mode="json")
    if not runner_fields.get("sends_context"):
        runner_fields.pop("sends_context", None)  # what was approved before there was this field stays approved
    fields["implementation"] = canonical_digest([runner_fields, definition.config])
    if isinstance(definition.runner, FunctionSpec):
        tool = _function_tool(definition, definition.runner, settings)
        return _titled(dataclasses.replace(tool, **fields | {"labels": tool.labels | definition.labels}))
    call: Callable[..., Any] = _runner_of(definition, settings).call
    if definition.retry.attempts > 1:
        call = _repeated(call, definition.retry)
    if isinstance(definition.runner, EndpointSpec):
        fields |= {"labels": _of_endpoint(definition.labels), "keeps_hosts": True}
    assert definition.input_schema is not None
    attempts = definition.retry.attempts
    fields |= {"retries": 0} if attempts > 1 else {}  # it repeats its calls itself
    parameters = definition.input_schema
    return _titled(Tool(name=definition.id, parameters=parameters, function=call, attempts=attempts, **fields))


def _titled(tool: Tool) -> Tool:
    """Return the tool, whose title names its own arguments alone.

    Raises:
        ToolUnknown: it names others.
    """
    if tool.title_problem is not None:
        raise ToolUnknown(f"capability '{tool.name}': {tool.title_problem}.", name=tool.name)
    return tool


def _of_endpoint(labels: frozenset[str]) -> frozenset[str]:
    """Return the labels of a capability that asks a server, which it does without ``hosts`` too."""
    sent = {OUTWARD} if INWARD not in labels else set()
    return labels | sent | ({UNTRUSTED} if TRUSTED not in labels else set())


def _runner_of(definition: CapabilityDefinition, settings: Settings) -> CapabilityRunner:
    runner, secrets, config = definition.runner, definition.secrets, definition.config
    if isinstance(runner, EndpointSpec):
        return EndpointRunner(
            url=runner.url,
            hosts=definition.hosts or (),
            headers=runner.headers,
            secrets=secrets,
            sends_context=runner.sends_context,
        )
    if isinstance(runner, ContainerSpec):
        box = Container(
            image=runner.image,
            command=runner.command,
            user=runner.user,
            environment=runner.environment,
            has_network=bool(definition.hosts),
            limits=_limits(runner.limits),
        )
        engine = engine_of(settings.containers)
        return ContainerRunner(engine=engine, container=box, secrets=secrets, config=config)
    assert isinstance(runner, ProcessSpec)
    command = [_beside(word, definition) for word in runner.command]
    limits, environment = _limits(runner.limits), runner.environment
    return ProcessRunner(
        folders=calls_folder(settings.state),
        command=command,
        environment=environment,
        secrets=secrets,
        config=config,
        limits=limits,
    )


def _limits(limits: RunnerLimits) -> ProcessLimits:
    return ProcessLimits(**limits.model_dump())


def _beside(word: str, definition: CapabilityDefinition) -> str:
    """Return a word of a command; ``./name`` is the file of that name beside the definition."""
    if not word.startswith("./"):
        return word
    path = Path(definition.file).resolve().parent / word
    if not path.exists():
        problem = f"capability '{definition.id}' names {word}, which is not beside {definition.file}; add the file."
        raise ToolUnknown(problem, name=definition.id)
    return str(path)


# --- functions --------------------------------------------------------------------------------------


def _function_tool(definition: CapabilityDefinition, runner: FunctionSpec, settings: Settings) -> Tool:
    try:
        function = import_path(runner.path, settings)
        require_own(function, runner.path, settings)
    except NotImportable as error:
        raise ToolUnknown(f"capability '{definition.id}': '{runner.path}' {error}", name=definition.id) from error
    if not callable(function) or isinstance(function, type):
        raise ToolUnknown(f"capability '{definition.id}': '{runner.path}' is no function.", name=definition.id)
    tool = dataclasses.replace(build_tool(function, definition.id), name=definition.id)
    unknown = definition.config.keys() - tool.parameters["properties"].keys()
    if unknown:
        problem = f"capability '{definition.id}': its function has no argument '{min(unknown)}', which `config` sets."
        raise ToolUnknown(problem, name=definition.id)
    return _configured(tool, definition.config) if definition.config else tool


def _configured(tool: Tool, config: Mapping[str, Any]) -> Tool:
    """Return the tool without the arguments that ``config`` sets."""
    schema = dict(tool.parameters)
    schema["properties"] = {
        name: property_schema for name, property_schema in schema["properties"].items() if name not in config
    }
    schema["required"] = [name for name in schema.get("required", ()) if name not in config]
    function = tool.function

    async def call_async(**arguments: Any) -> Any:
        return await function(**arguments, **config)

    def call(**arguments: Any) -> Any:
        return function(**arguments, **config)

    bound = call_async if inspect.iscoroutinefunction(function) else call
    return dataclasses.replace(tool, parameters=schema, function=bound)


# --- retries ----------------------------------------------------------------------------------------


def _repeated(call: Callable[..., Any], rule: RetryRule) -> Callable[..., Any]:
    """Return ``call`` with further attempts after a failure, all within the call's time."""

    async def attempts(**arguments: Any) -> Any:
        for attempt in range(rule.attempts - 1):
            try:
                return await call(**arguments)
            except (CapabilityFailed, HostUnreachable, ToolCutOff):
                await asyncio.sleep(rule.delay_s * 2**attempt)
        return await call(**arguments)

    return attempts
