"""What the page is used for, once, in Firefox: the other tests of the page are in Chromium."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.conftest import need

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Firefox as Debian has it, over WebDriver BiDi."""
    path = need(shutil.which("firefox-esr") or shutil.which("firefox"), "firefox-esr")
    with sync_playwright() as playwright:
        browser = playwright.firefox.launch(channel="moz-firefox", executable_path=path)
        yield browser
        browser.close()


def test_an_answer_streams_is_whole_after_a_reload_and_can_be_stopped(visitor: Visitor) -> None:
    visitor.opens().says("write 60 words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+ \w+"), timeout=PATIENCE_MS)
    visitor.page.reload()
    visitor.waits_for_end()
    assert len(re.findall(r"\w+", visitor.answer.last.inner_text())) >= 60

    visitor.says("write 900 words slowly")
    visitor.stop.click()

    expect(visitor.page.locator(".end").last).to_contain_text("cancelled", timeout=PATIENCE_MS)


def test_a_question_is_answered_in_the_conversation_and_its_run_is_looked_at(visitor: Visitor) -> None:
    visitor.opens().says("Order 3 boxes of paper", agent="office")
    visitor.rejects("Too many.")
    visitor.waits_for_end()
    run_id = visitor.asks(f"/v1/threads/{visitor.thread_id}")["runs"][0]["run_id"]

    visitor.opens(f"#/run/{run_id}")

    expect(visitor.page.locator(".step", has_text="order_supplies")).to_have_count(1)
    for tab in ("events", "usage", "decisions", "log", "related"):
        visitor.opens(f"#/run/{run_id}?tab={tab}")
        expect(visitor.page.locator(f"a[aria-current=page][href$='?tab={tab}']")).to_be_visible()


def test_each_place_of_the_rail_opens(visitor: Visitor) -> None:
    places = visitor.opens("#/").page.locator(".places a")
    expect(places.last).to_be_visible()

    for place in places.all():
        place.click()
        expect(place).to_have_attribute("aria-current", "page")
        expect(visitor.page.locator("#view h1, .welcome").locator("visible=true").first).to_be_visible()

    assert places.count() > 8
    expect(visitor.page.locator(".view-empty")).to_have_count(0)


def test_a_place_is_chosen_in_the_palette_and_draws_its_plots(visitor: Visitor) -> None:
    visitor.opens().presses("Control+k")
    visitor.page.keyboard.type("fleet")
    expect(visitor.page.locator("[role=option][aria-selected=true]")).to_have_text("Fleet")
    visitor.presses("Enter")

    expect(visitor.page.get_by_role("heading", name="The fleet", level=1)).to_be_visible()
    expect(visitor.page.locator(".uplot canvas").first).to_be_visible()
