"""What a workflow's file may not say: each is refused with its file, line, field and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import load_definition
from config.definitions.workflows.fields import WorkflowDefinition

BEGIN = "name: Flow\nnodes:\n- {id: start, type: START}\n"
END = "- {id: end, type: END}\n"
STRAIGHT = "edges:\n- {source: start, target: end}\n"


def load(tmp_path: Path, text: str) -> WorkflowDefinition:
    path = tmp_path / "flow.yaml"
    path.write_text(text)
    definition = load_definition(path)
    assert isinstance(definition, WorkflowDefinition)
    return definition


def edges(*pairs: str) -> str:
    lines = []
    for pair in pairs:
        source, target, *handle = pair.split()
        lines.append(f"- {{source: {source}, target: {target}{f', source_handle: {handle[0]}' if handle else ''}}}")
    return "edges:\n" + "\n".join(lines) + "\n"


def node(node_id: str, kind: str, config: str = "{}", more: str = "") -> str:
    return f"- {{id: {node_id}, type: {kind}, config: {config}{more}}}\n"


NOTHING = node("a", "TRANSFORM", "{output: 1}")
EACH = node("each", "FOR_EACH", "{items: [1]}")
CHOICE = node("c", "CHOICE", "{branches: [{condition: 'input.n > 1'}]}")
STRAIGHT_A = edges("start a", "a end")
MANY = "".join(node(f"n{number}", "TRANSFORM", "{output: 1}") for number in range(21))
NESTED = "".join(node(f"e{number}", "FOR_EACH", "{items: [1]}") for number in range(4)) + NOTHING
REFUSALS = {
    "an unknown type": (
        BEGIN + node("a", "TRANSFROM") + END + STRAIGHT_A,
        4,
        "there is no node type 'TRANSFROM'. Did you mean 'TRANSFORM'?",
    ),
    "an edge to nothing": (BEGIN + NOTHING + END + edges("start b", "a end"), 7, "there is no node 'b'"),
    "an edge from nothing": (BEGIN + NOTHING + END + edges("start a", "b end"), 8, "there is no node 'b'"),
    "a handle that is none": (
        BEGIN + CHOICE + END + edges("start c", "c end branch-0", "c end branch-3"),
        9,
        "its handles are branch-0, default",
    ),
    "a branch that leads nowhere": (
        BEGIN + CHOICE + END + edges("start c", "c end default"),
        4,
        "`source_handle: branch-0`",
    ),
    "a circle": (
        BEGIN + NOTHING + node("b", "TRANSFORM", "{output: 1}") + END + edges("start a", "a b", "b a", "b end"),
        4,
        "circle (a -> b -> a)",
    ),
    "an END that is not reached": (BEGIN + NOTHING + END + edges("start a"), 5, "END cannot be reached"),
    "no END": (BEGIN + NOTHING + edges("start a"), 2, "there is no END node"),
    "too many nodes": (
        BEGIN + "- {id: a, type: WAIT}\n" * 1000 + END,
        2,
        "has more than 1000; make some of them a workflow that a SUB_WORKFLOW calls",
    ),
    "a long pattern in CEL": (
        BEGIN + node("c", "CHOICE", f"{{branches: [{{condition: \"input.t.matches('{'a' * 257}')\"}}]}}") + END,
        4,
        "has a pattern of more than 256 characters",
    ),
    "an input that is no mapping": (
        BEGIN + node("a", "SUB_WORKFLOW", "{workflow: b, input: [1]}") + END + STRAIGHT_A,
        4,
        "nodes[1].config.input: has to be a mapping",
    ),
    "no START": ("name: Flow\nnodes:\n" + NOTHING + END + edges("a end"), 2, "there is no START node"),
    "two STARTs": (BEGIN + "- {id: again, type: START}\n" + END + STRAIGHT, 4, "two START nodes"),
    "a node that nothing reaches": (BEGIN + NOTHING + END + STRAIGHT, 4, "nothing leads to 'a'"),
    "two nodes of one name": (BEGIN + NOTHING + NOTHING + END + STRAIGHT_A, 5, "two nodes are called 'a'"),
    "more than 20 branches": (
        BEGIN
        + "- {id: p, type: PARALLEL}\n"
        + MANY
        + END
        + edges("start p", *(f"p n{n} parallel-{n}" for n in range(21)), *(f"n{n} end" for n in range(21))),
        49,
        "'p' begins 21 branches at once, and 20 are the most",
    ),
    "a FOR_EACH in three others": (
        BEGIN
        + NESTED
        + END
        + edges("start e0", *(f"e{n} e{n + 1} foreach-body" for n in range(3)), "e3 a foreach-body", "e0 end"),
        7,
        "nested deeper than 3",
    ),
    "a body that leads outside": (
        BEGIN + EACH + NOTHING + END + edges("start each", "each a foreach-body", "each a", "a end"),
        5,
        "is reached from the body of 'each' and from outside",
    ),
    "END in a body": (
        BEGIN + EACH + END + edges("start each", "each end foreach-body"),
        5,
        "END is inside the body of 'each'",
    ),
    "a pattern of 257 characters": (
        BEGIN
        + node("c", "CHOICE", f"{{branches: [{{field: input.a, operator: matches, value: {'x' * 257}}}]}}")
        + END
        + edges("start c", "c end branch-0"),
        4,
        "256",
    ),
    "a compensation of items that are spread": (
        BEGIN
        + node("each", "FOR_EACH", "{items: [1], spread: 2}")
        + node("f", "FUNCTION", "{tool: get_order, arguments: {order_id: '1'}}", ", compensate: {tool: cancel_order}")
        + END
        + edges("start each", "each f foreach-body", "each end"),
        5,
        "spreads over child runs",
    ),
    "a time of what has none": (
        BEGIN + node("a", "TRANSFORM", "{output: 1}", ", timeout_s: 5") + END + STRAIGHT_A,
        4,
        "has no time of its own",
    ),
    "a choice that is called as no choice is": (
        BEGIN
        + node("c", "CHOICE_LLM", "{prompt: Which?, choices: [one, None]}")
        + END
        + edges("start c", "c end branch-0"),
        4,
        "give the choice another name",
    ),
    "a condition that fails and continues": (
        BEGIN
        + node("c", "CHOICE", "{branches: [{condition: 'input.n > 1'}]}", ", on_error: continue")
        + END
        + edges("start c", "c end branch-0"),
        4,
        "decides whether the run continues",
    ),
    "a value that refers to nodes": (
        BEGIN
        + node("c", "CHOICE", "{branches: [{field: input.a, operator: '==', value: '{{ nodes.start }}'}]}")
        + END
        + edges("start c", "c end branch-0"),
        4,
        "may not refer to `nodes`",
    ),
    "a template that reads a node beside it": (
        BEGIN
        + NOTHING
        + node("b", "TRANSFORM", "{output: '{{ nodes.a }}'}")
        + END
        + edges("start a", "start b", "a end", "b end"),
        5,
        "reads `nodes.a`, which does not lead to 'b'",
    ),
    "a template that reads no node": (
        BEGIN + node("a", "TRANSFORM", "{output: '{{ nodes.strat }}'}") + END + STRAIGHT_A,
        4,
        "reads `nodes.strat`, and there is no such node. Did you mean 'start'?",
    ),
    "a template that reads into a body": (
        BEGIN
        + EACH
        + NOTHING
        + node("b", "TRANSFORM", "{output: '{{ nodes.a }}'}")
        + END
        + edges("start each", "each a foreach-body", "each b", "b end"),
        6,
        "read `nodes.each`, which has them all",
    ),
    "a template that asks for attributes": (
        BEGIN + node("a", "TRANSFORM", "{output: \"{{ ''.__class__ }}\"}") + END + STRAIGHT_A,
        4,
        "asks for an attribute",
    ),
    "a template in a tool's name": (
        BEGIN + node("a", "FUNCTION", "{tool: '{{ input.tool }}'}") + END + STRAIGHT_A,
        4,
        "no template chooses a tool",
    ),
    "a condition that is no CEL": (
        BEGIN + node("c", "CHOICE", "{branches: [{condition: 'a >'}]}") + END + edges("start c", "c end branch-0"),
        4,
        "is not CEL",
    ),
    "a retry of what is computed": (
        BEGIN + node("a", "TRANSFORM", "{output: 1}", ", retry: 2") + END + STRAIGHT_A,
        4,
        "another attempt of a TRANSFORM would give the same",
    ),
    "an error edge without a failure that follows it": (
        BEGIN + NOTHING + END + edges("start a", "a end", "a end error"),
        9,
        "write `on_error: branch`",
    ),
    "a failure that no edge follows": (
        BEGIN + node("a", "TRANSFORM", "{output: 1}", ", on_error: branch") + END + STRAIGHT_A,
        4,
        "no edge with `source_handle: error`",
    ),
    "a WAIT for nothing": (BEGIN + node("a", "WAIT") + END + STRAIGHT_A, 4, "a WAIT needs `signal:` or `seconds:`"),
    "a signal that is called like one of an item": (
        BEGIN + node("a", "WAIT", "{signal: paid-17}") + END + STRAIGHT_A,
        4,
        "ends like the name of an item's signal",
    ),
    "a signal that two nodes wait for": (
        BEGIN + "".join(node(name, "WAIT", "{signal: paid}") for name in "ab") + END + edges("start a", "a b", "b end"),
        5,
        "'a' waits for 'paid' too",
    ),
    "a blueprint's signal that is called so": ("name: Flow\nblueprint: a:B\nsignals: {a-0: {}}\n", 3, "write `a_0`"),
    "the signals of a graph": (BEGIN + END + STRAIGHT + "signals: {paid: {}}\n", 7, "`signals` is of a blueprint"),
    "a field of agents": ("name: Flow\nsystem_prompt: Be brief.\nnodes: []\n", 2, "`system_prompt` is of agents"),
    "a graph and a blueprint": (BEGIN + END + STRAIGHT + "blueprint: a:B\n", 7, "keep one of both"),
    "an unknown field of a choice": (
        BEGIN
        + node("c", "CHOICE_LLM", "{prompt: a, choices: [{name: b, describtion: c}]}")
        + END
        + edges("start c", "c end branch-0"),
        4,
        "Did you mean 'description'?",
    ),
}


@pytest.mark.parametrize("mistake", REFUSALS)
def test_a_mistake_is_refused_with_its_line_and_the_remedy(mistake: str, tmp_path: Path) -> None:
    text, line, remedy = REFUSALS[mistake]

    with pytest.raises(DefinitionInvalid) as caught:
        load(tmp_path, text)

    assert remedy in str(caught.value)
    assert f"flow.yaml:{line}:" in str(caught.value)


def test_twenty_branches_and_three_bodies_are_accepted(tmp_path: Path) -> None:
    twenty = "".join(node(f"n{number}", "TRANSFORM", "{output: 1}") for number in range(20))
    branches = [f"p n{number} parallel-{number}" for number in range(20)] + [f"n{number} end" for number in range(20)]
    load(tmp_path, BEGIN + "- {id: p, type: PARALLEL}\n" + twenty + END + edges("start p", *branches))
    three = "".join(node(f"e{number}", "FOR_EACH", "{items: [1]}") for number in range(3)) + NOTHING
    bodies = edges("start e0", "e0 e1 foreach-body", "e1 e2 foreach-body", "e2 a foreach-body", "a e2", "e0 end")

    definition = load(tmp_path, BEGIN + three + END + bodies)

    assert definition.graph.scope_of == {"start": "", "e0": "", "end": "", "e1": "e0", "e2": "e1", "a": "e2"}


def test_a_workflow_of_one_line_more_has_another_digest_and_its_tools(tmp_path: Path) -> None:
    first = load(tmp_path, BEGIN + node("a", "FUNCTION", "{tool: clock}") + END + STRAIGHT_A)
    second = load(tmp_path, BEGIN + node("a", "FUNCTION", "{tool: clock}") + END + STRAIGHT_A + "description: More.\n")

    assert first.tools == ("clock",)
    assert (first.digest != second.digest, first.behaviour == second.behaviour) == (True, True)
