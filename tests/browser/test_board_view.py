"""The board as a table: grouped by what to do, filtered by its address, by keyboard alone, and with many runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect
from sqlalchemy import insert

from config.clock import epoch_ms
from config.database.tables import steps
from tests.browser.answering import Counter
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.bus.crowd import ASKS, Crowd
from tests.bus.questions import question, question_before

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def table(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("table", name="Runs")


def rows(visitor: Visitor) -> Locator:
    return table(visitor).locator("tr.line-row")


def groups(visitor: Visitor) -> list[str]:
    return [text.replace("\n", " ") for text in table(visitor).locator(".heading").all_inner_texts()]


def test_5000_open_runs_are_grouped_with_their_true_numbers(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("running", 200, status="running", reason=None)
    crowd.add("asks", 11, **ASKS)
    crowd.add("queued", 4788, status="queued", reason=None)
    crowd.add("failed", 3, 3_600_000, status="failed", reason="model_failed", error_code="model_failed")
    crowd.add("late", 1, 3_600_000, status="failed", reason="model_timeout", error_code="model_timeout")

    visitor.opens("#/board")

    expect(rows(visitor).first).to_be_visible()
    visitor.page.locator(".view-scroll").evaluate("(element) => element.scrollTo(0, 1e6)")
    expect(rows(visitor).filter(has_text="model_failed")).to_contain_text("3 runs")
    expect(rows(visitor).filter(has_text="model_timeout")).to_contain_text("1 run")
    assert groups(visitor) == ["Need a person 12", "Running 200", "Queued 4,788", "Failed in 24 hours 4"]
    expect(visitor.page.locator(".vital").first).to_contain_text("200 running, 4,788 queued, 12 for a person")
    expect(rows(visitor).filter(has_text="and 4,748 more").locator("a")).to_have_attribute(
        "href", "#/board?status=queued"
    )


def test_a_filter_is_in_the_address_and_back_leads_back(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("failed", 3, 0, status="failed", reason="model_failed", error_code="model_failed")
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens("#/board")
    field = visitor.page.get_by_label("Filter the runs")

    field.fill("status:queued")
    field.press("Enter")

    expect(rows(visitor)).to_have_count(2)
    assert visitor.page.url.endswith("#/board?status=queued")
    visitor.page.reload()
    expect(rows(visitor)).to_have_count(2)
    expect(field).to_have_value("status:queued")
    visitor.page.go_back()
    expect(field).to_have_value("")
    expect(table(visitor).locator(".heading").first).to_contain_text("Need a person")


def test_a_day_of_the_reader_is_a_time_for_the_server(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens("#/board")
    field = visitor.page.get_by_label("Filter the runs")

    field.fill("status:queued since:2020-01-01 until:2099-01-01T09:00")
    field.press("Enter")

    expect(rows(visitor)).to_have_count(2)


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "address"])
def test_a_filter_that_cannot_be_read_is_said_and_lists_nothing(visitor: Visitor, crowd: Crowd, is_typed: bool) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens("#/board?status=open" if is_typed else "#/board?colour=red&status=none&q=")
    field = visitor.page.get_by_label("Filter the runs")

    if is_typed:
        field.fill("colour:red status:none")
        expect(visitor.page.get_by_text("Enter applies it")).to_be_visible()
        field.press("Enter")

    problems = visitor.page.get_by_role("alert").filter(has_text="There is no field “colour”")
    expect(problems).to_contain_text("“status” cannot be “none”")
    expect(field).to_have_value("colour:red status:none")
    expect(visitor.page.get_by_text("No run is listed: the filter cannot be read.")).to_be_visible()
    expect(rows(visitor)).to_have_count(0)
    expect(visitor.page.locator(".view-tabs [aria-current]")).to_have_count(0)
    if is_typed:
        visitor.page.locator(".view-tabs").get_by_role("link", name="Open").click()
        expect(rows(visitor)).to_have_count(3)
        expect(field).to_have_value("status:open")
    field.evaluate("(field) => { field.value = ''; field.dispatchEvent(new Event('search')); }")  # its x
    expect(table(visitor).locator(".heading").first).to_contain_text("Need a person")
    expect(problems).to_have_count(0)


def test_a_run_that_ends_leaves_the_filtered_list(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens("#/board?status=open")
    expect(rows(visitor)).to_have_count(1)

    assert visitor.context.request.post(f"{visitor.url}/v1/runs/{run_id}/cancel", data={}).ok

    expect(visitor.page.get_by_text("No run fits this filter.")).to_be_visible()


def test_rows_are_chosen_and_stopped_by_keyboard_alone(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 5, status="queued", reason=None)
    visitor.opens("#/board?status=queued")
    expect(rows(visitor)).to_have_count(5)

    visitor.presses("j", "x", "j", "j", "x", "k", "k")

    expect(rows(visitor).first.locator("a")).to_be_focused()
    expect(visitor.page.locator(".chosen")).to_contain_text("2 runs chosen")
    assert [row.get_attribute("data-chosen") is not None for row in rows(visitor).all()] == [
        True,
        False,
        True,
        False,
        False,
    ]
    visitor.page.get_by_role("button", name="Stop", exact=True).click()
    asks = visitor.page.get_by_role("dialog", name="Stop 2 runs?")
    asks.get_by_role("button", name="Back").click()
    expect(visitor.page.locator(".chosen")).to_contain_text("2 runs chosen")
    visitor.page.get_by_role("button", name="Stop", exact=True).click()
    asks.get_by_role("button", name="Stop 2 runs").click()
    expect(rows(visitor)).to_have_count(3, timeout=PATIENCE_MS)
    expect(visitor.page.locator(".chosen")).to_contain_text("2 runs stopped")
    expect(visitor.page.get_by_role("link", name="Show them")).to_have_attribute("href", "#/board?status=cancelled")


def test_retried_runs_come_into_the_list_and_are_led_to(visitor: Visitor, counter: Counter) -> None:
    for run_id, _ in (counter.waiting(), counter.waiting()):
        assert visitor.context.request.post(f"{visitor.url}/v1/runs/{run_id}/cancel", data={}).ok
    visitor.opens("#/board?agent=support")
    expect(rows(visitor)).to_have_count(2)

    visitor.page.get_by_label("Choose all runs that are listed").check()
    visitor.page.get_by_role("button", name="Retry", exact=True).click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Retry 2 runs").click()

    expect(visitor.page.locator(".chosen")).to_contain_text("2 runs retried")
    expect(rows(visitor)).to_have_count(4, timeout=5000)  # sooner than the list is read again
    expect(rows(visitor).first.locator(".c-choice")).to_contain_text("queued")
    visitor.page.get_by_role("link", name="Show them").click()
    expect(rows(visitor).first).to_be_visible()
    assert "#/board?since=20" in visitor.page.url


def test_a_range_of_rows_is_chosen_and_a_refused_run_is_said(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 5, status="queued", reason=None)
    visitor.page.route("**/v1/runs/*/cancel", _refuse_once())
    visitor.opens("#/board?status=queued")
    boxes = rows(visitor).get_by_role("checkbox")

    boxes.nth(0).check()
    boxes.nth(3).click(modifiers=["Shift"])

    expect(visitor.page.locator(".chosen")).to_contain_text("4 runs chosen")
    visitor.page.get_by_role("button", name="Stop", exact=True).click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Stop 4 runs").click()
    expect(visitor.page.locator(".chosen")).to_contain_text("Stop: 1 run of 4 refused. Not yours.")
    assert len(visitor.complaints) == 1  # the browser's own line about 403
    visitor.complaints.clear()


def test_only_the_rows_near_the_window_are_in_the_document_and_keys_reach_all(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 200, status="queued", reason=None)
    visitor.page.set_viewport_size({"width": 1440, "height": 500})
    visitor.opens("#/board?status=queued")
    expect(table(visitor)).to_have_attribute("aria-rowcount", "201")
    assert rows(visitor).count() < 80

    for _ in range(100):
        visitor.page.keyboard.press("j")

    focused = visitor.page.locator("tr.line-row:focus-within")
    expect(focused).to_have_attribute("aria-rowindex", "101")
    expect(focused).to_be_in_viewport()
    assert rows(visitor).count() < 80


def test_hostile_text_in_a_title_is_shown_as_text(visitor: Visitor, crowd: Crowd) -> None:
    title = '<img src=x onerror="alert(1)"> **bold** [a](javascript:alert(1)) \x1b[31m \u202egnp.exe ' + "W" * 3000
    crowd.add("hostile", 1, status="queued", reason=None, title=title)

    visitor.opens("#/board?status=queued")

    cell = rows(visitor).first.locator(".c-what")
    expect(cell).to_contain_text(
        '<img src=x onerror="alert(1)"> **bold** [a](javascript:alert(1)) ⟨U+001B⟩[31m ⟨U+202E⟩'
    )
    assert visitor.page.locator(".view img").count() == 0
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_an_address_without_a_place_says_so(visitor: Visitor) -> None:
    visitor.page.goto(f"{visitor.url}/#/boards/<b>x")

    expect(visitor.page.get_by_role("heading", name="There is nothing at this address")).to_be_visible()
    expect(visitor.page.locator("main")).to_be_hidden()
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    expect(visitor.page.locator(".board")).to_be_hidden()
    expect(visitor.page.locator(".view code")).to_have_text(re.compile(re.escape("#/boards/")))
    visitor.page.get_by_role("link", name="To the conversations").click()
    expect(visitor.page.locator(".welcome")).to_be_visible()


def test_a_view_that_cannot_be_loaded_offers_to_load_the_page_again(visitor: Visitor) -> None:
    visitor.opens()
    visitor.page.route("**/late.js*", lambda route: route.abort())

    visitor.page.goto(f"{visitor.url}/#/board")

    expect(visitor.page.get_by_text("This view could not be loaded")).to_be_visible()
    visitor.page.unroute("**/late.js*")
    visitor.page.get_by_role("button", name="Load the page again").click()
    expect(visitor.page.get_by_role("heading", name="The board")).to_be_visible()
    visitor.complaints.clear()  # the browser's own lines about the file


def test_a_row_says_what_a_person_is_asked_and_for_how_long(visitor: Visitor, counter: Counter) -> None:
    counter.waiting(question_before(expires_in_s=3000), question_before())
    counter.waiting(question("send_mail", {"to": "bo"}))
    visitor.opens("#/board")

    doing = rows(visitor).locator(".doing")
    expect(doing.first).to_contain_text(
        "refund_order: order 1042, amount 88.00 EUR, to Okafor & Co, and 1 question more"
    )
    expect(doing.first.locator("small")).to_have_text(re.compile("^49 min left$|^50 min left$"))
    expect(doing.nth(1)).to_contain_text("Did send_mail take effect?")
    assert _colour(doing.first) == _colour(table(visitor).locator("[data-group=questions] b"))


def test_the_runs_that_need_a_person_are_those_that_are_counted(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("asks", 3, **ASKS)
    crowd.add("other", 2, status="waiting", reason="signal")
    visitor.opens("#/board")

    visitor.page.locator(".vital").filter(has_text="Need a person").click()

    expect(rows(visitor)).to_have_count(4)
    expect(visitor.page.locator(".view-tabs [aria-current]")).to_have_text("Need a person4")


def test_lengths_are_short_and_running_rows_say_where_they_are(
    visitor: Visitor, crowd: Crowd, counter: Counter
) -> None:
    age: dict[str, Any] = {"created_ago_ms": 905_000, "started_ms": epoch_ms() - 905_000}
    crowd.add("long", 1, status="running", reason=None, steps=3, fence=2, **age)
    visitor.opens("#/board?status=running")

    expect(rows(visitor).locator(".c-for")).to_have_text("15 min")
    expect(rows(visitor).locator(".c-when")).to_have_text("15 min ago")
    expect(rows(visitor).locator(".c-doing")).to_contain_text("3 calls so far")

    step = {"id": "step_long", "run_id": "long-1", "number": 4, "kind": "tool", "name": "run_tests", "fence": 2}
    call = {"attempt": 1, "status": "started", "started_ms": epoch_ms() - 725_000}
    with counter.journal.database.write() as connection:
        connection.execute(insert(steps), {"arguments_digest": "", "idempotency_key": "k"} | step | call)

    expect(rows(visitor).locator(".c-doing span")).to_have_text("run_tests")
    expect(rows(visitor).locator(".c-doing small")).to_have_text("12 min")


def test_a_filtered_board_shows_no_other_run_for_a_moment(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens()
    expect(visitor.page.locator(".board .run").first).to_be_visible()
    visitor.page.evaluate(WATCH_ROWS)

    visitor.page.evaluate("location.hash = '#/board?status=queued'")

    expect(rows(visitor)).to_have_count(2)
    assert visitor.page.evaluate("[...window.states]") == ["queued"]


WATCH_ROWS = """
  window.states = new Set();
  const look = () => {
    for (const mark of document.querySelectorAll("tr.line-row .offscreen")) window.states.add(mark.textContent);
    requestAnimationFrame(look);
  };
  look();
"""


def test_a_group_is_folded(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    visitor.opens("#/board")
    expect(rows(visitor)).to_have_count(3)
    button = visitor.page.get_by_role("button", name="Queued")

    button.press("Enter")

    expect(button).to_have_attribute("aria-expanded", "false")
    expect(rows(visitor)).to_have_count(1)


def test_lanes_keep_the_filter_the_tabs_and_the_numbers(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("queued", 2, status="queued", reason=None)
    crowd.add("other", 1, status="running", reason=None, agent_id="atlas", agent_name="Atlas")
    visitor.opens("#/board?agent=support")
    lanes = visitor.page.locator(".view .lane:visible")
    cards = lanes.locator("a.run")

    visitor.page.get_by_role("link", name="Lanes").click()

    expect(cards).to_have_count(3)
    expect(visitor.page.locator(".view [data-lane=questions] a.run")).to_have_count(1)
    expect(cards.nth(1)).to_have_attribute("href", "#/run/queued-2")
    expect(visitor.page.get_by_label("Filter the runs")).to_have_value("agent:support")
    expect(visitor.page.locator(".vital").first).to_contain_text("1 running, 2 queued, 1 for a person")
    visitor.page.get_by_role("navigation", name="Lists of runs").get_by_role("link", name="Everything").click()
    expect(cards).to_have_count(4)
    visitor.presses("j", "j")
    expect(cards.nth(1)).to_be_focused()
    visitor.page.get_by_role("link", name="Table").click()
    expect(rows(visitor)).to_have_count(4)
    expect(lanes).to_have_count(0)


def _colour(element: Locator) -> str:
    return str(element.evaluate("(element) => getComputedStyle(element).color"))


def _refuse_once() -> Callable[[Route], None]:
    calls: list[Route] = []

    def handle(route: Route) -> None:
        calls.append(route)
        if len(calls) > 1:
            return route.continue_()
        problem = '{"code": "forbidden", "detail": "Not yours.", "status": 403}'
        return route.fulfill(status=403, content_type="application/problem+json", body=problem)

    return handle
