"""The types of nodes: thirteen that ship, and those of installed packages (entry points ``callboard.node_types``).

Types are data: the table ``node_types`` has a row for each, with its handler's name and the schema of its ``config:``.
``bus.journal.storage.node_types.seed_node_types`` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import orjson

from config.definitions.workflows import node_configs as configs

GROUP = "callboard.node_types"
"""The entry points of packages that bring a type: its name, and ``package.module:Class``."""
PLUGIN = "plugin:"
"""What the handler of a package's type begins with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeType:
    """A row of the table."""

    name: str
    handler: str
    """What carries it out, in the words of the first design; a package's: ``plugin:package.module:Class``."""
    description: str
    config: type[configs.NodeConfig] | None = None
    """The section ``config:``; None: of a package, which checks it itself."""
    may_repeat: bool = False
    """Whether another attempt may succeed where one failed."""

    def row(self) -> dict[str, Any]:
        """Return its columns."""
        schema = self.config.model_json_schema() if self.config is not None else {}
        columns = {"name": self.name, "handler": self.handler, "description": self.description}
        return columns | {"config_schema_json": orjson.dumps(schema).decode()}


def _type(name: str, handler: str, config: type[Any], description: str, *, may_repeat: bool = False) -> NodeType:
    return NodeType(name=name, handler=handler, config=config, description=description, may_repeat=may_repeat)


_SHIPPED = (
    _type("START", "passthrough", configs.StartConfig, "Where the run begins; its output is the run's input."),
    _type("END", "passthrough", configs.EndConfig, "Where the run ends, with its output."),
    _type(
        "TRANSFORM",
        "activity:execute_transform_node_activity",
        configs.TransformConfig,
        "Data made from templates.",
    ),
    _type(
        "FUNCTION",
        "activity:execute_function_node_activity",
        configs.FunctionConfig,
        "A call of a tool or an agent.",
        may_repeat=True,
    ),
    _type(
        "LLM",
        "activity:execute_llm_node_activity",
        configs.LLMConfig,
        "An answer of a model, without tools.",
        may_repeat=True,
    ),
    _type(
        "CHOICE",
        "workflow:evaluate_choice",
        configs.ChoiceConfig,
        "The first branch whose condition holds.",
    ),
    _type(
        "CHOICE_LLM",
        "activity:execute_llm_router_activity",
        configs.ChoiceLLMConfig,
        "The branch that a model chooses.",
        may_repeat=True,
    ),
    _type("SUB_WORKFLOW", "workflow:execute_child", configs.SubWorkflowConfig, "Another workflow, as a child run."),
    _type("PARALLEL", "workflow:execute_parallel", configs.ParallelConfig, "Several branches at once."),
    _type("WAIT", "temporal:wait_for_event", configs.WaitConfig, "Waits for a signal, or for a time."),
    _type("APPROVAL_GATE", "temporal:approval_gate", configs.ApprovalGateConfig, "Waits until persons approve."),
    _type("FOR_EACH", "workflow_code:for_each", configs.ForEachConfig, "Its body for each item of a list."),
    _type(
        "FILTER",
        "activity:execute_filter_node_activity",
        configs.FilterConfig,
        "The items of a list for which a condition holds.",
    ),
    _type("REDUCE", "activity:execute_reduce_node_activity", configs.ReduceConfig, "One value made from a list."),
)
SHIPPED: Mapping[str, NodeType] = {node_type.name: node_type for node_type in _SHIPPED}


@lru_cache(maxsize=1)
def node_type_plugins() -> Mapping[str, EntryPoint]:
    """Return the types of installed packages by name; nothing of them is imported."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in SHIPPED}


def known_types() -> Mapping[str, NodeType]:
    """Return all types by name, those that ship first."""
    plugins = {
        name: NodeType(
            name=name,
            handler=f"{PLUGIN}{entry.value}",
            description=f"Of the package {_package(entry)}.",
            may_repeat=True,
        )
        for name, entry in sorted(node_type_plugins().items())
    }
    return {**SHIPPED, **plugins}


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]
