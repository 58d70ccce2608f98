"""Where the page draws the nodes and edges of a workflow."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import pytest

from tests.web.page.conftest import Module
from tests.web.page.workflows import LOOPS, Workflow, random_workflow, workflow

pytestmark = pytest.mark.parity

LAYOUT = "const { layout } = await import(`${page}/state/graphLayout.js`); return argument.map((each) => layout(each));"
BODIES = """
  const { bodiesOf } = await import(`${page}/state/graphGroups.js`);
  return Object.fromEntries([...bodiesOf(argument.nodes, argument.edges)].map(([id, body]) => [id, [...body].sort()]));
"""
RANDOM = [random_workflow(seed) for seed in range(20)]
Box = tuple[float, float, float, float]
Point = tuple[float, float]


@pytest.fixture(scope="module")
def drawings(module: Module) -> list[Any]:
    """The layouts of ``RANDOM``."""
    return layouts(module, RANDOM)


def layouts(module: Module, workflows: list[Workflow]) -> list[Any]:
    drawings: list[Any] = module(LAYOUT, workflows)
    return drawings


def boxes(drawing: Any, kind: str = "nodes") -> dict[str, Box]:
    return {
        each["id"]: (each["x"], each["y"], each["x"] + each["width"], each["y"] + each["height"])
        for each in drawing[kind]
    }


def labels(drawing: Any) -> list[Box]:
    chips = [edge["label"] for edge in drawing["edges"] if "label" in edge]
    return [
        (each["x"] - each["width"] / 2, each["y"] - 8, each["x"] + each["width"] / 2, each["y"] + 8) for each in chips
    ]


def overlap(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def crosses(line: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    def side(a: Point, b: Point, c: Point) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    return side(*line, other[0]) * side(*line, other[1]) < 0 and side(*other, line[0]) * side(*other, line[1]) < 0


def test_neither_nodes_nor_labels_cover_each_other(drawings: list[Any]) -> None:
    for drawing in drawings:
        assert not any(overlap(*pair) for pair in combinations([*labels(drawing), *boxes(drawing).values()], 2))


def test_an_edge_meets_its_nodes_and_runs_through_no_other(drawings: list[Any]) -> None:
    for drawing in drawings:
        places = boxes(drawing)
        for edge in drawing["edges"]:
            x, y = edge["points"][-1]
            left, top, right, bottom = places[edge["target"]]
            assert left <= x <= right
            assert top <= y <= (top + bottom) / 2
            others = [place for id_, place in places.items() if id_ not in (edge["source"], edge["target"])]
            ends = places[edge["source"]], places[edge["target"]]
            others += [
                frame for frame in boxes(drawing, "frames").values() if not any(overlap(frame, end) for end in ends)
            ]
            for (x, y), (to_x, to_y) in pairwise(edge["points"]):
                line = (min(x, to_x) - 1, min(y, to_y), max(x, to_x) + 1, max(y, to_y))
                assert not any(overlap(line, place) for place in others), edge


def test_an_edge_leads_down_unless_it_leads_back(drawings: list[Any]) -> None:
    for edge in (edge for drawing in drawings for edge in drawing["edges"]):
        heights = [y for _, y in edge["points"]]
        assert (heights == sorted(heights)) is not edge["isBack"]


def test_few_edges_cross(drawings: list[Any]) -> None:
    for drawing in drawings:
        edges = [list(pairwise(edge["points"])) for edge in drawing["edges"] if not edge["isBack"]]
        crossed = sum(any(crosses(*pair) for pair in product(*lines)) for lines in combinations(edges, 2))
        assert crossed <= len(edges) / 20


def test_a_frame_holds_its_loop_and_body_and_nothing_else(module: Module, drawings: list[Any]) -> None:
    for graph, drawing in zip(RANDOM[:8], drawings, strict=False):
        bodies = module(BODIES, graph)
        for loop, frame in boxes(drawing, "frames").items():
            inside = sorted(id_ for id_, place in boxes(drawing).items() if overlap(place, frame))
            assert inside == sorted([loop, *bodies[loop]])


def test_the_same_workflow_gets_the_same_places(module: Module, drawings: list[Any]) -> None:
    assert layouts(module, RANDOM[:5]) == drawings[:5]


def test_a_body_ends_before_what_comes_behind_its_loop(module: Module) -> None:
    assert module(BODIES, LOOPS) == {"items": ["fetch", "inner", "keep", "price"], "inner": ["price"]}


def test_branches_that_need_not_cross_do_not(module: Module) -> None:
    branches = workflow("start a x", "start b y", "start c z", "c d", "a e", "b f", "d end", "e end", "f end")

    (drawing,) = layouts(module, [branches])

    places = boxes(drawing)
    assert places["a"][0] < places["b"][0] < places["c"][0]
    assert places["e"][0] < places["f"][0] < places["d"][0]


def test_what_follows_alone_stands_straight_below(module: Module) -> None:
    (drawing,) = layouts(module, [workflow("start a", "a b", "a c", "b d", "d e", "c end", "e end")])

    middles = {id_: (left + right) / 2 for id_, (left, _, right, _) in boxes(drawing).items()}
    assert middles["start"] == middles["a"]
    assert middles["b"] == middles["d"] == middles["e"]


def test_edges_between_the_same_nodes_are_one_with_both_names(module: Module) -> None:
    (drawing,) = layouts(module, [workflow("a b branch-0", "a b default")])

    assert [(edge["handles"], edge["label"]["text"]) for edge in drawing["edges"]] == [
        (["branch-0", "default"], "branch-0, default")
    ]


def test_an_id_of_24_characters_has_room(module: Module) -> None:
    (drawing,) = layouts(module, [workflow(f"start {'x' * 23}")])

    assert drawing["nodes"][1]["width"] >= 72 + 23 * 7.2


@pytest.mark.parametrize(
    "broken",
    [
        {"nodes": [], "edges": []},
        workflow("a a"),
        workflow("a b", "b c", "c a"),
        workflow("a b foreach-body", "b a foreach-body", a="FOR_EACH", b="FOR_EACH"),
        {"nodes": [{"id": "a", "type": "LLM"}], "edges": [{"source": "a", "target": "gone"}]},
    ],
)
def test_what_no_definition_may_be_is_drawn_all_the_same(module: Module, broken: Workflow) -> None:
    (drawing,) = layouts(module, [broken])

    assert len(drawing["nodes"]) == len(broken["nodes"])
    assert drawing["width"] >= 0
