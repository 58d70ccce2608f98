"""Search, go to: places, agents, commands, threads and runs from one field; and the rail that opens it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.answering import Counter
from tests.browser.visitor import PATIENCE_MS, Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def field(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("combobox", name="Search, go to")


def options(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("dialog", name="Search, go to").get_by_role("option")


def selected(visitor: Visitor) -> Locator:
    return options(visitor).and_(visitor.page.locator("[aria-selected=true]"))


def test_it_leads_to_a_place_by_keyboard_and_gives_the_focus_back(visitor: Visitor) -> None:
    visitor.opens("#/board")
    where = visitor.page.get_by_label("Filter the runs")
    where.focus()

    visitor.presses("Control+k")
    expect(field(visitor)).to_be_focused()
    visitor.presses("Escape")
    expect(field(visitor)).to_be_hidden()
    expect(where).to_be_focused()
    visitor.presses("Control+k")
    expect(field(visitor)).to_be_focused()
    visitor.presses("Control+k")
    expect(where).to_be_focused()
    visitor.presses("Control+k")
    visitor.page.keyboard.type("approv")
    expect(selected(visitor)).to_have_text("Approvals")
    assert field(visitor).get_attribute("aria-activedescendant") == selected(visitor).get_attribute("id")
    visitor.presses("Enter")

    expect(visitor.page.get_by_role("heading", name="Approvals", level=1)).to_be_visible()
    expect(visitor.page.locator(".places [aria-current]")).to_have_text("Approvals")


def test_arrow_keys_move_and_the_commands_are_those_of_the_view(visitor: Visitor) -> None:
    visitor.opens("#/approvals")
    expect(visitor.page.locator(".list-note")).to_contain_text("Nothing waits for you.")

    visitor.page.get_by_role("button", name="Search, go to").click()
    expect(options(visitor).first).to_have_text("Approvals: Waiting")
    visitor.presses("ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown")
    expect(selected(visitor)).to_have_text("Approvals: What holds")
    visitor.presses("Enter")

    assert visitor.page.url.endswith("#/approvals?tab=holding")


def test_what_is_typed_while_it_is_loaded_is_its_first_words_and_no_key_of_the_page(visitor: Visitor) -> None:
    visitor.opens()
    held: list[Route] = []
    visitor.page.route("**/late.js*", lambda route: held.append(route))

    with visitor.page.expect_request("**/late.js*"):
        visitor.presses("Control+k")
    visitor.page.keyboard.type("boa")
    for route in held:
        route.continue_()

    expect(field(visitor)).to_have_value("boa")
    expect(selected(visitor)).to_have_text("Board")
    expect(visitor.page.get_by_label("Message")).to_have_value("")


def test_an_agent_is_chosen_for_a_new_conversation(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting()
    visitor.opens(f"#/thread/{thread_id}")

    visitor.presses("Escape", "Control+k")
    visitor.page.keyboard.type("answers cust")
    expect(selected(visitor)).to_contain_text("Support")
    visitor.presses("Enter")

    expect(visitor.page.get_by_label("Message")).to_be_focused()
    expect(visitor.page.locator(".welcome")).to_be_visible()


def test_threads_and_runs_are_found_by_their_words_and_a_run_by_its_id(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting(text="<b>Violet</b> umbrellas for Oslo")
    counter.waiting(text="Something else")
    visitor.opens()

    visitor.presses("Escape", "Control+k")
    visitor.page.keyboard.type("umbrellas")
    expect(options(visitor)).to_have_count(2)
    expect(options(visitor).first).to_contain_text("<b>Violet</b> umbrellas for Oslo")
    visitor.presses("Control+a")
    visitor.page.keyboard.type(run_id)
    expect(options(visitor)).to_have_count(1)
    visitor.presses("Enter")

    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text("umbrellas", timeout=PATIENCE_MS)
    assert visitor.page.url.endswith(f"#/run/{run_id}")


def test_a_late_answer_to_other_words_is_dropped_and_a_server_that_is_away_is_said(
    visitor: Visitor, counter: Counter
) -> None:
    counter.waiting(text="umbrellas")
    visitor.opens()
    held: list[Route] = []
    visitor.page.route("**/v1/threads?*umbrel*", lambda route: held.append(route))
    visitor.presses("Escape", "Control+k")

    with visitor.page.expect_request("**/v1/threads?*umbrel*"):
        visitor.page.keyboard.type("umbrellas")
    visitor.page.route("**/v1/runs?*zebra*", lambda route: route.abort())
    visitor.presses("Control+a")
    visitor.page.keyboard.type("zebra")
    expect(visitor.page.locator(".palette-note")).to_contain_text("The server does not answer")
    held[0].continue_()

    expect(options(visitor)).to_have_count(0)
    visitor.complaints.clear()  # what was cut off on purpose


@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits(visitor: Visitor, counter: Counter, width: int) -> None:
    counter.waiting(text="W" * 3000)
    visitor.page.set_viewport_size({"width": width, "height": 700})
    visitor.opens()

    visitor.presses("Escape", "Control+k")
    visitor.page.keyboard.type("WWW")

    expect(options(visitor)).to_have_count(2)
    assert visitor.page.locator("dialog.palette").evaluate("found => found.scrollWidth <= found.clientWidth")
