"""The page's looks as far as a machine can tell: width, contrast, tabs, keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visitor import Scheme, Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

FAINT_TEXTS = (Path(__file__).parent / "contrast.js").read_text()
OVERFLOW = "(talk => talk.scrollWidth - talk.clientWidth)(document.querySelector('.talk'))"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 760, 1100, 1440])
def test_nothing_is_wider_than_the_screen(browser: Browser, callboard_url: str, width: int, scheme: Scheme) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    visitor = Visitor(context, callboard_url).opens()

    visitor.says(f"say {'Donaudampfschifffahrt' * 20} | a | b |", agent="assistant").waits_for_end()

    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    assert visitor.page.evaluate(OVERFLOW) <= 0
    assert visitor.complaints == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_aa(browser: Browser, callboard_url: str, scheme: Scheme) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
    visitor = Visitor(context, callboard_url).opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.says("Order 3 boxes of paper", agent="office").waits_for_end(2)
    visitor.says("fail", agent="assistant").waits_for_end(3)

    faint = visitor.page.evaluate(FAINT_TEXTS)

    assert faint == []
    context.close()


def test_the_phone_has_three_tabs(browser: Browser, callboard_url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    visitor = Visitor(context, callboard_url).opens()
    tabs = visitor.page.get_by_role("navigation", name="Views")

    tabs.get_by_role("button", name="Board").tap()
    expect(visitor.page.locator(".board")).to_be_visible()
    expect(visitor.page.locator("main")).to_be_hidden()
    tabs.get_by_role("button", name="Threads").tap()
    expect(visitor.page.get_by_label("Search threads")).to_be_visible()
    tabs.get_by_role("button", name="Talk").tap()

    expect(visitor.page.get_by_label("Message")).to_be_visible()
    context.close()


def test_everything_can_be_done_with_the_keyboard(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    expect(visitor.lane("ended").first).to_be_visible()
    search = visitor.page.get_by_label("Search threads")

    visitor.presses("Escape", "/")
    expect(search).to_be_focused()
    visitor.presses("Escape", "?")
    expect(visitor.page.locator("dialog.keys")).to_be_visible()
    visitor.presses("Escape", "j")
    expect(visitor.page.locator("a.run").first).to_be_focused()
    visitor.presses("c")
    expect(visitor.page.get_by_label("Message")).to_be_focused()
    visitor.presses("Escape", "n")

    expect(visitor.page.locator(".welcome")).to_be_visible()
