"""What a person sees of a call of an MCP server: how far it is, what it logs, and what it asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_page_looks import FAINT_TEXTS, OVERFLOW
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme
from tests.journeys.test_mcp_questions import talking_up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an installation whose agent uses a server that reports and asks."""
    with talking_up(tmp_path_factory.mktemp("talking")) as up:
        yield up.address
        up.stop()


@pytest.fixture
def person(browser: Browser, url: str) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    visitor = Visitor(context, url)
    yield visitor
    context.close()
    assert visitor.complaints == []


def look(visitor: Visitor, name: str) -> None:
    """Nothing is too faint or too wide in either scheme; with a folder in the variable, it is kept as a picture."""
    for scheme in in_each_scheme(visitor.page):
        if folder := os.environ.get("MCP_PICTURES"):
            visitor.page.screenshot(path=Path(folder) / f"{name}-{scheme}.png")
        assert visitor.page.evaluate(FAINT_TEXTS) == []
    assert visitor.page.evaluate(OVERFLOW) <= 0


def test_a_call_shows_how_far_it_is_and_its_last_lines(person: Visitor) -> None:
    person.opens().says("report: tag books, count 12, pause_s 1.05", "waiter")
    card = person.page.locator(".tool")

    expect(card.locator("progress")).to_have_attribute("max", "12", timeout=PATIENCE_MS)
    expect(card.locator(".tool-progress span")).to_have_text("4 of 12 · books 4", timeout=PATIENCE_MS)
    expect(card.locator(".tool-lines li")).to_have_text(["info books books info", "error books books error"])
    look(person, "progress")
    person.waits_for_end()
    expect(card.locator("progress")).to_have_count(0)
    expect(card.locator(".tool-lines")).to_have_count(0)
    card.locator(".tool-head").click()
    expect(card.locator(".tool-lines li")).to_have_count(2)


def test_a_servers_question_is_a_form(person: Visitor) -> None:
    person.opens().says("book: name ann", "waiter")
    ask = person.page.locator(".ask")

    expect(ask).to_contain_text("The MCP server new asks: For how many?", timeout=PATIENCE_MS)
    look(person, "question")
    ask.get_by_label("Guests").fill("4")
    ask.get_by_role("button", name="Send answer").click()
    person.waits_for_end()
    expect(person.page.locator(".tool-result").first).to_contain_text("ann: 4")
