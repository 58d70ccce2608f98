"""The MCP server of an agent as the first design writes it: ``mcp_server_definition``, in the agent's own file.

It names a server of ``config/mcp_servers``. Its command stays there: no agent's file starts a program.
"""

from __future__ import annotations

from typing import Any

from config.definitions.mcp.server import SERVER_NAME, TOOL_NAME

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
