"""The tools of a workflow: by the lines of its file, with the limits that a node sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.tools.tool import Tool
from config.definitions.errors import DefinitionInvalid
from config.definitions.workflows.fields import NodeFields, WorkflowDefinition
from config.definitions.workflows.node_types import node_type_plugins


def line_of(node: NodeFields) -> str:
    """Return the line of the tool that a node calls; empty where it calls none."""
    if node.type == "FUNCTION":
        return str(node.config["tool"])
    if node.type == "SUB_WORKFLOW":
        return f"workflow:{node.config['workflow']}"
    plugin = node_type_plugins().get(node.type)
    return plugin.value if plugin is not None else ""


def toolbox_of(definition: WorkflowDefinition, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return a workflow's tools by their lines.

    Raises:
        DefinitionInvalid: a line names several tools, or a node repeats calls that may not be repeated.
    """
    toolbox: dict[str, Tool] = {}
    for tool in tools.values():
        if tool.line in toolbox:
            problem = f"'{tool.line}' names several tools, and a node calls one; write `{tool.line}/TOOL`."
            raise DefinitionInvalid(definition.file, None, "nodes", problem)
        toolbox[tool.line] = tool
    for number, node in enumerate(definition.nodes):
        own = toolbox.get(line_of(node))
        if own is not None and node.retry and (own.child is not None or not own.effect.policy.may_repeat):
            problem = f"{own.name} is {own.effect}, and an unsafe call is never repeated; leave `retry` out."
            if own.child is not None:
                problem = "a child run repeats its own calls; leave `retry` out."
            raise DefinitionInvalid(definition.file, None, f"nodes[{number}].retry", problem)
    return toolbox


def limited(tool: Tool, node: NodeFields) -> Tool:
    """Return a node's tool with the limits that the node sets."""
    limits: dict[str, Any] = {"retries": node.retry} if node.retry is not None else {}
    limits |= {"timeout_s": node.timeout_s} if node.timeout_s is not None else {}
    return replace(tool, **limits) if limits else tool
