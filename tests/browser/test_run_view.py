"""One run by its address: its timeline, the chosen step, its events, and what it needs from a person."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from bus.journal.approvals import Decision, Question
from bus.payloads import ErrorPayload
from config.identity.principal import Principal, Role
from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme
from tests.bus.questions import answer_of, question_before, question_form

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

ME = Principal()
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def steps(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("list", name="Steps").locator(".step")


def asks(visitor: Visitor) -> Locator:
    return visitor.page.locator(".asks")


def refund(order: int = 1043) -> Question:
    return question_before(arguments={"order": order}, about={"sentence": f"Pay back order {order}"})


def test_a_waiting_run_says_what_it_needs_and_its_wait_is_a_row(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()

    visitor.opens(f"#/run/{run_id}")

    expect(asks(visitor).get_by_role("button")).to_have_text(
        [re.compile("Pass on"), "Fail the run", "Take as done", "Run again"]
    )
    expect(visitor.page.locator(".fact-state")).to_contain_text("waiting for an answer")
    expect(steps(visitor).and_(visitor.page.locator(".is-question"))).to_contain_text("so far")


def test_a_call_is_changed_and_approved_in_its_place_by_keyboard_alone(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting(refund())
    visitor.opens(f"#/run/{run_id}")
    card = asks(visitor)
    expect(card.get_by_role("heading", level=2)).to_have_text("Pay back order 1043?")
    row = card.locator(".answers button")
    expect(row).to_contain_text(["Pass on", "Reject", "Edit", "Approve"])
    tops = row.evaluate_all("found => found.map((one) => one.getBoundingClientRect().top)")
    assert max(tops) - min(tops) < 1

    visitor.presses("e")
    expect(card.get_by_role("textbox", name="order", exact=True)).to_be_focused()
    visitor.presses("Control+a")
    visitor.page.keyboard.type("7")
    visitor.presses("Enter")
    expect(card.get_by_role("button", name="Approve with 7")).to_be_focused()
    assert counter.runner.handle(run_id).status() == "waiting"
    visitor.presses("Enter")

    outcome = visitor.page.locator(".run-asks .outcome")
    expect(outcome).to_contain_text("Approved with other arguments by you.")
    expect(outcome).to_be_focused()
    expect(asks(visitor)).to_have_count(0)
    assert answer_of(counter.journal.database, run_id) == Decision(decision="approve", arguments={"order": 7})


def test_each_question_of_a_run_is_answered_alone_and_typing_stays(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting(refund(1), refund(2), question_form())
    visitor.opens(f"#/run/{run_id}")
    expect(asks(visitor)).to_have_count(3)
    last = asks(visitor).last
    last.get_by_role("textbox").first.fill("12")

    asks(visitor).first.get_by_label("A word for the log").fill("<b>no</b>")
    asks(visitor).first.get_by_role("button", name="Reject").click()

    expect(visitor.page.locator(".run-asks .outcome")).to_contain_text("Rejected by you. Pay back order 1")
    expect(asks(visitor)).to_have_count(2)
    expect(last.get_by_role("textbox").first).to_have_value("12")


def test_a_question_that_another_person_answered_first_shows_that_answer(visitor: Visitor, counter: Counter) -> None:
    open_question = refund()
    run_id, _ = counter.waiting(open_question)
    visitor.opens(f"#/run/{run_id}")
    expect(asks(visitor)).to_be_visible()

    def be_quicker(route: Route) -> None:
        counter.journal.clients.decide(ME, run_id, open_question.id, Decision(decision="reject"), by="ben")
        route.continue_()

    visitor.page.route("**/v1/runs/*/approvals/*", be_quicker)
    asks(visitor).get_by_role("button", name="Approve").click()

    expect(visitor.page.locator(".run-asks .outcome")).to_contain_text("Another answer came first: Rejected by ben.")
    visitor.complaints.clear()  # the browser's own line about 409


def test_a_reader_who_may_not_answer_is_told_who_may(browser: Browser, tmp_path: Path) -> None:
    with opened_counter(tmp_path, auth="required") as guarded:
        run_id, _ = guarded.waiting(refund())
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        visitor = Visitor(context, guarded.url).opens(f"#token={guarded.key('olga', Role.OPERATOR)}")
        visitor.page.evaluate("runId => { location.hash = `#/run/${runId}`; }", run_id)

        expect(asks(visitor)).to_contain_text("You may not answer this.")
        expect(asks(visitor).locator(".answers")).to_have_count(0)
        context.close()


def test_a_step_is_chosen_by_keyboard_and_its_events_are_found(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens(f"#/run/{run_id}")
    button = visitor.page.locator(".step.is-question").get_by_role("button")
    panel = visitor.page.get_by_role("complementary", name="The chosen step")
    expect(button).to_have_attribute("aria-current", "true")
    expect(panel.locator(".badge").first).to_have_text("open")
    other = steps(visitor).filter(has_text="cut off").get_by_role("button")

    other.focus()
    visitor.presses("Enter")

    expect(other).to_have_attribute("aria-current", "true")
    expect(button).to_have_attribute("aria-current", "false")
    expect(panel).to_contain_text("cut off after")
    visitor.page.reload()
    expect(other).to_have_attribute("aria-current", "true")
    visitor.page.get_by_role("navigation", name="Of this run").get_by_role("link", name="Events").click()
    events = visitor.page.get_by_role("table", name="Events").locator("tr.line-row")
    expect(events.nth(1)).to_be_visible()
    number = events.count()
    visitor.page.get_by_label("Find events").fill("waiting")
    expect(events).not_to_have_count(number)
    events.filter(has_text="status=waiting").get_by_role("button").click()
    expect(visitor.page.get_by_label("The event")).to_contain_text('"status": "waiting"')
    visitor.page.reload()
    expect(visitor.page.get_by_role("table", name="Events")).to_be_visible()


def test_a_run_that_is_stopped_here_shows_its_end(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens(f"#/run/{run_id}")
    expect(visitor.stop).to_be_visible()

    visitor.presses("s")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Back").click()
    expect(visitor.page.locator(".fact-state")).to_contain_text("waiting")
    visitor.stops_this_run()

    expect(visitor.page.locator(".fact-state")).to_contain_text("cancelled", timeout=PATIENCE_MS)
    expect(visitor.page.get_by_text("Stopped by you.")).to_be_visible()
    expect(steps(visitor).first).to_contain_text("Attempt 1cancelled")
    expect(visitor.page.locator(".step-note", has_text="waiting")).to_have_count(0)
    expect(visitor.page.get_by_role("button", name="Retry")).to_be_visible()
    expect(visitor.page.locator(".asks")).to_have_count(0)


def test_the_log_of_an_open_run_grows(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens(f"#/run/{run_id}?tab=log")
    log = visitor.page.get_by_label("The log")
    expect(log).to_contain_text("waiting", timeout=PATIENCE_MS)

    visitor.stops_this_run()

    expect(log).to_contain_text("cancelled", timeout=PATIENCE_MS)


def test_a_run_that_is_not_there_says_so(visitor: Visitor) -> None:
    visitor.opens("#/run/run_none")

    expect(visitor.page.get_by_text("There is no such run")).to_be_visible(timeout=PATIENCE_MS)
    expect(visitor.page.get_by_role("navigation", name="Of this run")).to_be_hidden()
    expect(visitor.page.get_by_role("region", name="Timeline")).to_be_hidden()
    visitor.complaints.clear()  # the browser's own lines about 404


def test_a_failed_run_says_first_why_it_failed(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.calling("get_order")
    error = ErrorPayload(code="tool_failed", message="no parcels go to 'US'; name another one.")
    counter.resume(run_id, error, status="failed")

    visitor.opens(f"#/run/{run_id}")

    problem = visitor.page.locator(".run-head .notice")
    expect(problem).to_contain_text("No parcels go to 'US'; name another one.", timeout=PATIENCE_MS)
    expect(problem).to_contain_text("tool_failed")
    expect(visitor.page.locator(".fact-state")).to_contain_text("1 min 30 s")


def test_a_lost_worker_ends_an_attempt_and_cuts_off_its_call(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.calling("get_order")
    visitor.opens(f"#/run/{run_id}")
    expect(steps(visitor).first).to_contain_text("Attempt 1…n_lost", timeout=PATIENCE_MS)

    counter.resume(run_id)

    expect(steps(visitor)).to_contain_text(
        ["Attempt 1worker lost for", re.compile("get_order.*cut off"), "Attempt 2"], timeout=PATIENCE_MS
    )
    expect(steps(visitor).first.locator(".is-lost")).to_contain_text("no worker")
    expect(steps(visitor).first.locator(".is-end")).to_have_count(1)
    expect(visitor.page.locator(".run-facts")).to_contain_text("attempt2")


def test_a_step_that_is_chosen_on_a_phone_is_scrolled_to(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.page.set_viewport_size({"width": 390, "height": 700})
    visitor.opens(f"#/run/{run_id}")

    steps(visitor).get_by_role("button").first.click()

    panel = visitor.page.get_by_role("complementary", name="The chosen step")
    expect(panel).to_be_focused()
    expect(panel).to_be_in_viewport()


def test_forced_colours_leave_the_bars_and_one_chosen_tab(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.page.emulate_media(forced_colors="active")
    visitor.opens(f"#/run/{run_id}")
    expect(steps(visitor).first).to_be_visible()

    colour = "element => getComputedStyle(element).backgroundColor"
    bars = visitor.page.locator(".legend .is-tool, .legend .is-write, .shares .sum")
    assert len(set(bars.evaluate_all(f"bars => bars.map({colour})")) & {"rgb(255, 255, 255)"}) == 0
    tabs = visitor.page.locator(".run-view .view-tabs a")
    lines = tabs.evaluate_all("tabs => tabs.map((tab) => getComputedStyle(tab).borderBottomColor)")
    assert len(set(lines[1:])) == 1
    assert lines[0] != lines[1]


@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits_and_every_text_has_the_contrast_of_aa(visitor: Visitor, counter: Counter, width: int) -> None:
    run_id, _ = counter.waiting()
    visitor.page.set_viewport_size({"width": width, "height": 800})
    visitor.opens(f"#/run/{run_id}")
    steps(visitor).get_by_role("button").first.click()

    for _ in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visitor.page.evaluate(CONTRAST) == []
    expect(visitor.page).to_have_title(re.compile("Callboard"))
