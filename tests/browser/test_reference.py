"""The reference of the HTTP calls, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.visitor import in_each_scheme

pytestmark = pytest.mark.browser
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture
def page(browser: Browser, callboard_url: str) -> Iterator[Page]:
    """The reference, in a browser that must have had nothing to complain about in the end."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    foreign: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request", lambda request: foreign.append(request.url) if not request.url.startswith(callboard_url) else None
    )
    page.goto(f"{callboard_url}/docs")
    page.wait_for_selector("article.call")
    yield page
    context.close()
    assert (complaints, foreign) == ([], [])


def test_every_call_is_shown_with_its_fields_and_errors(page: Page, callboard_url: str) -> None:
    document = httpx.get(f"{callboard_url}/openapi.json").json()
    calls = [call["operationId"] for methods in document["paths"].values() for call in methods.values()]

    article_ids = page.eval_on_selector_all("article.call", "found => found.map(one => one.id)")
    page.click("#runs_one details.answer > summary")

    assert sorted(article_ids) == sorted(calls)
    assert "What an open run waits for" in page.inner_text("#runs_one details.answer")
    assert "idempotency_conflict" in page.inner_text("#runs_start .errors")
    assert '"input": "What is 17 * 23?"' in page.inner_text("#runs_start .tries")
    assert not {"undefined", "[object"} & set(page.inner_text("body").split())


def test_a_call_is_found_by_its_words(page: Page) -> None:
    page.fill(".search", "fork copies")

    assert page.locator(".entry:visible").all_inner_texts() == ["POST\n/v1/threads/{thread_id}/fork"]


def test_it_fits_on_narrow_screens_and_every_text_has_the_contrast_of_aa(page: Page) -> None:
    for summary in page.query_selector_all("details > summary"):
        summary.evaluate("found => { found.parentElement.open = true }")

    faint = {scheme: page.evaluate(CONTRAST) for scheme in in_each_scheme(page)}
    for width in (1100, 760, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    assert faint == {"light": [], "dark": []}
