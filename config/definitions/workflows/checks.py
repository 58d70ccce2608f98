"""The checks of a workflow that its fields do not make: each node's config by its type, the graph, and references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.workflows.fields import NodeFields, WorkflowDefinition
from config.definitions.workflows.graph import TOP, Graph, GraphMistake, Place
from config.definitions.workflows.node_configs import Branch, ForEachConfig, NodeConfig, Option, WaitConfig
from config.definitions.workflows.node_types import NodeType, known_types
from config.definitions.yaml_lines import LinedYaml, Mistakes
from config.text.names import did_you_mean


def checked(definition: AgentDefinition, written: LinedYaml | None) -> AgentDefinition:
    """Return a workflow with its nodes' settings and its graph, once what the fields do not show is checked.

    Raises:
        DefinitionInvalid: names file, line, field and remedy.
    """
    assert isinstance(definition, WorkflowDefinition)
    if definition.blueprint is not None:
        return definition
    types = known_types()
    for number, node in enumerate(definition.nodes):
        _check_node(definition, number, node, types.get(node.type), written)
    try:
        definition.set_graph(Graph(definition.nodes, definition.drawn_edges()))
        _check_signals(definition)
        for number, node in enumerate(definition.nodes):
            _check_references(definition, number, node)
            _check_undoing(definition, number, node)
    except GraphMistake as mistake:
        line = written.line_of(mistake.place) if written is not None else None
        raise DefinitionInvalid(definition.file, line, _shown(mistake.place), str(mistake)) from mistake
    return definition


def _check_node(
    definition: WorkflowDefinition, number: int, node: NodeFields, kind: NodeType | None, written: LinedYaml | None
) -> None:
    place: Place = ("nodes", number)

    def refused(where: Place, problem: str) -> DefinitionInvalid:
        line = written.line_of(where) if written is not None else None
        return DefinitionInvalid(definition.file, line, _shown(where), problem)

    if kind is None:
        raise refused((*place, "type"), _unknown_type(node.type))
    if not kind.may_repeat and node.retry is not None:
        raise refused((*place, "retry"), f"another attempt of a {node.type} would give the same; leave it out.")
    if node.compensate is not None and kind.config is not None and node.type not in ("FUNCTION", "SUB_WORKFLOW"):
        raise refused((*place, "compensate"), f"{node.type} changes nothing that could be undone; leave it out.")
    if node.type in _TIMELESS and node.timeout_s is not None:
        raise refused((*place, "timeout_s"), f"a {node.type} has no time of its own; write it at what it leads to.")
    if node.type in _DECIDING and node.on_error == "continue":
        problem = f"{node.type} decides whether the run continues, so a failure of it may not; write fail or branch."
        raise refused((*place, "on_error"), problem)
    if kind.config is None:
        return
    try:
        node.set_settings(kind.config.model_validate(node.config))
    except ValidationError as error:
        raise _mistakes(kind.config, place).first(error, written).refusal(definition.file, written) from error


def _mistakes(config: type[NodeConfig], place: Place) -> Mistakes:
    def section(location: Place) -> type[BaseModel]:
        return _PARTS.get(location[0], config) if len(location) > 2 else config

    return Mistakes(
        section_of=section, sentences=_SENTENCES, as_written=lambda path: (*place, "config", *_as_written(path))
    )


_TIMELESS = ("START", "END", "TRANSFORM", "CHOICE", "PARALLEL", "FILTER", "FOR_EACH")
"""Types that compute, or whose inner nodes have times."""
_DECIDING = ("CHOICE", "CHOICE_LLM", "APPROVAL_GATE")
"""Types of which a failure may lead nowhere that has an effect, unless an edge says so."""
_SENTENCES = {
    "missing": "is missing; add it, for example `{name}: ...`.",
    "string_pattern_mismatch tool": "has to be a tool as in an agent's `tools:`; no template chooses a tool.",
    "string_pattern_mismatch workflow": "has to be the id of a workflow, its file's name without `.yaml`.",
    "string_pattern_mismatch signal": "has to be letters, digits, `_`, `.` and `-`, at most 64.",
    "string_type": "has to be text; put it in quotes.",
    "literal_error": "has to be {expected}.",
    "tuple_type": "has to be a list, for example `{name}: [...]`.",
    "dict_type": "has to be a mapping of fields to values.",
    "model_type": "has to be a mapping of fields to values.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""
_PARTS: Mapping[Any, type[BaseModel]] = {"choices": Option, "branches": Branch}
"""The sections in lists of a config, by the list's name."""


def _as_written(path: Place) -> Place:
    """Return one of pydantic's places without the names of the alternatives that it tried."""
    return tuple(
        part for part in path if isinstance(part, int) or not part.startswith(("function-", "constrained-", "dict["))
    )


def _unknown_type(name: str) -> str:
    names = known_types()
    hint = did_you_mean(name, names) or did_you_mean(name.upper(), names)
    return f"there is no node type '{name[:64]}'.{hint} The types are {', '.join(names)}."


def _shown(place: Place) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _check_signals(definition: WorkflowDefinition) -> None:
    """Check that each signal ends one node: the first that waits takes it, and the other would wait for good.

    Raises:
        GraphMistake: two nodes wait for one.
    """
    waiting: dict[str, str] = {}
    for number, node in enumerate(definition.nodes):
        signal = node.settings.signal if isinstance(node.settings, WaitConfig) else None
        if signal is not None and waiting.setdefault(signal, node.id) != node.id:
            problem = f"'{waiting[signal]}' waits for '{signal}' too, and a signal is given once and ends one WAIT; "
            remedy = "write another name, or lead both paths to one WAIT."
            raise GraphMistake(("nodes", number, "config", "signal"), problem + remedy)


# --- which nodes a node may read


def _check_references(definition: WorkflowDefinition, number: int, node: NodeFields) -> None:
    """Check that templates and conditions read nodes whose result is there when this node begins.

    Raises:
        GraphMistake: one reads another node.
    """
    above = definition.graph.above[node.id]
    own = {node.id} if node.compensate is not None else set()
    for reference in sorted(node.references or ()):
        if reference not in above | own:
            raise GraphMistake(("nodes", number, "config"), _unreadable(definition, node, reference))


def _check_undoing(definition: WorkflowDefinition, number: int, node: NodeFields) -> None:
    """Check that the run which would undo a node also has what the node did.

    Raises:
        GraphMistake: the node works on items that child runs have, and those end before this run fails.
    """
    scope = definition.graph.scope_of[node.id]
    while node.compensate is not None and scope != TOP:
        settings = definition.node(scope).settings
        if isinstance(settings, ForEachConfig) and settings.spread:
            problem = f"cannot be made for items that '{scope}' spreads over child runs; leave `spread` out there."
            raise GraphMistake(("nodes", number, "compensate"), problem)
        scope = definition.graph.scope_of[scope]


def _unreadable(definition: WorkflowDefinition, node: NodeFields, reference: str) -> str:
    graph = definition.graph
    if reference not in graph.nodes:
        return f"reads `nodes.{reference[:64]}`, and there is no such node.{did_you_mean(reference, graph.nodes)}"
    scope = graph.scope_of[reference]
    if scope != graph.scope_of[node.id] and scope:
        return f"reads `nodes.{reference}`, which has a result for each item; read `nodes.{scope}`, which has them all."
    return f"reads `nodes.{reference}`, which does not lead to '{node.id}', so its result may be missing; draw an edge."
