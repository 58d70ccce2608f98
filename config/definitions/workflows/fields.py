"""The fields of a workflow's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from config.definitions.agent import TOOL_LINE, AgentDefinition, DefinitionFields
from config.definitions.model_fields import Seconds, Section, Text
from config.definitions.schemas.json_schema import defaults_of
from config.definitions.workflows.graph import Edge, Graph
from config.definitions.workflows.node_configs import NodeConfig, Schema, SignalName, has_templates, union
from config.definitions.workflows.node_types import SHIPPED, node_type_plugins
from config.expressions.templates import Template, templates_in

NODE_ID = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
MAX_NODES = 1000
OF_AGENTS = (
    "system_prompt example_conversation_history resources prompts router max_iterations history_chars compaction "
    "ask_missing_arguments starters prompt_guard output_schema agent_name agent_friendly_description starter_prompt "
    "mcp_server_definition on_waiting"
).split()
"""Fields of agents' files that a workflow has no use for."""
PROMPT = "Carries out a workflow."
"""What stands for the system prompt of a workflow, which has none."""


class Compensation(Section):
    """The call that undoes a node's call."""

    tool: Annotated[str, Field(pattern=TOOL_LINE, max_length=200)]
    arguments: Annotated[dict[str, Any], AfterValidator(has_templates)] = Field(default_factory=dict)
    """Templates also see `result`, what the call to be undone has returned."""


class NodeFields(Section):
    """One node."""

    id: Annotated[str, Field(pattern=NODE_ID)]
    """What templates and edges call it."""
    type: Annotated[str, Field(min_length=1, max_length=64)]
    name: Annotated[str, Field(max_length=80)] = ""
    """For people; none: the id."""
    config: dict[str, Any] = Field(default_factory=dict)
    """By its type."""
    on_error: Literal["fail", "continue", "branch"] = "fail"
    """When it fails: the run fails; its output is `{"error": ...}` and the run continues; or `error` is followed."""
    retry: Annotated[int, Field(strict=True, ge=0, le=10)] | None = None
    """How often it is tried again after an error that may pass; none: as its tool or model says."""
    timeout_s: Seconds | None = None
    """Seconds that it may take; of a WAIT or an APPROVAL_GATE: that it waits."""
    compensate: Compensation | None = None
    """What undoes it, where the run fails later."""
    _settings: NodeConfig = PrivateAttr(default_factory=NodeConfig)

    @property
    def settings(self) -> NodeConfig:
        """Its ``config``, as its type reads it."""
        return self._settings

    def set_settings(self, settings: NodeConfig) -> None:
        """Keep what its type has read; called once, when the file is read."""
        self._settings = settings

    @property
    def follows_error(self) -> bool:
        """Whether a failure follows the edges with ``error``."""
        return self.on_error == "branch"

    @property
    def references(self) -> frozenset[str] | None:
        """The nodes whose outputs it reads, itself in the call that undoes it; None: any that it may read."""
        undoing = self.compensate.arguments if self.compensate is not None else {}
        texts = undoing if self.type in SHIPPED else {"undoing": undoing, "config": self.config}
        return union([self._settings.references, *(Template(text).nodes for _, text in templates_in(texts))])

    @property
    def branches(self) -> Sequence[str] | None:
        """The handles that its outcome chooses from; None: it chooses none."""
        return self._settings.branches


class EdgeFields(Section):
    """One edge."""

    source: str
    target: str
    source_handle: Annotated[str, Field(max_length=64)] = ""
    """By which outcome of the source it is followed: `branch-0`, `default`, `parallel-0`, `foreach-body`, `error`."""


class WorkflowFields(DefinitionFields):
    """What a workflow's file has in common with an agent's, and its graph or its blueprint."""

    model: Text = "auto"
    """The model of its LLM nodes, unless a node names one."""
    system_prompt: Text = PROMPT
    input: Schema = Field(default_factory=lambda: {"type": "object"})
    """What a run is started with, as JSON Schema."""
    output: Schema | None = None
    """What a run's output has to fit."""
    variables: dict[Annotated[str, Field(pattern=NODE_ID)], Any] = Field(default_factory=dict)
    """Constants for templates and conditions."""
    nodes: Annotated[tuple[NodeFields, ...], Field(max_length=MAX_NODES)] = ()
    edges: Annotated[tuple[EdgeFields, ...], Field(max_length=5 * MAX_NODES)] = ()
    blueprint: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?$")] | None = None
    """In place of a graph: the class that has its logic, `package.module:Class`, or a registered name."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Of a blueprint: what its `config_model` reads."""
    signals: dict[SignalName, Schema] = Field(default_factory=dict)
    """Of a blueprint: the signals that it waits for, each with the schema of its data."""

    @model_validator(mode="before")
    @classmethod
    def _is_no_agent(cls, data: Any) -> Any:
        for name in data if isinstance(data, dict) else ():
            if name in OF_AGENTS and not (name == "system_prompt" and data[name] == PROMPT):
                raise ValueError(f"`{name}` is of agents; a workflow has none")
        return _with_tools(data)

    @model_validator(mode="after")
    def _has_one_logic(self) -> WorkflowFields:
        if self.blueprint is not None and (self.nodes or self.edges):
            raise ValueError("`blueprint` takes the place of `nodes:` and `edges:`; keep one of both")
        if self.blueprint is None and self.config:
            raise ValueError("`config` is of a blueprint; write constants of a graph as `variables:`")
        if self.blueprint is None and self.signals:
            raise ValueError("`signals` is of a blueprint; a graph waits for those that its WAIT nodes name")
        if self.input.get("type") != "object":
            raise ValueError("`input` needs `type: object` at its top")
        return self


def _with_tools(data: Any) -> Any:
    """Return a file's fields with the tools that its nodes call among its ``tools``."""
    nodes, listed = (data.get("nodes"), data.get("tools") or ()) if isinstance(data, dict) else (None, ())
    if not isinstance(nodes, list | tuple) or not isinstance(listed, list | tuple):
        return data
    lines = [line for node in nodes if isinstance(node, dict) for line in _tools_in(node)]
    lines = [line for line in dict.fromkeys(lines) if line not in listed and re.fullmatch(TOOL_LINE, line)]
    return {**data, "tools": [*listed, *lines]}


def _tools_in(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the tools that a node calls; its fields are not checked yet."""
    config, undoing = node.get("config"), node.get("compensate")
    if node.get("type") == "FUNCTION" and isinstance(config, dict):
        yield str(config.get("tool", ""))
    if node.get("type") == "SUB_WORKFLOW" and isinstance(config, dict):
        yield f"workflow:{config.get('workflow', '')}"
    if isinstance(undoing, dict):
        yield str(undoing.get("tool", ""))
    plugin = node_type_plugins().get(str(node.get("type")))
    if plugin is not None:
        yield plugin.value


class WorkflowDefinition(WorkflowFields, AgentDefinition):
    """A valid workflow, with its id, digest and origin."""

    _graph: Graph | None = PrivateAttr(default=None)

    @property
    def is_workflow(self) -> bool:
        return True

    @property
    def input_schema(self) -> Mapping[str, Any] | None:
        """The schema of what a caller gives: a field with a default may be left out, whatever ``required`` says."""
        defaults = defaults_of(self.input)
        required = [name for name in self.input.get("required", ()) if name not in defaults]
        return {**self.input, "required": required} if "required" in self.input else self.input

    @property
    def asks_model(self) -> bool:
        """Whether its own model may be asked; without one a run needs no key."""
        return self.blueprint is None and any(
            node.type in ("LLM", "CHOICE_LLM", "REDUCE") and node.settings.asks_model for node in self.nodes
        )

    @property
    def graph(self) -> Graph:
        """Its drawing, which was checked when the file was read; a blueprint has none."""
        assert self._graph is not None, "a blueprint has no graph"
        return self._graph

    def node(self, node_id: str) -> NodeFields:
        """Return a node by its id."""
        node = self.graph.nodes[node_id]
        assert isinstance(node, NodeFields)
        return node

    def set_graph(self, graph: Graph) -> None:
        """Keep the checked drawing; called once, when the file is read."""
        self._graph = graph

    def drawn_edges(self) -> list[Edge]:
        """Return the edges as the graph has them."""
        return [
            Edge(source=edge.source, target=edge.target, handle=edge.source_handle, number=number)
            for number, edge in enumerate(self.edges)
        ]
