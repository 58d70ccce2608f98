"""What carries out the nodes, a file for each type, found by the handler's name in the table ``node_types``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from config.definitions.errors import DefinitionInvalid
from config.definitions.workflows.node_types import PLUGIN

HANDLERS: Mapping[str, str] = {
    "passthrough": "passthrough:PassthroughNode",
    "activity:execute_transform_node_activity": "transform:TransformNode",
    "activity:execute_function_node_activity": "function:FunctionNode",
    "activity:execute_llm_node_activity": "llm:LLMNode",
    "workflow:evaluate_choice": "choice:ChoiceNode",
    "activity:execute_llm_router_activity": "choice_llm:ChoiceLLMNode",
    "workflow:execute_child": "sub_workflow:SubWorkflowWrapper",
    "workflow:execute_parallel": "passthrough:PassthroughNode",
    "temporal:wait_for_event": "wait:WaitNode",
    "temporal:approval_gate": "approval_gate:ApprovalGateNode",
    "workflow_code:for_each": "for_each:ForEachNode",
    "activity:execute_filter_node_activity": "filter:FilterNode",
    "activity:execute_reduce_node_activity": "reduce:ReduceNode",
}
"""By the names of the first design: the module of this folder, and the class in it."""


def handler_of(handler: str) -> Any:
    """Return the class that carries out nodes with this handler.

    Raises:
        DefinitionInvalid: this code has none of this name.
    """
    if handler.startswith(PLUGIN):
        handler = "activity:execute_function_node_activity"  # a package's type is a tool by another door
    if handler not in HANDLERS:
        problem = f"'{handler[:80]}' is no handler of this release; the table node_types names it."
        raise DefinitionInvalid("node_types", None, None, problem)
    module, _, name = HANDLERS[handler].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), name)
