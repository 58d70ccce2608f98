"""The page's looks as far as a machine can tell: width, contrast, tabs, keyboard."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.visitor import Scheme, Visitor, in_each_scheme

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

FAINT_TEXTS = (Path(__file__).parent / "contrast.js").read_text()
# For each line of a run's end, where separators are painted: what is cut off is not hit.
LINES_OF_FACTS = """() => {
  const spans = [...document.querySelectorAll(".end span")].filter((span) => !span.querySelector("span"));
  const texts = spans.map((span) => {
    const range = document.createRange();
    range.selectNodeContents(span);
    return range.getBoundingClientRect();
  });
  const isAt = (x, y) => spans.includes(document.elementFromPoint(x, y));
  const tops = [...new Set(texts.map((text) => Math.round(text.bottom / 12)))];
  return tops.map((top) => {
    const line = texts.filter((text) => Math.round(text.bottom / 12) === top);
    const [first, last] = [line[0], line.at(-1)];
    return {
      facts: line.length,
      before: isAt(first.left - 9, first.top + first.height / 2),
      behind: isAt(last.right + 9, last.top + last.height / 2),
      between: line.slice(1).every((text) => isAt(text.left - 9, text.top + text.height / 2)),
    };
  });
}"""
PIXELS = """async (png) => {
  const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const at = (x) => [...context.getImageData(x, 1, 1, 1).data].slice(0, 3);
  const page = new OffscreenCanvas(1, 1).getContext("2d");
  page.fillStyle = getComputedStyle(document.body).backgroundColor;
  page.fillRect(0, 0, 1, 1);
  return { left: at(1), right: at(image.width - 2), ground: [...page.getImageData(0, 0, 1, 1).data].slice(0, 3) };
}"""
OVERFLOW = "(talk => talk.scrollWidth - talk.clientWidth)(document.querySelector('.talk'))"


@pytest.mark.parametrize("width", [390, 760, 1100, 1440])
def test_nothing_is_wider_than_the_screen(browser: Browser, callboard_url: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844})
    visitor = Visitor(context, callboard_url).opens()

    visitor.says(f"say {'Donaudampfschifffahrt' * 20} | a | b |", agent="assistant").waits_for_end()

    for scheme in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert visitor.page.evaluate(OVERFLOW) <= 0, scheme
    assert visitor.complaints == []
    context.close()


def test_every_text_has_the_contrast_of_aa(browser: Browser, callboard_url: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, callboard_url).opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.says("Order 3 boxes of paper", agent="office").rejects().waits_for_end(2)
    visitor.says("fail", agent="assistant").waits_for_end(3)

    grounds = {
        visitor.page.evaluate("getComputedStyle(document.body).backgroundColor") for _ in in_each_scheme(visitor.page)
    }
    faint = {scheme: visitor.page.evaluate(FAINT_TEXTS) for scheme in in_each_scheme(visitor.page)}

    assert len(grounds) == 2
    assert faint == {"light": [], "dark": []}
    context.close()


@pytest.mark.parametrize("width", [320, 390, 1440])
def test_separators_stand_only_between_facts(browser: Browser, callboard_url: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    visitor = Visitor(context, callboard_url).opens()
    visitor.says("What is 2 + 2?", agent="assistant").waits_for_end()
    visitor.page.locator(".end").scroll_into_view_if_needed()

    lines = visitor.page.evaluate(LINES_OF_FACTS)

    assert (len(lines) == 1) is (width == 1440), lines
    assert any(line["facts"] > 1 for line in lines), lines
    assert all(line["between"] and not line["before"] and not line["behind"] for line in lines), lines
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wide_table_shows_on_which_side_there_is_more(browser: Browser, callboard_url: str, scheme: Scheme) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, reduced_motion="reduce")
    visitor = Visitor(context, callboard_url).opens()
    visitor.says("Compare Norway, Sweden and Finland", agent="atlas").waits_for_end()
    table = visitor.page.get_by_role("region", name="Table: name, capital").last
    table.scroll_into_view_if_needed()

    at_start = _edges(visitor, table)
    table.focus()
    for _ in range(40):
        visitor.presses("ArrowRight")
    visitor.page.wait_for_function(
        "element => element.scrollLeft + element.clientWidth >= element.scrollWidth - 1", arg=table.element_handle()
    )
    at_end = _edges(visitor, table)

    assert at_start["left"] == at_start["ground"] != at_start["right"]
    assert at_end["left"] != at_end["ground"] == at_end["right"]
    context.close()


def test_a_narrow_table_has_no_shade(browser: Browser, callboard_url: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, callboard_url).opens()
    visitor.says("Compare Norway, Sweden and Finland", agent="atlas").waits_for_end()
    table = visitor.page.get_by_role("region", name="Table: name, capital").last

    edges = _edges(visitor, table)

    assert edges["left"] == edges["right"] == edges["ground"]
    context.close()


@pytest.mark.parametrize("width", [320, 390, 1440])
def test_the_keys_are_as_high_as_their_letters_and_the_dialog_has_a_margin(
    browser: Browser, callboard_url: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    visitor = Visitor(context, callboard_url).opens()
    visitor.presses("Escape", "?")
    expect(visitor.page.locator("dialog.keys")).to_be_visible()

    heights = visitor.page.evaluate("[...document.querySelectorAll('dialog kbd')].map((key) => key.offsetHeight)")
    box = visitor.page.locator("dialog.keys").bounding_box()

    assert len(set(heights)) == 1
    assert box is not None
    assert box["x"] >= 10
    assert box["x"] + box["width"] <= width - 10
    context.close()


def test_what_is_cut_off_stands_in_its_title(visitor: Visitor) -> None:
    text = "What is 17 * 23, and what is 18 * 24, and what is 19 * 25, and what is 20 * 26?"
    visitor.opens()
    visitor.says(text, agent="assistant").waits_for_end()

    expect(visitor.page.locator(".thread[aria-current]")).to_have_attribute("title", text)
    expect(visitor.page.locator("a.run.is-here")).to_have_attribute("title", re.compile(f"^{re.escape(text)}"))


def test_the_phone_has_three_tabs(browser: Browser, callboard_url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    visitor = Visitor(context, callboard_url).opens()
    tabs = visitor.page.get_by_role("navigation", name="Views")

    tabs.get_by_role("button", name="Board").tap()
    expect(visitor.page.get_by_role("heading", name="The board")).to_be_visible()
    expect(visitor.page.locator("main")).to_be_hidden()
    tabs.get_by_role("button", name="Menu").tap()
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


def _edges(visitor: Visitor, table: Locator) -> dict[str, list[int]]:
    """Return the colours a pixel inside the table's two sides, between its lines, and of the page below it."""
    box = table.bounding_box()
    assert box is not None
    row = table.locator("thead").bounding_box()
    assert row is not None
    shot = visitor.page.screenshot(clip={**box, "y": row["y"] + 1, "height": 2})
    colours: dict[str, list[int]] = visitor.page.evaluate(PIXELS, base64.b64encode(shot).decode())
    return colours
