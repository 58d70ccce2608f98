"""`./callboard workflows`: list the workflows, show one with its graph, and check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from agents.errors import WORKFLOW_MISSED
from agents.registry import AgentRegistry
from cli import options
from cli.output.definitions import MARK, has_error, listed, look_up, plain, print_problems, serving_of
from cli.output.drawing import fitting, graph_lines, handle_words, head_lines
from cli.output.durations import lasting
from cli.output.form import FormField, fields_of
from cli.output.json import print_json
from cli.output.quoted import INDENT
from cli.output.table import Column, Form, Row, Table
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.workflows.fields import NodeFields, WorkflowDefinition
from config.definitions.workflows.shown import drawing, signals
from config.settings import Settings
from config.text.visible import visible


def _size(row: Row) -> str:
    return "" if row["id"] is None else "blueprint" if "blueprint" in row else f"{len(row['nodes'])} nodes"


def _summary(row: Row) -> str:
    return "does not load" if row["id"] is None else (row["description"] or row["name"]).split("\n")[0]


WORKFLOWS = Table(
    "id",
    (
        MARK,
        Column("WORKFLOW", lambda row: row["id"] or Path(row["file"]).stem),
        Column("SIZE", _size, worth=80),
        Column("DESCRIPTION", _summary),
    ),
)


@click.command()
@click.argument("workflow_id", type=options.WORKFLOW, metavar="[WORKFLOW]", required=False)
@click.option("--check", "is_check", is_flag=True, help="Also look at what they call: tools, models, other workflows.")
@click.option("--graph", "is_graph", is_flag=True, help="Draw the nodes and edges.")
@click.option("--all", "is_all", is_flag=True, help="Also those that no list has (`listed: false`).")
@options.listing
def workflows(workflow_id: str | None, is_check: bool, is_graph: bool, is_all: bool, form: Form) -> int:
    """List the workflows, or show one: its input, nodes, edges and signals."""
    settings = options.apply()
    registry = AgentRegistry(settings.agent_folders)
    definitions = [_one(registry, workflow_id)] if workflow_id is not None else []
    definitions = definitions or listed(registry, of_workflows=True, is_all=is_all)
    rows = [_row(definition, settings, is_check=is_check) for definition in definitions]
    if form == "json" and workflow_id is not None:
        print_json(rows[0])
    elif form != "json" and (workflow_id is not None or is_graph):
        for definition in definitions:
            if isinstance(definition, WorkflowDefinition):
                _print_one(definition, is_graph=is_graph)
    else:
        folders = ", ".join(str(folder) for folder in settings.agent_folders)
        empty = f"There are no workflows in {folders}; add a YAML file with `nodes:`, its name is the id."
        WORKFLOWS.print(rows, form, empty=empty)
    if form in ("table", "wide"):
        print_problems(rows)
        if is_check and rows and not any(row["problems"] for row in rows):
            click.echo(f"No problems: {', '.join(row['id'] for row in rows)}, with what they call.")
    return 1 if any(map(has_error, rows)) else 0


def _one(registry: AgentRegistry, workflow_id: str) -> AgentDefinition | DefinitionInvalid:
    """Return a workflow, or what is wrong with its file.

    Raises:
        AgentUnknown: there is none.
        WORKFLOW_MISSED: the id is an agent's.
    """
    definition = look_up(registry, workflow_id)
    if isinstance(definition, AgentDefinition) and not definition.is_workflow:
        raise WORKFLOW_MISSED(problem=f"'{workflow_id}' is an agent; `./callboard agents {workflow_id}` shows it.")
    return definition


def _row(definition: AgentDefinition | DefinitionInvalid, settings: Settings, *, is_check: bool) -> dict[str, Any]:
    from agents.checkup import problem_of

    if isinstance(definition, DefinitionInvalid):
        problem = problem_of(definition)
        return {"id": None, "file": problem.file, "problems": [plain(problem)]}
    assert isinstance(definition, WorkflowDefinition)
    row = {"id": definition.id, "name": definition.name, "description": definition.description}
    problems = _problems(definition, settings) if is_check else []
    return row | {"input": definition.input, **drawing(definition), "problems": problems}


def _problems(definition: WorkflowDefinition, settings: Settings) -> list[dict[str, Any]]:
    from cli.doctor.workflows import check_workflow

    return [plain(problem) for problem in check_workflow(definition, settings, serving_of(settings))]


def _print_one(definition: WorkflowDefinition, *, is_graph: bool) -> None:
    for line in graph_lines(definition) if is_graph else _workflow_lines(definition):
        click.echo(line)


# --- one workflow


def _workflow_lines(definition: WorkflowDefinition) -> Iterator[str]:
    """Yield the lines about a workflow, in sections."""
    yield from head_lines(definition)
    yield from _section("Input", _fields(definition.input) or ["nothing in particular"])
    if definition.blueprint is not None:
        yield from _section("Blueprint", [definition.blueprint])
    else:
        yield from _graph_sections(definition)
    yield from _section("Signals", map(_signal, signals(definition)))
    if definition.output is not None:
        yield from _section("Output", _fields(definition.output) or [str(definition.output.get("type", "any JSON"))])
    yield f"Start it: ./callboard run {definition.id} --input FILE.json"


def _graph_sections(definition: WorkflowDefinition) -> Iterator[str]:
    width = max(len(node.id) for node in definition.nodes)
    type_width = max(len(node.type) for node in definition.nodes)
    nodes = (f"{node.id:<{width}}  {node.type:<{type_width}}  {_facts(node)}" for node in definition.nodes)
    yield from _section("Nodes", nodes)
    handles = (handle_words(definition, edge) for edge in definition.drawn_edges())
    edges = (f"{edge.source} → {edge.target}" for edge in definition.edges)
    yield from _section("Edges", map("  ".join, zip(_padded(edges), handles, strict=True)))


def _section(title: str, lines: Any) -> Iterator[str]:
    body = list(lines)
    if body:
        yield click.style(title, bold=True)
        yield from (fitting(f"{INDENT}{visible(line)}") for line in body)
        yield ""


def _padded(texts: Iterator[str]) -> list[str]:
    lines = list(texts)
    width = max(map(len, lines), default=0)
    return [f"{line:<{width}}" for line in lines]


def _fields(schema: Mapping[str, Any]) -> list[str]:
    fields = fields_of(schema)
    width = max((len(field.name) for field in fields), default=0)
    return [
        f"{field.name:<{width}}  {_kind(field)}{'' if field.is_required else ', optional'}"
        f"{': ' + str(field.schema['description']) if 'description' in field.schema else ''}"
        for field in fields
    ]


def _kind(field: FormField) -> str:
    kinds = {"array": "a list", "object": "an object"}
    return kinds.get(str(field.schema.get("type")), field.kind)


def _facts(node: NodeFields) -> str:
    """Return what is unusual about a node."""
    facts = [node.name] if node.name else []
    facts += [str(node.config[name]) for name in ("tool", "workflow", "signal") if name in node.config]
    facts += [f"on error: {node.on_error}"] if node.on_error != "fail" else []
    facts += [f"retry {node.retry}"] if node.retry is not None else []
    facts += [f"at most {lasting(round(node.timeout_s * 1000))}"] if node.timeout_s is not None else []
    facts += [f"undone by {node.compensate.tool}"] if node.compensate is not None else []
    return ", ".join(facts)


def _signal(signal: Mapping[str, Any]) -> str:
    form = fields_of(signal.get("data_schema", {}))
    data = f", with {', '.join(field.name for field in form)}" if form else ""
    node = f"  node {signal['node']}" if "node" in signal else ""
    return f"{signal['name']}{node}{data}"
