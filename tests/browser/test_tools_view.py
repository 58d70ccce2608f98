"""The tools and the workflows on the page, at a Callboard with workers: a call and a start by a form, and a graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


def detail(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("article")


def test_a_pure_tool_is_called_by_its_form_and_the_run_is_listed(visitor: Visitor) -> None:
    visitor.opens("#/tools/calculator")
    expect(detail(visitor)).to_contain_text("It changes nothing.")
    expect(detail(visitor).get_by_role("link", name="Assistant")).to_be_visible()

    detail(visitor).get_by_role("button", name="Call it").click()
    expect(detail(visitor)).to_contain_text("This is needed.")
    detail(visitor).get_by_label("expression").fill("17 * 23")
    detail(visitor).get_by_role("button", name="Call it").click()

    expect(visitor.page.get_by_label("The result")).to_have_text("391", timeout=PATIENCE_MS)
    run = visitor.page.get_by_role("table", name="Runs").get_by_role("row").filter(has_text="17 * 23").first
    run.get_by_role("link").click()
    expect(visitor.page.locator(".fact-state")).to_contain_text("succeeded")


def test_a_tool_that_changes_something_asks_before_and_gives_its_arguments_as_json(visitor: Visitor) -> None:
    visitor.opens("#/tools/write_file")
    expect(detail(visitor).get_by_role("button", name="Call it")).to_be_visible()
    path, text = detail(visitor).get_by_role("textbox").all()[:2]
    path.fill("note.txt")
    text.fill("<b>milk</b>")

    detail(visitor).get_by_role("button", name="As JSON").click()
    arguments = json.loads(visitor.page.get_by_label("The arguments as JSON").inner_text())
    assert sorted(arguments.values()) == ["<b>milk</b>", "note.txt"]
    detail(visitor).get_by_role("button", name="Call it").click()
    expect(visitor.page.get_by_role("dialog")).to_contain_text("Made twice, it takes effect once.")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Back").click()

    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    assert visitor.asks("/v1/runs?tool=write_file&kind=tool")["runs"] == []


def test_a_call_that_a_person_approves_says_so(visitor: Visitor) -> None:
    visitor.opens("#/tools/order_supplies")
    expect(detail(visitor).get_by_role("button", name="Call it")).to_be_visible()
    for field in detail(visitor).locator(".answer-form").get_by_role("textbox").all():
        field.fill("2" if field.get_attribute("inputmode") == "numeric" else "paper")
    for choice in detail(visitor).locator(".answer-form select").all():
        choice.select_option(index=1)
    detail(visitor).get_by_role("button", name="Call it").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Call it").click()

    expect(detail(visitor)).to_contain_text("It waits for a person", timeout=PATIENCE_MS)
    detail(visitor).get_by_role("link", name="Its run").click()
    expect(visitor.page.locator(".asks").get_by_role("button", name="Approve")).to_be_visible()
    visitor.stops_this_run()
    expect(visitor.page.locator(".fact-state")).to_contain_text("cancelled", timeout=PATIENCE_MS)


def test_a_workflow_is_drawn_without_a_run_and_a_node_shows_what_its_file_says(visitor: Visitor) -> None:
    visitor.opens("#/workflows/triage")
    nodes = detail(visitor).locator(".node")
    workflow = visitor.asks("/v1/workflows/triage")
    expect(nodes).to_have_count(len(workflow["nodes"]))

    node = next(node for node in workflow["nodes"] if node["type"] == "MODEL_CALL" or node.get("config"))
    nodes.and_(visitor.page.locator(f"[data-node={node['id']}]")).click()
    panel = visitor.page.get_by_role("region", name=f"Node {node['id']}")
    expect(panel).to_contain_text(next(iter(node["config"])))
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def test_a_workflow_is_started_by_its_form(visitor: Visitor) -> None:
    visitor.opens("#/workflows/digest")

    detail(visitor).get_by_role("button", name="Start", exact=True).click()

    expect(visitor.page.locator(".fact-state")).to_contain_text("succeeded", timeout=PATIENCE_MS)
    visitor.opens("#/workflows/digest")
    expect(visitor.page.get_by_role("table", name="Runs").get_by_role("row")).not_to_have_count(0)


def test_open_runs_are_counted_at_the_node_where_they_wait(visitor: Visitor) -> None:
    visitor.opens("#/workflows/triage")
    detail(visitor).get_by_label("Message").fill("Where is my order 1042?")
    detail(visitor).get_by_role("button", name="Start", exact=True).click()
    expect(visitor.page.locator(".fact-state")).to_contain_text("waiting for an answer", timeout=PATIENCE_MS)

    visitor.opens("#/workflows/triage")

    expect(detail(visitor).locator("[data-node=approve]")).to_contain_text("1 run")
    visitor.page.get_by_role("table", name="Runs").get_by_role("link").first.click()
    visitor.stops_this_run()
    expect(visitor.page.locator(".fact-state")).to_contain_text("cancelled", timeout=PATIENCE_MS)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("address", ["#/tools/calculator", "#/tools", "#/workflows/triage"])
def test_it_fits_and_every_text_has_the_contrast_of_aa(visitor: Visitor, width: int, address: str) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 800})
    visitor.page.emulate_media(reduced_motion="reduce")
    visitor.opens(address)
    expect(visitor.page.locator(".view-head")).to_be_visible()
    expect(visitor.page.locator(".view .loading")).to_have_count(0)

    for _ in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visitor.page.evaluate(CONTRAST) == []
