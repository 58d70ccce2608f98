"""Another agent or a workflow as a tool: ``agent:NAME`` or ``workflow:NAME`` in an agent's file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agents.errors import AgentUnknown
from agents.process import opened_process
from agents.registry import AgentRegistry
from agents.tools.tool import Tool
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable, ToolUnknown
from config.effects import INWARD, Effect
from config.settings import Settings

PREFIX, WORKFLOW = "agent:", "workflow:"
MESSAGE = "message"
"""The one argument."""
_PARAMETERS = {
    "type": "object",
    "properties": {
        MESSAGE: {
            "type": "string",
            "minLength": 1,
            "description": "What the agent is to do, with all that it has to know: it does not see this conversation.",
        }
    },
    "required": [MESSAGE],
    "additionalProperties": False,
}
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def agent_tool(path: str, settings: Settings) -> Tool:
    """Return the tool of ``agent:NAME`` or ``workflow:NAME``, called as that id; a workflow's arguments are its input.

    It is ``keyed``, since a call that is made again under its step's key finds the child run of the first time. It is
    ``inward``: nothing leaves by the call itself, and the child's own calls are judged with the labels it inherits.

    Raises:
        ToolUnknown: no file defines the agent, or it cannot be used; says what to write.
        DefinitionUnreadable: its file cannot be read now.
    """
    prefix, _, agent_id = path.partition(":")
    try:
        definition = registry_of(settings).get(agent_id)
    except DefinitionUnreadable:
        raise
    except (AgentUnknown, DefinitionInvalid) as error:
        raise ToolUnknown(f"tool '{path[:120]}' cannot be used: {error}", name=path) from error
    if definition.is_workflow != (f"{prefix}:" == WORKFLOW):
        right = f"{WORKFLOW if definition.is_workflow else PREFIX}{agent_id}"
        raise ToolUnknown(f"tool '{path[:120]}' names a definition of the other kind; write {right}.", name=path)
    if definition.is_workflow:
        description = definition.description or f"Runs the workflow {definition.name}, and returns its output."
    else:
        description = definition.description or f"Has the agent {definition.name} do something, and returns its answer."
    parameters = definition.input_schema or _PARAMETERS
    return _tool(tool_name(agent_id), agent_id, description, definition.digest, parameters)


def begun_tool(name: str, agent_id: str) -> Tool:
    """Return the tool of a call whose child run was begun, where the agent's file does not name it any more."""
    return _tool(name, agent_id, "Not called again.", "", _PARAMETERS)


def _tool(name: str, agent_id: str, description: str, digest: str, parameters: Mapping[str, Any]) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        function=_never_called,
        effect=Effect.KEYED,
        labels=frozenset({INWARD}),
        implementation=digest,
        child=agent_id,
    )


def tool_name(agent_id: str) -> str:
    """Return what the tool of an agent is called."""
    return _NO_NAME.sub("_", agent_id)


def registry_of(settings: Settings) -> AgentRegistry:
    """Return the agents of this process where these are its settings, else those of the settings' folders."""
    process = opened_process()
    if process is not None and process.settings == settings:
        return process.registry
    return AgentRegistry(settings.agent_folders, settings.local_principal)


def versions(paths: Iterable[str], settings: Settings) -> tuple[str, ...]:
    """Return the digests of the agents among these lines of ``tools``: where one changes, its tool is built anew."""
    return tuple(_digest(path, settings) for path in paths if path.startswith((PREFIX, WORKFLOW)))


def _digest(path: str, settings: Settings) -> str:
    try:
        definition: AgentDefinition = registry_of(settings).get(path.partition(":")[2])
    except (AgentUnknown, DefinitionInvalid):
        return ""
    return definition.digest


def _never_called(**_arguments: Any) -> Any:
    raise AssertionError("a call of an agent is a child run")
