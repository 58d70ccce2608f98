"""What belongs to the place that is shown: its keys, the window's title, where the skip link leads."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from sqlalchemy import func, insert, select

from bus.journal.log.events import event_row
from bus.payloads import ChildPayload
from config.clock import stamp
from config.database.tables import events
from tests.browser.answering import Counter
from tests.browser.visitor import Visitor

pytestmark = pytest.mark.browser


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def test_a_key_of_the_conversation_does_nothing_where_a_view_is_shown(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    visitor.opens(f"#/thread/{thread_id}")
    expect(visitor.stop).to_be_visible()
    visitor.page.evaluate("location.hash = '#/fleet'")
    expect(visitor.page.get_by_role("heading", name="The fleet")).to_be_visible()

    visitor.presses("s", "a", "r", "c", "n")

    expect(visitor.page.locator(".welcome")).to_be_visible()  # `n` leads to it, behind the others
    assert visitor.asks(f"/v1/runs/{run_id}")["status"] == "waiting"


def test_the_window_is_called_as_what_is_shown(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting(text="Send the invoice.")
    for place, title in (
        (f"#/thread/{thread_id}", "◐ Send the invoice. — Callboard"),
        ("#/board", "The board — Callboard"),
        ("#/board?as=lanes", "The board — Callboard"),
        ("#/fleet", "The fleet — Callboard"),
        ("#/", "New conversation — Callboard"),
    ):
        visitor.page.goto(f"{visitor.url}/{place}")
        expect(visitor.page).to_have_title(title)


@pytest.mark.parametrize(
    ("place", "focused"), [("#/", "textarea"), ("#/fleet", "#view"), ("#/board?as=lanes", "#view")]
)
def test_the_skip_link_leads_to_what_is_shown(visitor: Visitor, place: str, focused: str) -> None:
    visitor.page.goto(f"{visitor.url}/{place}")
    expect(visitor.page.locator(focused).first).to_be_visible()

    visitor.page.get_by_text("Skip to the content").press("Enter")

    expect(visitor.page.locator(focused).first).to_be_focused()


def test_going_back_closes_what_lies_over_the_page(visitor: Visitor) -> None:
    visitor.opens("#/")
    visitor.page.evaluate("location.hash = '#/fleet'")
    visitor.page.evaluate("document.activeElement.blur()")
    visitor.presses("?")
    expect(visitor.page.get_by_role("dialog", name="Keyboard")).to_be_visible()

    visitor.page.go_back()

    expect(visitor.page.locator(".welcome")).to_be_visible()
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)


def test_a_run_of_the_conversation_leads_to_its_timeline(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    visitor.opens(f"#/thread/{thread_id}")

    visitor.turns.get_by_role("link", name="Timeline").click()

    expect(visitor.page).to_have_url(re.compile(f"#/run/{run_id}$"))


def test_a_child_run_unfolds_inside_of_its_parent_and_is_answered_there(visitor: Visitor, counter: Counter) -> None:
    child_id, _ = counter.waiting(text="Look up order 1042.")
    run_id, thread_id = counter.waiting()
    with counter.journal.database.write() as connection:
        last = connection.execute(select(func.max(events.c.seq)).where(events.c.run_id == run_id)).scalar_one()
        child = ChildPayload(seq=last + 1, at=stamp(), child_run_id=child_id, agent="support", status="waiting")
        connection.execute(insert(events), [event_row(child, run_id, thread_id, 1)])
    visitor.opens(f"#/thread/{thread_id}")

    visitor.page.get_by_text("Support was asked").click()

    nested = visitor.page.locator(".child-run .run-turn")
    expect(nested).to_contain_text("I have the order in front of me.")
    with visitor.page.expect_event("requestfailed", lambda request: f"{child_id}/events" in request.url):
        visitor.page.get_by_text("Support was asked").click()  # folded, its stream ends
    visitor.page.get_by_text("Support was asked").click()
    expect(nested.locator("[data-key=run_again]")).to_be_visible()
    expect(nested.get_by_role("button", name="Fork")).to_have_count(0)
    nested.locator("[data-key=run_again]").click()
    expect(nested.locator(".ask")).to_contain_text("decided by you")
    expect(visitor.page.locator(".ask")).to_have_count(2)
