"""A workflow as its users see it: over HTTP, and in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from config.definitions.workflows.fields import NodeFields, WorkflowDefinition
from config.definitions.workflows.node_configs import WaitConfig

_PROMPTS = ("prompt", "system")
"""What a model gets, which is not shown of agents either."""


def drawing(definition: WorkflowDefinition) -> dict[str, Any]:
    """Return how a workflow is drawn, and what its runs take and return besides the input; without nulls."""
    fields = {
        "output": definition.output,
        "variables": dict(definition.variables),
        "nodes": [_node(node) for node in definition.nodes],
        "edges": [edge.model_dump(exclude_defaults=True) for edge in definition.edges],
        "signals": list(signals(definition)),
        "blueprint": definition.blueprint,
        "digest": definition.digest,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _node(node: NodeFields) -> dict[str, Any]:
    config = {name: value for name, value in node.config.items() if name not in _PROMPTS}
    fields = node.model_dump(exclude_defaults=True, exclude={"config"}) | ({"config": config} if config else {})
    return {name: value for name, value in fields.items() if value is not None}


def signals(definition: WorkflowDefinition) -> Iterator[dict[str, Any]]:
    """Yield the signals that a workflow waits for: name, node unless it is a blueprint, and the schema of the data."""
    for name, schema in definition.signals.items():
        yield {"name": name, "data_schema": schema}
    for node in definition.nodes:
        if isinstance(node.settings, WaitConfig) and node.settings.signal is not None:
            schema = {"data_schema": node.settings.form} if node.settings.form is not None else {}
            yield {"name": node.settings.signal, "node": node.id, **schema}
