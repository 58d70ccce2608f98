"""The graph of a workflow's run: what it shows while the run continues, its keys, and what a node's panel says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.answering import opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme
from tests.web.page.workflows import Workflow, random_workflow, workflow

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

FAINT_TEXTS = (Path(__file__).parent / "contrast.js").read_text()
SHOW = """
  const { GraphView } = await import("/static/views/graph/GraphView.js");
  window.story = { run_id: "run_1", agent: "triage", items: [], ...given };
  window.view = new GraphView(window.story);
  document.querySelector(".turns").replaceChildren(window.view.element);
"""
CHANGE = "Object.assign(window.story, given); window.view.update();"
PLACES = "boxes => boxes.map(({ offsetLeft, offsetTop, offsetWidth }) => [offsetLeft, offsetTop, offsetWidth])"
NAME_HEIGHTS = """names => names.map((name) =>
  parseFloat(getComputedStyle(name).fontSize) * name.getBoundingClientRect().height / name.offsetHeight)"""
SMALLEST_PX = 10
HIDDEN_SIZE = "pane => [pane.scrollWidth - pane.clientWidth, pane.scrollHeight - pane.clientHeight]"
EDGES = "edges => edges.map(edge => edge.parentElement.getAttribute('class').replace('edges is-', ''))"
TRIAGE = workflow(
    "start classify",
    "classify charge branch-0",
    "classify reply default",
    "charge each",
    "charge refund error",
    "each send foreach-body",
    "each end",
    "reply end",
    "refund end",
    classify="CHOICE_LLM",
    each="FOR_EACH",
    reply="LLM",
)
DEFINITION = "0" * 64
DONE = {"status": "done", "duration_ms": 40}
REACHED: dict[str, Any] = {
    "start": DONE,
    "classify": DONE | {"branch": "branch-0"},
    "charge": DONE | {"attempt": 2},
    "each": {"status": "started"},
    "send": {"items": {"each/0": "done", "each/1": "failed", "each/2": "started"}},
}
ATTEMPT = {"id": "stp_1", "number": 1, "kind": "tool", "name": "charge_card", "node": "charge"}
ATTEMPT |= {"started_at": "2026-01-01T10:00:00Z", "ended_at": "2026-01-01T10:00:01Z", "input": {"order": 1042}}
STEPS = [
    ATTEMPT | {"attempt": 1, "status": "failed", "error": "the bank is away"},
    ATTEMPT | {"attempt": 2, "status": "done", "result": {"paid": True}},
]


@pytest.fixture
def caller(browser: Browser, callboard_url: str) -> Iterator[Visitor]:
    """A visitor of a Callboard whose workers carry out the workflows that ship."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    caller = Visitor(context, callboard_url)
    yield caller.opens()
    context.close()
    assert caller.complaints == []
    assert caller.foreign == []


@pytest.fixture
def visitor(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    with opened_counter(tmp_path) as counter:
        context = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
        visitor = Visitor(context, counter.url)
        visitor.page.route("**/v1/runs/run_1", lambda route: route.fulfill(json={"definition": DEFINITION}))
        visitor.page.route(f"**/v1/workflows/triage?digest={DEFINITION}", lambda route: route.fulfill(json=TRIAGE))
        visitor.page.route("**/v1/runs/run_1/steps?node=*", lambda route: route.fulfill(json={"steps": STEPS}))
        yield visitor.opens()
        context.close()
        assert visitor.complaints == []
        assert visitor.foreign == []


def shows(visitor: Visitor, nodes: dict[str, Any], graph: Workflow = TRIAGE) -> Locator:
    """Show the graph of a run whose nodes have come so far."""
    visitor.module(SHOW, {"status": "running", "nodes": nodes})
    boxes = visitor.page.locator(".node")
    expect(boxes).to_have_count(len(graph["nodes"]))
    return boxes


def node(visitor: Visitor, id_: str) -> Locator:
    return visitor.page.locator(f"[data-node={id_}]")


def edges(visitor: Visitor, graph: Workflow = TRIAGE) -> dict[str, int]:
    """Return how many edges are drawn as taken, ahead and dead."""
    states = visitor.page.locator(".edge").evaluate_all(EDGES)
    assert len(states) == len(graph["edges"])
    return {state: states.count(state) for state in ("taken", "ahead", "dead")}


def test_a_node_that_advances_changes_its_looks_and_not_its_place(visitor: Visitor) -> None:
    boxes = shows(visitor, {"start": DONE, "classify": {"status": "started"}})
    before = boxes.evaluate_all(PLACES)
    assert edges(visitor) == {"taken": 1, "ahead": 8, "dead": 0}

    visitor.module(CHANGE, {"nodes": REACHED})

    expect(node(visitor, "classify")).to_have_attribute("data-state", "done")
    expect(node(visitor, "each")).to_have_accessible_name("each, for each, running, 1 of 3, 1 failed")
    expect(visitor.page.locator(".graph-summary")).to_have_text("3 of 8 nodes done · 2 running")
    assert edges(visitor) == {"taken": 4, "ahead": 3, "dead": 2}
    assert boxes.evaluate_all(PLACES) == before


def test_a_node_is_reached_and_opened_with_keys(visitor: Visitor) -> None:
    shows(visitor, REACHED)
    node(visitor, "start").focus()

    visitor.presses("ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "Enter")

    expect(visitor.page.locator(".node-panel h3")).to_have_text("charge")
    visitor.page.locator(".node-panel summary").first.focus()
    visitor.presses("Escape")
    expect(visitor.page.locator(".node-panel")).to_be_hidden()
    expect(node(visitor, "charge")).to_be_focused()


def test_a_panel_has_input_output_and_each_attempt(visitor: Visitor) -> None:
    shows(visitor, REACHED)

    node(visitor, "charge").click()

    panel = visitor.page.locator(".node-panel")
    expect(panel.locator(".panel-facts")).to_have_text("1.0 s · 2 attempts · charge_card")
    expect(panel.locator("dd").filter(visible=True)).to_have_text(["1042", "yes"])
    panel.get_by_text("Attempt 1: failed").click()
    expect(panel.locator(".notice")).to_contain_text("The bank is away")


def test_the_panel_of_a_loop_lists_failed_items_first_and_opens_them(visitor: Visitor) -> None:
    shows(visitor, REACHED)

    node(visitor, "send").click()

    items = visitor.page.locator(".panel-item")
    expect(items).to_have_text(["item 1failed", "item 2running", "item 0done"])
    with visitor.page.expect_request("**/steps?node=each%2F1%2Fsend"):
        items.first.click()
    visitor.page.get_by_role("button", name="All items").click()
    expect(items).to_have_count(3)


def test_the_graph_alone_has_the_whole_screen_and_comes_back(visitor: Visitor) -> None:
    shows(visitor, REACHED)

    visitor.page.get_by_role("button", name="Enlarge").click()
    expect(visitor.page.locator("dialog .graph-figure")).to_be_visible()
    visitor.presses("Escape")

    expect(visitor.page.locator(".graph .graph-figure")).to_be_visible()
    expect(visitor.page.locator("dialog.graph-large")).to_have_count(0)


@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits_the_screen_and_its_texts_have_the_contrast_of_aa(visitor: Visitor, width: int) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 800})
    shows(visitor, REACHED | {"reply": {"status": "skipped"}, "refund": {"status": "failed"}})
    node(visitor, "charge").click()
    expect(visitor.page.locator(".node-panel dd").first).to_be_visible()

    faint = {scheme: visitor.page.evaluate(FAINT_TEXTS) for scheme in in_each_scheme(visitor.page)}

    assert faint == {"light": [], "dark": []}
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [360, 1440])
def test_sixty_nodes_have_readable_names_and_the_running_one_is_in_view(visitor: Visitor, width: int) -> None:
    graph = random_workflow(3)
    visitor.page.route(f"**/v1/workflows/triage?digest={DEFINITION}", lambda route: route.fulfill(json=graph))
    visitor.page.set_viewport_size({"width": width, "height": 800})
    *ended, running = [each["id"] for each in graph["nodes"][:21]]

    boxes = shows(visitor, dict.fromkeys(ended, DONE) | {running: {"status": "started"}}, graph)

    expect(node(visitor, running)).to_be_in_viewport(ratio=0.99)
    assert min(boxes.locator("b").evaluate_all(NAME_HEIGHTS)) >= SMALLEST_PX
    visitor.page.get_by_role("button", name="Show the whole graph").click()
    assert visitor.page.locator(".graph-pane").evaluate(HIDDEN_SIZE) == [0, 0]


# --- with the workflows that ship, on a worker


def card_of(caller: Visitor, id_: str) -> Locator:
    """Open the form of a workflow."""
    card = caller.page.locator(f"[data-workflow={id_}]")
    card.locator("summary").click()
    return card


def starts(card: Locator) -> Locator:
    """Start a workflow with what is in its form, and return its boxes."""
    card.get_by_role("button", name="Start").click()
    boxes = card.page.locator(".node")
    expect(boxes.first).to_be_visible(timeout=PATIENCE_MS)
    return boxes


def reaches(caller: Visitor, id_: str, state: str) -> None:
    expect(node(caller, id_)).to_have_attribute("data-state", state, timeout=PATIENCE_MS)


def test_a_workflow_is_started_with_its_form_and_its_items_are_shown(caller: Visitor) -> None:
    card = card_of(caller, "digest")
    card.get_by_label("Cities").fill('["Paris", "Nowhere"]')
    starts(card)
    reaches(caller, "end", "done")

    node(caller, "cities").click()
    expect(caller.page.locator(".panel-item")).to_have_text(["item 1failed", "item 0done"])
    caller.page.locator(".panel-item").first.click()
    expect(caller.page.locator(".node-panel .notice")).to_contain_text("othing is known of Nowhere")
    expect(caller.page.locator(".tool")).to_have_count(0)  # calls for items are in the panels
    before = caller.page.locator(".graph-summary").inner_text()

    caller.page.reload()

    expect(caller.page.locator(".graph-summary")).to_have_text(before, timeout=PATIENCE_MS)
    expect(caller.turns.get_by_text("Events in month 6")).to_have_count(1)  # not once more as a field of the output
    caller.turns.get_by_role("link", name="Timeline").click()
    expect(caller.page.locator(".run-view .graph-summary")).to_have_text(before, timeout=PATIENCE_MS)


def test_what_waits_for_a_person_continues_where_the_answer_leads(caller: Visitor) -> None:
    card = card_of(caller, "triage")
    card.get_by_label("Message").fill("Where is my order?")
    starts(card)
    reaches(caller, "approve", "waiting")
    expect(caller.page.get_by_label("Message")).to_be_hidden()  # a workflow takes no message

    ask = caller.page.locator(".ask")
    expect(ask.locator(".ask-title")).to_have_text("Send this answer?", timeout=PATIENCE_MS)
    expect(ask.get_by_role("button", name="Approve")).to_be_in_viewport()
    expect(ask.get_by_role("button", name="Edit")).to_have_count(0)
    caller.page.reload()
    expect(node(caller, "approve")).to_be_visible(timeout=PATIENCE_MS)
    expect(ask.get_by_role("button", name="Approve")).to_be_in_viewport()
    caller.page.locator("[data-key=approve]").click(timeout=PATIENCE_MS)

    reaches(caller, "sent", "done")
    reaches(caller, "rejected", "skipped")
    node(caller, "order").click()
    expect(caller.page.locator(".node-panel .panel-facts")).to_contain_text("get_order")


def test_a_blueprint_is_drawn_as_its_calls_with_those_that_were_undone(caller: Visitor) -> None:
    card = card_of(caller, "order")
    card.get_by_label("Item").select_option("lamp")
    card.get_by_label("Country").fill("US")
    boxes = starts(card)

    expect(caller.page.locator(".end.is-failed")).to_be_visible(timeout=PATIENCE_MS)
    expect(boxes).to_have_count(3)
    for box, state in zip(boxes.all(), ("compensated", "compensated", "failed"), strict=True):
        expect(box).to_have_attribute("data-state", state)
