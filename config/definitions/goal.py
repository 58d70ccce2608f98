"""An agent as the first design writes a goal (`AgentGoal`), in the words of our own fields.

A file is a goal's where it has `agent_name` or `agent_friendly_description`: there `description` is the goal's
instruction to the model, and no sentence for lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.definitions.mcp.server import SERVER_NAME, TOOL_NAME

SERVER = "mcp_server_definition"
MARKS = ("agent_name", "agent_friendly_description")
"""Fields that no agent has but a goal."""


def in_our_words(data: Mapping[str, Any], agent_id: str) -> dict[str, Any]:
    """Return the fields of an agent's file with those of a goal as ours; ``agent_id``: the file's name.

    Raises:
        ValueError: a goal's field contradicts ours; the message begins with its name, and says what to write.
    """
    fields = dict(data)
    _take_id(fields, agent_id)
    is_goal = any(name in fields for name in MARKS)
    if SERVER in fields:
        _take_server(fields)
    if is_goal and "tools" in fields and fields["tools"] in (None, []):
        raise ValueError("`tools` is empty, and a goal has at least one; name what it may call")
    if is_goal and "tools" not in fields:
        raise ValueError(f"`{_mark_of(fields)}` makes this a goal, and a goal has `tools`; name what it may call")
    if is_goal:
        _take_instruction(fields)
    _rename(fields, "agent_name", "name")
    if "starter_prompt" in fields:
        prompt = fields.pop("starter_prompt")
        _require_alone(fields, "starter_prompt", "starters")
        if not isinstance(prompt, str):
            raise ValueError("`starter_prompt` has to be text; put it in quotes")
        fields["starters"] = [prompt]
    return fields


def _take_id(fields: dict[str, Any], agent_id: str) -> None:
    written = fields.pop("id", agent_id)
    if written != agent_id:
        raise ValueError(f"`id` has to be the file's name, '{agent_id}'; rename the file or leave `id` out")


def _take_server(fields: dict[str, Any]) -> None:
    lines, tools = tool_lines(fields.pop(SERVER)), fields.get("tools") or ()
    if isinstance(tools, list | tuple):
        fields["tools"] = [*tools, *lines]


def _take_instruction(fields: dict[str, Any]) -> None:
    """Make the goal's ``description`` the end of the system prompt, or all of it."""
    instruction = fields.pop("description", None)
    if instruction is not None and not isinstance(instruction, str):
        raise ValueError("`description` has to be text; put it in quotes")
    prompt = fields.get("system_prompt")
    if instruction and (prompt is None or isinstance(prompt, str)):
        fields["system_prompt"] = instruction if prompt is None else f"{prompt.rstrip()}\n\n{instruction}"
    if "agent_friendly_description" in fields:
        fields["description"] = fields.pop("agent_friendly_description")


def _rename(fields: dict[str, Any], theirs: str, ours: str) -> None:
    if theirs in fields:
        value = fields.pop(theirs)
        _require_alone(fields, theirs, ours)
        fields[ours] = value


def _require_alone(fields: Mapping[str, Any], theirs: str, ours: str) -> None:
    if ours in fields:
        raise ValueError(f"`{theirs}` and `{ours}` are the same field; keep one of them")


def _mark_of(fields: Mapping[str, Any]) -> str:
    return next(name for name in MARKS if name in fields)


# --- its MCP server: one of config/mcp_servers. Its command stays there, since no agent's file starts a program


FIELD = "`mcp_server_definition`"
USED = ("name", "included_tools")
ELSEWHERE = ("command", "args", "env", "env_from", "url", "transport", "headers", "secrets")


def tool_lines(listed: Any) -> list[str]:
    """Return the lines of ``tools`` that mean the same: ``mcp:NAME``, or ``mcp:NAME/TOOL`` for each included tool.

    Raises:
        ValueError: it does not name a server, or says how to start one.
    """
    if listed is None:
        return []
    if not isinstance(listed, dict):
        raise ValueError(f"{FIELD} has to be a mapping, for example `{{name: stripe}}`")
    _refuse_others(listed)
    name = listed.get("name")
    if not isinstance(name, str) or not SERVER_NAME.fullmatch(name):
        raise ValueError(f"{FIELD} needs the `name` of a server in config/mcp_servers")
    tools = listed.get("included_tools")
    if tools is None:
        return [f"mcp:{name}"]
    if not isinstance(tools, list) or not all(isinstance(entry, str) and TOOL_NAME.fullmatch(entry) for entry in tools):
        raise ValueError(f"{FIELD}: `included_tools` has to be a list of the server's tools")
    return [f"mcp:{name}/{tool}" for tool in tools]


def _refuse_others(listed: dict[str, Any]) -> None:
    name = listed.get("name") if isinstance(listed.get("name"), str) else "NAME"
    for field in listed:
        if field in ELSEWHERE:
            raise ValueError(
                f"{FIELD} may not have `{field}`, since no agent's file starts a program; move it to "
                f"config/mcp_servers/{str(name)[:40]}.yaml and leave `name` and `included_tools` here"
            )
        if field not in USED:
            raise ValueError(f"{FIELD} has no field `{str(field)[:40]}`; its fields are {' and '.join(USED)}")
