"""The page with ``CALLBOARD_AUTH=local``: the printed address opens it, and a plain one shows what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from bus.identity.credentials.local_token import FILE
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.journeys.up import Up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

MISSING = "Open the page by the address that"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    keys = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}
    state = tmp_path_factory.mktemp("local")
    with Up(state, "--port", "0", "--workers", "1", CALLBOARD_AUTH="local", **keys) as running:
        assert running.address.partition("#token=")[2] == (state / FILE).read_text().strip()
        yield running
        running.stop()


@pytest.fixture
def visitor(browser: Browser, up: Up) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    yield Visitor(context, up.address.partition("/#")[0])
    context.close()


def token(up: Up) -> str:
    return "#" + up.address.partition("#")[2]


def test_the_printed_address_opens_the_page_and_its_streams(visitor: Visitor, up: Up) -> None:
    visitor.opens(token(up)).says("What is 17 * 23?").waits_for_end()

    expect(visitor.answer).to_contain_text("391")
    assert "cbl_" not in visitor.page.url
    assert "cbl_" not in visitor.page.content()
    expect(visitor.page.locator("body")).to_have_attribute("data-line", "live")
    assert visitor.complaints == []

    visitor.page.reload()

    expect(visitor.answer).to_contain_text("391")
    expect(visitor.page.locator("body")).to_have_attribute("data-line", "live")
    assert visitor.complaints == []


def test_without_the_token_the_page_says_what_is_missing(visitor: Visitor, up: Up) -> None:
    visitor.page.goto(visitor.url)

    expect(visitor.page.get_by_text(MISSING).first).to_be_visible(timeout=PATIENCE_MS)
    expect(visitor.agents.locator("option")).to_have_count(0)

    visitor.page.goto(f"{visitor.url}/{token(up)}")  # in the tab that shows the page already

    expect(visitor.agents.locator("option").first).to_be_attached(timeout=PATIENCE_MS)
    expect(visitor.page.get_by_text(MISSING)).to_have_count(0)


def test_another_tab_of_the_browser_has_no_token(visitor: Visitor, up: Up) -> None:
    visitor.opens(token(up))
    other = visitor.context.new_page()

    other.goto(visitor.url)

    expect(other.get_by_text(MISSING).first).to_be_visible(timeout=PATIENCE_MS)


def test_no_log_has_the_token(up: Up) -> None:
    logs = [path.read_text() for path in up.state.rglob("*.log")]

    assert any("Callboard is up at" in log for log in logs)
    assert not any("cbl_" in log for log in logs)
