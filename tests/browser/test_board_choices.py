"""What a reader chooses on the board: columns, groups and named views, which this browser keeps if it can."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, expect
from sqlalchemy import update

from config.database.tables import runs
from tests.browser.answering import Counter
from tests.browser.visitor import Visitor
from tests.bus.crowd import Crowd

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

KEPT_VIEWS = "callboard:1:kept:board views"
FORBIDDEN = "Object.defineProperty(window, 'localStorage', { get: () => { throw new DOMException('no'); } });"
FULL = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };"


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def heads(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("columnheader")


def views(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("navigation", name="Lists of runs")


def saves(visitor: Visitor, name: str) -> None:
    views(visitor).get_by_role("button", name="Save view").click()
    views(visitor).get_by_label("Name of the view").fill(name)
    visitor.presses("Enter")


SCROLL_TO_MORE = """
  () => {
    document.querySelector(".view-scroll").scrollTo(0, 1e6);
    return [...document.querySelectorAll(".view-scroll a")].some(({ textContent }) => textContent === "and 53 more");
  }
"""
"""The heading comes before the rows do, which make the list longer: 200 are listed, 3 of them of another agent."""


def test_columns_are_chosen_by_keyboard_and_remembered(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens("#/board")
    expect(heads(visitor).filter(has_text="Tokens")).to_be_visible()
    button = visitor.page.get_by_role("button", name="Columns")

    button.press("Enter")
    visitor.page.get_by_role("checkbox", name="Tokens").press("Space")
    visitor.presses("Escape")

    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(heads(visitor).filter(has_text="Tokens")).to_be_hidden()
    visitor.page.reload()
    expect(heads(visitor).filter(has_text="Cost")).to_be_visible()
    expect(heads(visitor).filter(has_text="Tokens")).to_be_hidden()


def test_the_worker_of_a_run_is_a_column(visitor: Visitor, counter: Counter, crowd: Crowd) -> None:
    crowd.add("running", 1, status="running", reason=None)
    with counter.journal.database.write() as connection:
        owned = update(runs).where(runs.c.status == "running").values(owner="own_host_1_abcdef", lease_until=10**15)
        connection.execute(owned)

    visitor.opens("#/board")

    cell = visitor.page.locator("td.c-worker").filter(has_text="…abcdef")
    expect(cell).to_be_visible()
    expect(cell).to_have_attribute("title", "own_host_1_abcdef")


def test_runs_are_grouped_by_agent_with_true_numbers(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 250, status="queued", reason=None)
    crowd.add("other", 3, status="queued", reason=None, agent_id="atlas", agent_name="Atlas")
    visitor.opens("#/board?status=queued")

    visitor.page.get_by_role("button", name="Group: state").click()
    visitor.page.get_by_role("radio", name="agent").check()

    expect(visitor.page.locator(".heading").filter(has_text="Support")).to_contain_text("250")
    assert visitor.page.url.endswith("#/board?status=queued&group=agent")
    more = visitor.page.get_by_role("link", name="more")
    visitor.page.wait_for_function(SCROLL_TO_MORE)
    expect(more.first).to_have_attribute("href", "#/board?status=queued&agent=support")
    saves(visitor, "By agent")
    expect(views(visitor).get_by_role("link", name="By agent")).to_have_attribute(
        "href", "#/board?status=queued&group=agent"
    )
    visitor.page.get_by_role("button", name="Group: agent").click()
    visitor.page.get_by_role("radio", name="state").check()
    expect(visitor.page.locator(".heading")).to_have_count(0)
    assert visitor.page.url.endswith("#/board?status=queued")


def test_a_list_is_named_kept_and_removed(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens("#/board?status=queued")

    saves(visitor, "<b>Waiting</b>\u202e")

    link = views(visitor).get_by_role("link", name="<b>Waiting</b>⟨U+202E⟩")
    expect(link).to_have_attribute("aria-current", "page")
    expect(views(visitor).get_by_role("button", name="Save view")).to_be_hidden()
    visitor.opens("#/board")
    link.click()
    expect(visitor.page.get_by_label("Filter the runs")).to_have_value("status:queued")
    views(visitor).get_by_role("button", name="Remove view").click()
    expect(link).to_have_count(0)
    visitor.page.reload()
    expect(views(visitor).get_by_role("link")).to_have_count(4)


@pytest.mark.parametrize("script", [FORBIDDEN, FULL], ids=["forbidden", "full"])
def test_a_browser_that_keeps_nothing_says_so_and_the_view_stays_for_now(visitor: Visitor, script: str) -> None:
    visitor.context.add_init_script(script)
    visitor.opens("#/board?status=open")
    visitor.opens("#/board?status=failed")

    saves(visitor, "Lost")

    expect(views(visitor).get_by_role("link", name="Lost")).to_be_visible()
    expect(visitor.page.get_by_text("This browser keeps nothing for this page")).to_be_visible()


@pytest.mark.parametrize("stored", [json.dumps({"version": 7, "views": []}), "{", '"x"'], ids=["newer", "torn", "text"])
def test_views_of_another_version_are_left_out_with_a_sentence(visitor: Visitor, stored: str) -> None:
    visitor.opens()
    visitor.page.evaluate("([key, text]) => localStorage.setItem(key, text)", [KEPT_VIEWS, stored])

    visitor.opens("#/board?status=failed")

    note = visitor.page.get_by_text("are of another version of the page")
    expect(views(visitor).get_by_role("link")).to_have_count(4)
    expect(note).to_have_count(0 if stored == "{" else 1)  # what cannot be read at all is as if it were not there
    saves(visitor, "New")
    expect(note).to_have_count(0)
    expect(views(visitor).get_by_role("link", name="New")).to_be_visible()
