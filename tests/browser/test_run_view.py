"""One run by its address: its timeline, the chosen step, its events, and what it needs from a person."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.answering import Counter
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def steps(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("list", name="Steps").locator(".step")


def test_a_waiting_run_says_what_it_needs_and_its_wait_is_a_row(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()

    visitor.opens(f"#/run/{run_id}")

    expect(visitor.page.locator(".asks")).to_contain_text("Answer")
    expect(visitor.page.locator(".fact-state")).to_contain_text("waiting for an answer")
    expect(steps(visitor).and_(visitor.page.locator(".is-question"))).to_contain_text("so far")
    visitor.page.get_by_role("link", name="Answer", exact=True).click()
    expect(visitor.page.locator(".ask")).to_be_visible(timeout=PATIENCE_MS)


def test_a_step_is_chosen_by_keyboard_and_its_events_are_found(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens(f"#/run/{run_id}")
    button = visitor.page.locator(".step.is-question").get_by_role("button")
    panel = visitor.page.get_by_role("complementary", name="The chosen step")
    expect(panel).to_contain_text("Choose a step")

    button.focus()
    visitor.presses("Enter")

    expect(button).to_have_attribute("aria-pressed", "true")
    expect(panel).to_contain_text("What happened")
    visitor.page.get_by_role("navigation", name="Of this run").get_by_role("link", name="Events").click()
    events = visitor.page.get_by_role("table", name="Events").locator("tr.line-row")
    expect(events.nth(1)).to_be_visible()
    number = events.count()
    visitor.page.get_by_label("Find events").fill("waiting")
    expect(events).not_to_have_count(number)
    events.filter(has_text="status=waiting").get_by_role("button").click()
    expect(visitor.page.get_by_label("The event")).to_contain_text('"status": "waiting"')
    visitor.page.reload()
    expect(visitor.page.get_by_role("table", name="Events")).to_be_visible()


def test_a_run_that_is_stopped_here_shows_its_end(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens(f"#/run/{run_id}")

    visitor.page.get_by_role("button", name="Stop", exact=True).click()

    expect(visitor.page.locator(".fact-state")).to_contain_text("cancelled", timeout=PATIENCE_MS)
    expect(visitor.page.get_by_role("button", name="Retry")).to_be_visible()
    expect(visitor.page.locator(".asks")).to_have_count(0)


def test_a_run_that_is_not_there_says_so(visitor: Visitor) -> None:
    visitor.opens("#/run/run_none")

    expect(visitor.page.get_by_text("There is no such run")).to_be_visible(timeout=PATIENCE_MS)
    visitor.complaints.clear()  # the browser's own lines about 404


@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits_and_every_text_has_the_contrast_of_aa(visitor: Visitor, counter: Counter, width: int) -> None:
    run_id, _ = counter.waiting()
    visitor.page.set_viewport_size({"width": width, "height": 800})
    visitor.opens(f"#/run/{run_id}")
    steps(visitor).get_by_role("button").first.click()

    for _ in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visitor.page.evaluate(CONTRAST) == []
    expect(visitor.page).to_have_title(re.compile("Callboard"))
