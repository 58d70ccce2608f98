"""Looking a workflow over together with what it calls: other workflows, tools and models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.doctor.workflows import check_workflow
from config.definitions.loading import load_definition
from config.definitions.workflows.fields import WorkflowDefinition
from config.settings import read_settings

pytestmark = pytest.mark.parity
Check = Callable[[str], list[tuple[str, int | None, str | None, str]]]
FLOW = """\
name: Flow
nodes:
  - {{id: start, type: START}}
  - {{id: call, {node}}}
  - {{id: end, type: END}}
edges: [{{source: start, target: call}}, {{source: call, target: end}}]
"""
SUB = "type: SUB_WORKFLOW, config: {{workflow: {}}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    return folder


@pytest.fixture
def check(folder: Path) -> Check:
    """Return the problems of a workflow, as (severity, line, field, text)."""

    def check(workflow_id: str) -> list[tuple[str, int | None, str | None, str]]:
        settings = read_settings().model_copy(update={"agents_dir": str(folder)})
        definition = load_definition(folder / f"{workflow_id}.yaml")
        assert isinstance(definition, WorkflowDefinition)
        problems = check_workflow(definition, settings)
        return [(problem.severity, problem.line, problem.field, problem.text) for problem in problems]

    return check


def write(folder: Path, workflow_id: str, node: str) -> None:
    (folder / f"{workflow_id}.yaml").write_text(FLOW.format(node=node))


def test_what_can_run_has_no_problem_and_needs_no_model(check: Check, folder: Path) -> None:
    write(folder, "inner", "type: FUNCTION, config: {tool: calculator, arguments: {expression: '1+1'}}")
    write(folder, "outer", SUB.format("inner"))

    assert check("outer") == []


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ("type: TRANSFORM, config: {output: {a: ['{{ input.amont }}']}}", "config.output.a[0]"),
        ("type: FILTER, config: {items: [1], condition: input.amont > item}", "config.condition"),
        (
            "type: CHOICE, config: {branches: [{field: input.amont, operator: '>', value: 1}]}",
            "config.branches[0].field",
        ),
    ],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_what_a_node_reads_of_the_input_is_a_field_of_it(
    node: str, place: str, is_open: bool, check: Check, folder: Path
) -> None:
    write(folder, "flow", node)
    schema = f"{{type: object, properties: {{amount: {{}}, to: {{}}}}, additionalProperties: {str(is_open).lower()}}}"
    file = folder / "flow.yaml"
    file.write_text(f"{file.read_text()}input: {schema}\n")

    ((severity, line, field, text),) = check("flow")

    assert (severity, line, field) == ("warning" if is_open else "error", 4, f"nodes[1].{place}")
    assert text == "reads `input.amont`, and `input:` has 'amount', 'to'. Did you mean 'amount'?"


@pytest.mark.parametrize(
    ("node", "field", "words"),
    [
        (SUB.format("nowhere"), "nodes[1].config.workflow", "no agent or workflow is called 'nowhere'"),
        ("type: FUNCTION, config: {tool: calculatr}", "nodes[1].config.tool", "'calculatr'"),
        ("type: FUNCTION, config: {tool: 'workflow:nowhere'}", "nodes[1].config.tool", "'nowhere'"),
        ("type: LLM, config: {prompt: Hello, model: opnai/gpt-5-mini}", "nodes[1].config.model", "openai/gpt-5-mini"),
        ("type: FUNCTION, config: {tool: order_supplies}, retry: 2", "nodes[1].retry", "never repeated"),
        (
            "type: FUNCTION, config: {tool: calculator, arguments: {expression: '1', expresion: '1'}}",
            "nodes[1].config.arguments",
            "takes no 'expresion'; it takes expression. Did you mean 'expression'?",
        ),
        ("type: FUNCTION, config: {tool: calculator}", "nodes[1].config.arguments", "needs expression too"),
        (
            "type: FUNCTION, config: {tool: calculator}, compensate: {tool: calculatr}",
            "nodes[1].compensate.tool",
            "'calculatr'",
        ),
    ],
)
def test_what_a_node_calls_is_looked_at_in_its_place(
    node: str, field: str, words: str, check: Check, folder: Path
) -> None:
    write(folder, "flow", node)

    ((severity, line, place, text),) = check("flow")

    assert (severity, place) == ("error", field)
    assert line in (4, None)
    assert words in text


def test_a_circle_of_workflows_and_agents_is_named(check: Check, folder: Path) -> None:
    write(folder, "first", SUB.format("second"))
    write(folder, "second", "type: FUNCTION, config: {tool: 'agent:helper'}")
    (folder / "helper.yaml").write_text("name: H\nmodel: auto\nsystem_prompt: x\ntools: ['workflow:first']\n")

    ((severity, line, field, text),) = check("first")

    assert (severity, line, field) == ("error", 4, "nodes[1].config.workflow")
    assert "leads back to itself (first -> second -> helper -> first)" in text


def test_workflows_are_nested_three_deep_and_no_deeper(check: Check, folder: Path) -> None:
    for number in range(5):
        write(folder, f"level{number}", SUB.format(f"level{number + 1}"))
    write(folder, "level5", "type: TRANSFORM, config: {output: 1}")

    assert check("level2") == []
    ((_, _, _, text),) = check("level1")
    assert "deeper than 3 workflows (level1 -> level2 -> level3 -> level4 -> level5)" in text


@pytest.mark.parametrize(
    ("lines", "severity", "words"),
    [
        (
            "input: {type: object, properties: {item: {}, quantity: {}, country: {}}, required: [item, country]}",
            None,
            "",
        ),
        ("", "warning", "not those of OrderInput (item, quantity?, country)"),
        (
            "input: {type: object, properties: {item: {}}, required: [item]}",
            "warning",
            '"required": ["item", "country"]',
        ),
        ("blueprint: nowhere", "error", "nowhere"),
    ],
)
def test_the_input_of_a_blueprint_is_that_of_its_model(
    check: Check, folder: Path, lines: str, severity: str | None, words: str
) -> None:
    named = "" if lines.startswith("blueprint") else "blueprint: order\n"
    (folder / "flow.yaml").write_text(f"name: Flow\n{named}{lines}\n")

    problems = check("flow")

    assert [problem[0] for problem in problems] == ([severity] if severity is not None else [])
    assert words in "".join(problem[3] for problem in problems)
