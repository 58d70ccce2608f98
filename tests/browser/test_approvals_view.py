"""The inbox of questions: one list, the chosen question in full, and answers by hand, by keyboard and in batches."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from bus.journal.approvals import Decision, Question
from config.identity.principal import Principal, Role
from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme
from tests.bus.questions import answer_of, filled_in, question, question_before, question_form

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

ME = Principal()
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Pay an order back.\n\nThe money leaves at once.",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "amount": {"type": "number"},
        "customer": {"type": "string", "default": "Okafor & Co"},
        "reason": {"type": "string"},
    },
    "required": ["order", "amount"],
}


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def refund(order: int = 1043, amount: float = 54.9, **fields: Any) -> Question:
    about = {
        "sentence": f"Pay back {amount} EUR for order {order}",
        "description": "Pay an order back.",
        "classification": "confidential",
    }
    return replace(question_before(arguments={"order": order, "amount": amount}, about=about, **fields), schema=SCHEMA)


def rows(visitor: Visitor) -> Locator:
    return visitor.page.locator("li.q")


def pane(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("region", name="The chosen question")


def button(visitor: Visitor, name: str) -> Locator:
    return pane(visitor).get_by_role("button", name=re.compile(f"^{name}"))


def test_questions_are_grouped_and_the_first_stands_in_full_beside_the_list(visitor: Visitor, counter: Counter) -> None:
    counter.waiting(refund(), text="Orders 1042 and 1043 never arrived.")
    counter.waiting(refund(1060, 88.0))
    counter.waiting(question("send_mail", {"to": "ann"}, expires_in_s=1800))
    counter.waiting(question_form())

    visitor.opens("#/approvals")

    headings = visitor.page.locator(".group h2")
    expect(headings).to_contain_text(["refund_order", "Did these take effect?", "Others"])
    expect(rows(visitor)).to_have_count(4)
    expect(rows(visitor).nth(2)).to_contain_text(re.compile(r"\d s ago.*\d\d min left"))
    expect(visitor.page.locator(".places .asked")).to_have_text("4")
    detail = pane(visitor)
    expect(detail.get_by_role("heading", level=2)).to_have_text("Pay back 54.9 EUR for order 1043?")
    expect(detail.locator(".meaning")).to_contain_text("confidential")
    expect(detail.locator(".fields dt")).to_have_text(["order", "amount", "customer", "reason"])
    expect(detail.locator(".fields dd").nth(2)).to_contain_text("default, not from the model")
    expect(detail.locator(".fields dd").nth(3)).to_contain_text("none")
    expect(detail).to_contain_text("This tool needs a person's approval for each call.")
    expect(detail.locator("blockquote")).to_contain_text("Orders 1042 and 1043 never arrived.")
    expect(detail.locator(".until")).to_contain_text(re.compile(r"the run fails: 6 d 23 h left"))


def test_a_call_is_changed_in_its_place_by_keyboard_alone_and_approved(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting(refund())
    visitor.opens("#/approvals")
    expect(button(visitor, "Approve")).to_be_visible()

    visitor.presses("e")
    expect(pane(visitor).get_by_role("textbox", name="order", exact=True)).to_be_focused()
    visitor.presses("Escape", "e", "Tab", "Tab")
    expect(pane(visitor).get_by_role("button", name="Edit amount")).to_be_focused()
    visitor.presses("Enter", "Control+a")
    visitor.page.keyboard.type("much")
    expect(pane(visitor)).to_contain_text("Write a number.")
    expect(button(visitor, "Approve")).to_be_disabled()
    visitor.presses("Control+a")
    visitor.page.keyboard.type("49.9")
    expect(pane(visitor).locator(".is-old")).to_have_text("54.9")
    visitor.presses("Enter")
    expect(button(visitor, "Approve with 49.9")).to_be_focused()
    visitor.presses("Enter")

    expect(pane(visitor)).to_contain_text("Approved with other arguments by you.")
    expect(pane(visitor).get_by_role("heading", level=2)).to_be_focused()
    answer = answer_of(counter.journal.database, run_id)
    assert (answer.decision, answer.arguments) == ("approve", {"order": 1043, "amount": 49.9})


def test_keys_lead_to_the_next_question_and_no_single_key_decides(visitor: Visitor, counter: Counter) -> None:
    first, _ = counter.waiting(refund(1))
    second, _ = counter.waiting(question())
    visitor.opens("#/approvals")
    expect(rows(visitor)).to_have_count(2)
    expect(button(visitor, "Take as done")).to_be_visible()  # what was cut off comes first

    visitor.presses("j", "r")
    expect(button(visitor, "Reject")).to_be_focused()
    visitor.presses("k", "a")
    expect(button(visitor, "Take as done")).to_be_focused()
    visitor.presses("r")
    expect(button(visitor, "Fail the run")).to_be_focused()
    assert {counter.runner.handle(run_id).status() for run_id in (first, second)} == {"waiting"}
    visitor.presses("j")
    expect(rows(visitor).nth(1).get_by_role("link")).to_be_focused()
    pane(visitor).get_by_label("A word for the log").fill("12 are enough")
    with visitor.page.expect_request("**/v1/runs/*/approvals/*") as sent:
        button(visitor, "Reject").click()

    expect(pane(visitor)).to_contain_text("Rejected by you.")
    expect(rows(visitor)).to_have_count(1)
    assert refund(1).digest in (sent.value.post_data or "")
    assert answer_of(counter.journal.database, first) == Decision(decision="reject", message="12 are enough")
    button(visitor, "Next question").click()
    expect(button(visitor, "Run again")).to_be_visible()


def test_a_call_that_was_cut_off_is_taken_as_done(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting(question("send_mail", {"to": "ann"}))
    visitor.opens("#/approvals")
    expect(pane(visitor)).to_contain_text("If it took effect before, it takes effect twice.")

    button(visitor, "Take as done").click()
    pane(visitor).get_by_label("What did the call return?").fill('{"sent": 1}')
    pane(visitor).locator("form").get_by_role("button", name="Take as done").click()

    expect(pane(visitor)).to_contain_text("Taken as done by you.")
    assert answer_of(counter.journal.database, run_id).result == {"sent": 1}
    expect(visitor.page.locator(".list-note")).to_contain_text("Nothing waits for you.")


def test_a_form_is_filled_in(visitor: Visitor, counter: Counter) -> None:
    form = {"type": "object", "properties": {"persons": {"type": "integer"}}, "required": ["persons"]}
    run_id, _ = counter.waiting(question_form(form, reason="A table for how many?"))
    visitor.opens("#/approvals")
    expect(pane(visitor).get_by_role("heading", level=2)).to_have_text("A table for how many?")

    pane(visitor).get_by_label("persons").fill("4")
    button(visitor, "Send answer").click()

    expect(pane(visitor)).to_contain_text("Answered by you.")
    assert filled_in(counter.journal.database, run_id) == {"persons": 4}


def test_calls_of_one_tool_are_reviewed_and_approved_together(visitor: Visitor, counter: Counter) -> None:
    runs = [counter.waiting(refund(order))[0] for order in (1, 2, 3)]
    other, _ = counter.waiting(replace(refund(4), name="order_supplies"))
    visitor.opens("#/approvals")

    expect(rows(visitor).get_by_role("checkbox")).to_have_count(3)  # of a single call there is nothing to choose
    visitor.page.get_by_role("button", name="Review 3 together").click()
    review = visitor.page.get_by_role("region", name="The chosen calls").first
    expect(review.locator("tbody tr")).to_have_count(3)
    rows(visitor).nth(1).get_by_role("checkbox").uncheck()
    expect(review.locator("tbody tr")).to_have_count(2)
    visitor.presses("r")
    expect(visitor.page.locator(".batch").get_by_role("button", name="Reject")).to_be_focused()
    visitor.presses("p", "e", "o")
    expect(visitor.page.locator(".batch").get_by_role("button", name="Reject")).to_be_focused()
    visitor.presses("a")
    expect(visitor.page.get_by_role("button", name="Approve 2")).to_be_focused()
    visitor.presses("Enter")

    expect(rows(visitor)).to_have_count(2)
    expect(visitor.page.locator(".list .batch")).to_be_hidden()
    expect(pane(visitor).get_by_role("heading", name="2 calls approved")).to_be_focused()
    words = [f"Approved by you. Pay back 54.9 EUR for order {order}Its run: queued" for order in (1, 3)]
    expect(pane(visitor).locator("li")).to_contain_text(words)
    assert [counter.runner.handle(run_id).status() for run_id in (*runs, other)] == [
        "queued",
        "waiting",
        "queued",
        "waiting",
    ]


def test_of_a_batch_each_call_is_refused_for_itself(visitor: Visitor, counter: Counter) -> None:
    questions = [refund(order) for order in (1, 2)]
    runs = [counter.waiting(each)[0] for each in questions]
    visitor.opens("#/approvals")
    visitor.page.get_by_role("button", name="Review 2 together").click()

    def be_quicker(route: Route) -> None:
        reject = Decision(decision="reject", message="already paid")
        counter.journal.clients.decide(ME, runs[0], questions[0].id, reject, by="ben")
        route.continue_()

    visitor.page.route(
        "**/v1/approvals", lambda route: be_quicker(route) if route.request.method == "POST" else route.continue_()
    )
    visitor.page.get_by_role("button", name="Approve 2").click()

    expect(pane(visitor).get_by_role("heading", name="1 of 2 calls approved")).to_be_visible()
    expect(pane(visitor).locator("li").first).to_contain_text("this was decided already: reject, by ben")
    expect(rows(visitor)).to_have_count(0)
    assert answer_of(counter.journal.database, runs[1]).decision == "approve"


def test_a_row_that_is_chosen_is_shown_and_esc_chooses_none(visitor: Visitor, counter: Counter) -> None:
    for order in (1, 2, 3):
        counter.waiting(refund(order))
    visitor.opens("#/approvals")
    visitor.page.get_by_role("button", name="Review 3 together").click()
    together = visitor.page.get_by_role("heading", name="3 calls of refund_order")
    expect(together).to_be_visible()
    expect(rows(visitor).locator("[aria-current]")).to_have_count(0)

    rows(visitor).nth(1).get_by_role("link").click()
    expect(pane(visitor).get_by_role("heading", level=2)).to_have_text("Pay back 54.9 EUR for order 2?")
    expect(visitor.page.get_by_role("button", name="Approve 3")).to_be_hidden()  # of what is not seen
    visitor.page.get_by_role("button", name="Review 3", exact=True).click()
    expect(together).to_be_visible()
    visitor.presses("j")
    expect(pane(visitor).get_by_role("heading", level=2)).to_have_text("Pay back 54.9 EUR for order 3?")
    visitor.page.get_by_role("button", name="Review 3", exact=True).click()
    expect(together).to_be_visible()
    visitor.presses("Escape")

    expect(visitor.page.get_by_role("checkbox", checked=True)).to_have_count(0)
    visitor.presses("x", "k", "x")
    expect(visitor.page.get_by_role("heading", name="2 calls of refund_order")).to_be_visible()
    visitor.presses("Escape")
    expect(pane(visitor).get_by_role("heading", level=2)).to_contain_text("Pay back 54.9 EUR for order")
    expect(visitor.page.get_by_role("checkbox", checked=True)).to_have_count(0)


def test_a_phone_answers_calls_together_on_a_screen_of_their_own(visitor: Visitor, counter: Counter) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 800})
    runs = [counter.waiting(refund(order))[0] for order in range(12)]
    visitor.opens("#/approvals")
    for name in ("Agent", "Order"):
        expect(visitor.page.get_by_role("combobox", name=name)).to_be_in_viewport()
    for row in (0, 11):
        rows(visitor).nth(row).get_by_role("checkbox").check()
    review = visitor.page.get_by_role("button", name="Review 2", exact=True)
    expect(rows(visitor).last).to_be_in_viewport()
    box, bar = rows(visitor).last.bounding_box(), visitor.page.locator(".batch").bounding_box()
    assert box
    assert bar
    assert box["y"] + box["height"] <= bar["y"]

    review.click()
    expect(visitor.page.locator(".review tbody tr")).to_have_count(2)
    expect(rows(visitor).first).to_be_hidden()
    visitor.page.go_back()
    expect(rows(visitor).first).to_be_visible()
    review.click()
    visitor.page.get_by_role("button", name="Approve 2").click()

    expect(pane(visitor).get_by_role("heading", name="2 calls approved")).to_be_visible()
    assert [counter.runner.handle(run_id).status() for run_id in runs].count("queued") == 2
    visitor.page.get_by_role("link", name="All open questions").click()
    expect(rows(visitor)).to_have_count(10)


def test_a_filter_stays_with_a_row_and_a_group_with_its_last_call(visitor: Visitor, counter: Counter) -> None:
    for order in (1, 2):
        counter.waiting(refund(order))
    visitor.opens("#/approvals?tab=mine&agent=support&order=newest")
    headings = visitor.page.locator(".group h2 code")
    expect(headings).to_have_text(["refund_order"])

    rows(visitor).nth(1).get_by_role("link").click()
    expect(pane(visitor).get_by_role("heading", level=2)).to_contain_text("for order 1?")
    expect(visitor.page.get_by_role("link", name="Mine")).to_have_attribute("aria-current", "page")
    expect(visitor.page.get_by_role("combobox", name="Order")).to_have_value("newest")
    button(visitor, "Approve").click()

    expect(pane(visitor)).to_contain_text("Its run: queued")
    expect(pane(visitor).locator(".fields")).to_contain_text("Okafor & Co")
    expect(rows(visitor)).to_have_count(1)
    expect(headings).to_have_text(["refund_order"])


def test_the_answer_of_another_person_arrives_and_is_no_error(visitor: Visitor, counter: Counter) -> None:
    first, second = refund(1), refund(2)
    run_id, _ = counter.waiting(first)
    visitor.opens("#/approvals")
    expect(button(visitor, "Approve")).to_be_visible()

    counter.journal.clients.decide(ME, run_id, first.id, Decision(decision="reject", message="no"), by="ben")
    expect(pane(visitor)).to_contain_text("Rejected by ben.", timeout=PATIENCE_MS)
    other, _ = counter.waiting(second)
    expect(rows(visitor)).to_have_count(1, timeout=PATIENCE_MS)
    visitor.presses("j")

    def be_quicker(route: Route) -> None:
        counter.journal.clients.decide(ME, other, second.id, Decision(decision="approve"), by="ben")
        route.continue_()

    visitor.page.route("**/v1/runs/*/approvals/*", be_quicker)
    button(visitor, "Reject").click()

    expect(pane(visitor)).to_contain_text("Another answer came first: Approved by ben.")
    visitor.complaints.clear()  # the browser's own line about 409


def test_two_persons_approve_each_for_themselves(browser: Browser, tmp_path: Path) -> None:
    with opened_counter(tmp_path, auth="required") as guarded:
        run_id, _ = guarded.waiting(refund(approvers=2))
        for number, name in enumerate(("ann", "ben")):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            visitor = Visitor(context, guarded.url).opens(f"#token={guarded.key(name, Role.APPROVER)}")
            visitor.page.goto(f"{guarded.url}/#/approvals")
            words = "2 persons have to approve it." if number == 0 else "1 of 2 have approved it: ann."
            expect(pane(visitor)).to_contain_text(words, timeout=PATIENCE_MS)
            expect(pane(visitor).locator("[data-edit]")).to_have_count(0)
            button(visitor, "Approve").click()
            if number == 0:
                expect(pane(visitor)).to_contain_text("You have approved it. Another person has to")
                expect(visitor.page.locator(".group h2")).to_contain_text("Waiting for another person")
            else:
                expect(pane(visitor)).to_contain_text("Approved by you.")
            assert visitor.complaints == []
            context.close()
        assert answer_of(guarded.journal.database, run_id).decision == "approve"


def test_who_may_answer_nothing_is_shown_no_question(browser: Browser, tmp_path: Path) -> None:
    with opened_counter(tmp_path, auth="required") as guarded:
        guarded.waiting(refund())
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        visitor = Visitor(context, guarded.url).opens(f"#token={guarded.key('vic', Role.VIEWER)}")
        expect(visitor.page.locator(".places .count")).to_have_text("1")

        visitor.presses("Escape", "Control+k")
        visitor.page.keyboard.type("approvals")
        expect(visitor.page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
        visitor.presses("Enter")

        expect(visitor.page.locator(".list-note")).to_contain_text("Nothing waits for you.", timeout=PATIENCE_MS)
        expect(visitor.page.locator(".places .asked")).to_be_empty()
        context.close()


def test_a_question_is_passed_on_by_a_link_for_one_person(visitor: Visitor, counter: Counter) -> None:
    counter.waiting(refund())
    visitor.opens("#/approvals")
    expect(button(visitor, "Pass on")).to_be_visible()

    visitor.presses("p")
    visitor.page.keyboard.type("<b>")
    visitor.presses("Enter")
    expect(pane(visitor).locator(".pass-on .notice")).to_be_visible()
    pane(visitor).get_by_label("Pass on to").fill("local")
    visitor.presses("Enter")
    link = pane(visitor).get_by_label("The link")
    expect(link).to_have_value(re.compile(r"/#/approval/"))
    address = link.input_value()
    visitor.page.goto(address)

    expect(visitor.page.get_by_role("heading", name="A question for you")).to_be_visible(timeout=PATIENCE_MS)
    visitor.complaints.clear()  # the browser's own line about 400


def test_what_was_answered_and_what_holds_can_be_read_and_ended(visitor: Visitor, counter: Counter) -> None:
    for open_question, decision in (
        (refund(1, scopes=("thread",), scope_s=1800), Decision(decision="approve", scope="thread")),
        (refund(2), Decision(decision="reject", message="<i>already</i> \u202epaid")),
        (refund(3), Decision(decision="approve", arguments={"order": 3, "amount": 1.0})),
    ):
        counter.journal.clients.decide(ME, counter.waiting(open_question)[0], open_question.id, decision, by="ben")
    visitor.opens("#/approvals?tab=answered")

    answers = visitor.page.locator(".answered li")
    expect(answers).to_contain_text(["Approved with other amount by ben", "Rejected by ben", "Approved by ben"])
    expect(answers.nth(1)).to_contain_text("“<i>already</i> ⟨U+202E⟩paid”")
    expect(visitor.page.locator(".by-tool li")).to_contain_text("1 approved, 1 changed, 1 rejected")
    visitor.page.get_by_role("link", name="What holds").click()
    held = visitor.page.locator(".holding li")
    expect(held).to_contain_text("holds until")
    held.get_by_role("button", name="End it, the approval of refund_order").click()
    expect(held).to_contain_text("ended by you")
    assert [each["is_valid"] for each in counter.journal.stores.sticky_approvals.page(ME)] == [False]


def test_a_question_that_is_not_open_says_so(visitor: Visitor, counter: Counter) -> None:
    visitor.opens("#/approvals/apr_<b>")
    expect(pane(visitor).get_by_role("heading", name="This question is not open")).to_be_visible(timeout=PATIENCE_MS)
    open_question = refund()
    run_id, _ = counter.waiting(open_question)
    visitor.page.goto(f"{visitor.url}/#/approvals/{open_question.id}")
    expect(button(visitor, "Approve")).to_be_visible()

    assert visitor.context.request.post(f"{visitor.url}/v1/runs/{run_id}/cancel", data={}).ok

    expect(pane(visitor)).to_contain_text(
        "The run ended, or was stopped, before this was answered.", timeout=PATIENCE_MS
    )


def test_a_server_that_does_not_answer_is_said_and_asked_again(visitor: Visitor, counter: Counter) -> None:
    counter.waiting(refund())
    visitor.page.route("**/v1/approvals?*", lambda route: route.abort(), times=1)

    visitor.opens("#/approvals")

    expect(visitor.page.locator(".list-note")).to_contain_text("The server does not answer")
    expect(rows(visitor)).to_have_count(1, timeout=PATIENCE_MS)
    visitor.complaints.clear()  # what was cut off on purpose


def test_hostile_arguments_are_shown_as_text_and_stay_inside(visitor: Visitor, counter: Counter) -> None:
    body = '<img src=x onerror="alert(1)"> \u202egnp.exe ' + "W" * 5000
    hostile = question_before(arguments={"order": 1, "<b>": body}, about={"sentence": f"Send {body}"})
    counter.waiting(hostile, text=body)

    visitor.opens("#/approvals")

    expect(pane(visitor).locator(".fields dd").last).to_contain_text('<img src=x onerror="alert(1)"> ⟨U+202E⟩gnp.exe')
    assert visitor.page.locator(".view :is(img, .fields b)").count() == 0
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 1440


@pytest.mark.parametrize("width", [360, 390, 820, 1440])
def test_it_fits_with_the_contrast_of_aa_and_a_phone_has_two_screens(
    visitor: Visitor, counter: Counter, width: int
) -> None:
    counter.waiting(refund(scopes=("thread", "tool"), scope_s=1800))
    counter.waiting(question("send_mail", {"to": "x" * 900}, expires_in_s=600))
    visitor.page.set_viewport_size({"width": width, "height": 800})
    visitor.opens("#/approvals")
    for tab in ("Answered", "What holds", "Waiting"):
        visitor.page.get_by_role("link", name=tab).click()
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, tab

    row = rows(visitor).filter(has_text="Pay back")
    row.get_by_role("link").click()
    expect(button(visitor, "Approve")).to_be_in_viewport()
    pane(visitor).get_by_role("button", name="Edit amount").click()
    for scheme in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert visitor.page.evaluate(CONTRAST) == [], scheme
    if width <= 760:
        expect(row).to_be_hidden()
        visitor.page.get_by_role("link", name="All open questions").click()
        expect(row).to_be_visible()
        expect(pane(visitor)).to_be_hidden()
        visitor.page.get_by_role("navigation", name="Views").get_by_role("button", name="Talk").click()
        expect(visitor.page.locator("main")).to_be_visible()
