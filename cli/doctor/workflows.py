"""Checks a workflow beyond its own file: its tools and models, and the workflows and agents that it leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from json import dumps
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agents.catalogue import tools_of
from agents.checkup import Problem, Severity, deep_check, problem_of
from agents.delegation.agent_tool import PREFIX, WORKFLOW
from agents.registry import AgentRegistry
from agents.tools.tool import Tool
from agents.workflows.blueprint import BLUEPRINTS
from agents.workflows.toolbox import line_of, toolbox_of
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import BEGINNING, definition_of
from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.graph import MAX_DEPTH
from config.definitions.yaml_lines import LinedYaml, Place, read_yaml
from config.errors import CallboardError
from config.expressions.errors import ExpressionRefused
from config.expressions.node_expression import NodeExpression
from config.expressions.templates import Template, templates_in
from config.settings import Settings
from config.text.names import did_you_mean

EXPRESSIONS = ("condition", "expression", "by", "field")
"""Fields of a node's config that are expressions, and no templates."""


def check_workflow(
    definition: WorkflowDefinition, settings: Settings, serving: Mapping[str, int] = MappingProxyType({})
) -> list[Problem]:
    """Return all problems of a workflow that show only with other files; empty when it can run."""
    check = WorkflowCheck(definition, settings)
    problems = [check.placed(problem) for problem in deep_check(definition, settings, None, serving)]
    problems += [*check.models(), *check.input_fields()]
    if not any(problem.severity == "error" for problem in problems):
        problems += check.toolbox()
    if definition.blueprint is not None:
        problems += check.blueprint(definition.blueprint)
    return [*problems, *check.nesting()]


def _argument_problems(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the names of a call's arguments, as sentences."""
    names = list(tool.parameters.get("properties") or ())
    for name in arguments:
        if name not in names and tool.parameters.get("additionalProperties") is False:
            yield f"{tool.name} takes no '{name}'; it takes {', '.join(names) or 'nothing'}.{did_you_mean(name, names)}"
    missing = [name for name in tool.parameters.get("required") or () if name not in arguments]
    if missing:
        yield f"{tool.name} needs {' and '.join(missing)} too; add {'it' if len(missing) == 1 else 'them'}."


class WorkflowCheck:
    """The checks of one workflow."""

    def __init__(self, definition: WorkflowDefinition, settings: Settings) -> None:
        self._workflow, self._settings = definition, settings
        self._registry = AgentRegistry(settings.agent_folders)
        self._fine: set[tuple[str, int]] = set()
        """What leads to nothing wrong, with how many workflows are above it; it is looked at once."""
        self._lines: LinedYaml | None = None
        with suppress(CallboardError):  # edited since it was read
            self._lines = read_yaml(Path(definition.file), BEGINNING)

    def placed(self, problem: Problem) -> Problem:
        """Return a problem of a tool at the node that calls it, since its line of ``tools`` is not in the file."""
        name, _, number = (problem.field or "").rstrip("]").partition("[")
        if name != "tools" or not number.isdecimal():
            return problem
        place = self._place_of(self._workflow.tools[int(number)])
        return problem if place is None else self._at(place, problem)

    def _place_of(self, line: str) -> Place | None:
        """Return the place of the first node that calls the tool of a line, or that is undone by it."""
        for number, node in enumerate(self._workflow.nodes):
            if line_of(node) == line:
                return ("nodes", number, "config", "workflow" if node.type == "SUB_WORKFLOW" else "tool")
            if node.compensate is not None and node.compensate.tool == line:
                return ("nodes", number, "compensate", "tool")
        return None

    def _at(self, place: Place, problem: Problem) -> Problem:
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        line = self._lines.line_of(place) if self._lines is not None else None
        return replace(problem, file=self._workflow.file, line=line, field=field)

    def models(self) -> Iterator[Problem]:
        """Yield what is wrong with the models that nodes name."""
        for number, node in enumerate(self._workflow.nodes):
            model = getattr(node.settings, "model", None)
            if model is not None:
                alone = definition_of(self._workflow.id, {"name": node.id, "model": model, "system_prompt": "-"})
                for problem in deep_check(alone, self._settings):
                    yield self._at(("nodes", number, "config", "model"), problem)

    def input_fields(self) -> Iterator[Problem]:
        """Yield each field of the input that a node reads and ``input:`` does not have."""
        schema = self._workflow.input
        names = schema.get("properties") or {}
        severity: Severity = "error" if schema.get("additionalProperties") is False else "warning"
        for number, node in enumerate(self._workflow.nodes if names else ()):
            undoing = {"compensate": {"arguments": node.compensate.arguments}} if node.compensate is not None else {}
            for place, text in templates_in({"config": node.config, **undoing}):
                for field in sorted(_input_fields(place, text) - names.keys()):
                    listing = ", ".join(f"'{name}'" for name in names)
                    problem = f"reads `input.{field}`, and `input:` has {listing}.{did_you_mean(field, names)}"
                    yield self._at(("nodes", number, *place), replace(self._problem(problem), severity=severity))

    def toolbox(self) -> Iterator[Problem]:
        """Yield what is wrong with the nodes' calls: several tools by one line, a retry of an unsafe one, arguments."""
        try:
            tools = toolbox_of(self._workflow, tools_of(self._workflow, self._settings))
        except DefinitionInvalid as error:
            yield problem_of(error)
            return
        for number, node in enumerate(self._workflow.nodes):
            if node.type == "FUNCTION":
                for problem in _argument_problems(tools[line_of(node)], node.config.get("arguments", {})):
                    yield self._at(("nodes", number, "config", "arguments"), self._problem(problem))

    def blueprint(self, path: str) -> Iterator[Problem]:
        """Yield what is wrong with a blueprint: its class, or an ``input:`` that its ``input_model`` does not take.

        Only a process that works on runs imports the class, so the file says what an input has to be.
        """
        try:
            model = BLUEPRINTS.find(path, self._settings).input_model
        except CallboardError as error:
            yield self._at(("blueprint",), replace(self._problem(str(error)), code=error.code))
            return
        schema = model.model_json_schema() if model is not None else {}
        own, expected = self._workflow.input, {name: schema.get(name) or [] for name in ("properties", "required")}
        if model is not None and any(set(own.get(name) or ()) != set(names) for name, names in expected.items()):
            written = {"type": "object", **expected}
            names = ", ".join(f"{name}{'' if name in expected['required'] else '?'}" for name in expected["properties"])
            text = f"the fields of `input:` are not those of {model.__name__} ({names}); write {dumps(written)}"
            yield self._at(("input",), replace(self._problem(text), severity="warning"))

    def _problem(self, text: str) -> Problem:
        return Problem(severity="error", file=self._workflow.file, line=None, field=None, text=text)

    # --- what it leads to

    def nesting(self) -> Iterator[Problem]:
        """Yield each workflow or agent that would be begun below itself, and each workflow that is too deep."""
        for line in self._workflow.tools:
            if line.startswith((PREFIX, WORKFLOW)):
                text = self._wrong_below(line, (f"{WORKFLOW}{self._workflow.id}",))
                place = self._place_of(line)
                if text is not None:
                    problem = replace(self._problem(text), field="tools")
                    yield problem if place is None else self._at(place, problem)

    def _wrong_below(self, line: str, above: tuple[str, ...]) -> str | None:
        """Return what is wrong with a workflow or an agent, or with what it leads to; ``above``: the lines before."""
        chain = " -> ".join(name.partition(":")[2] for name in (*above, line))
        depth = sum(name.startswith(WORKFLOW) for name in above)
        if line in above:
            return f"leads back to itself ({chain}), and such a call is refused; take one of the calls away."
        if depth > MAX_DEPTH and line.startswith(WORKFLOW):
            return f"is nested deeper than {MAX_DEPTH} workflows ({chain}); start the inner one by itself."
        for its in self._lines_of(line) if (line, depth) not in self._fine else ():
            text = self._wrong_below(its, (*above, line)) if its.startswith((PREFIX, WORKFLOW)) else None
            if text is not None:
                return text
        self._fine.add((line, depth))
        return None

    def _lines_of(self, line: str) -> tuple[str, ...]:
        """Return the tools of the definition that a line names; none where it cannot be used, which is said of it."""
        with suppress(CallboardError):
            definition: AgentDefinition = self._registry.get(line.partition(":")[2])
            return definition.tools
        return ()


def _input_fields(place: Place, text: str) -> frozenset[str]:
    """Return the fields of the input that a text of a node's config reads."""
    names = [part for part in place if isinstance(part, str)]
    with suppress(ExpressionRefused):
        if names[-1] in EXPRESSIONS and "{{" not in text:
            return NodeExpression(text, is_boolean=False).input_fields
        return Template(text).input_fields
    return frozenset()
