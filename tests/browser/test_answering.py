"""Answering what a run asks on the page: what is shown, what each button does, and what others see of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from bus.journal import approvals
from bus.journal.approvals import Decision
from bus.payloads import ToolResultPayload
from config.identity.principal import Principal, Role
from tests.browser.answering import Counter, opened_counter
from tests.browser.test_page_looks import FAINT_TEXTS, OVERFLOW
from tests.browser.visitor import PATIENCE_MS, WIDE, OpenPage, Visitor, in_each_scheme
from tests.bus.questions import (
    REFUND,
    WHY,
    answer_of,
    filled_in,
    question,
    question_before,
    question_form,
    question_missing,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

ME = Principal()
LONG: dict[str, Any] = {
    "to": "ann@b.example",
    "body": "Dear Ann,\nyour refund is on its way.\n" + "x" * 400,
    "lines": [1, {"a": 2}],
}


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """A page whose runs wait until a test resumes them."""
    with opened_counter(tmp_path_factory.mktemp("counter")) as opened:
        yield opened


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The same where each reader needs a key."""
    with opened_counter(tmp_path_factory.mktemp("guarded"), auth="required") as opened:
        yield opened


@pytest.fixture(scope="module")
def open_page(browser: Browser, counter: Counter) -> Iterator[OpenPage]:
    page = OpenPage(browser, counter.url)
    yield page
    page.close()


@pytest.fixture
def visitor(open_page: OpenPage, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    with open_page.visitor(request.session) as visitor:
        yield visitor
        refused = re.compile("status of (409|422)")  # which browsers report
        assert [complaint for complaint in visitor.complaints if not refused.search(complaint)] == []
        assert visitor.foreign == []


def looks_at(visitor: Visitor, thread_id: str) -> Locator:
    """Open the thread and return the card of its question."""
    visitor.opens(f"#/thread/{thread_id}")
    card = visitor.page.locator(".ask")
    expect(card.first).to_be_visible(timeout=PATIENCE_MS)
    return card


def button(card: Locator, name: str) -> Locator:
    return card.get_by_role("button", name=name, exact=True)


def status_of(counter: Counter, run_id: str) -> str:
    return counter.runner.handle(run_id).status()


# --- what is shown --------------------------------------------------------------------------------


def test_a_question_shows_the_exact_call_why_it_is_asked_and_until_when(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting(question("send_mail", LONG))

    card = looks_at(visitor, thread_id)

    expect(card).to_contain_text("send_mail")
    expect(card).to_contain_text("Did this call take effect?")
    expect(card).to_contain_text(WHY)
    expect(card.locator("dl.args")).to_contain_text(LONG["body"])
    expect(card.locator("dl.args")).to_contain_text('"a": 2')
    expect(card).to_contain_text(re.compile(r"Without an answer by \w+, \w+ \d+.* the run fails"))
    expect(card.locator(".choices button")).to_have_text(["Pass on", "Fail the run", "Take as done", "Run again"])
    expect(card.locator(".choices")).to_contain_text("If it took effect before, it takes effect twice.")


def test_that_it_waits_is_said_in_words_everywhere(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    looks_at(visitor, thread_id)
    page = visitor.page

    expect(page.locator(".head .state")).to_have_text("waiting for an answer")
    expect(page.locator(".thread[aria-current]")).to_contain_text("waiting for an answer")
    expect(page.locator(f"a.run[data-run={run_id}] .why")).to_contain_text("a person has to say how to continue")
    expect(page.locator(".ask .badge")).to_have_text("unsafe · needs an answer")
    expect(page).to_have_title(re.compile("^◐ "))


def test_a_question_is_spoken_when_it_comes_and_when_it_is_answered(visitor: Visitor, counter: Counter) -> None:
    open_question = question()
    run_id, thread_id = counter.waiting(open_question)
    looks_at(visitor, thread_id)
    spoken = visitor.page.locator("main > [role=status]")
    expect(spoken).to_contain_text("Support needs an answer about refund_order")

    counter.journal.clients.decide(ME, run_id, open_question.id, Decision(decision="fail"), by="ann")

    expect(spoken).to_have_text("refund_order: Fail the run, decided by ann")


# --- answering ------------------------------------------------------------------------------------


def test_run_again_continues_with_the_run(visitor: Visitor, counter: Counter) -> None:
    open_question = question()
    run_id, thread_id = counter.waiting(open_question)
    card = looks_at(visitor, thread_id)

    button(card, "Run again").click()

    expect(card).to_contain_text("Run again — decided by you.")
    expect(card).to_have_attribute("aria-label", "refund_order: answered")
    expect(card.locator(".choices")).to_have_count(0)
    assert answer_of(counter.journal.database, run_id) == Decision(decision="run_again")
    done = ToolResultPayload(
        call_id=open_question.call_id,
        name=open_question.name,
        outcome="done",
        result={"refund": 7},
        step_id=open_question.step_id,
    )
    counter.resume(run_id, done)
    visitor.waits_for_end()
    expect(visitor.page.locator(".tool:not(.ask)")).to_contain_text("refund")
    expect(visitor.answer.last).to_have_text("It is paid back.")


@pytest.mark.parametrize(
    ("typed", "kind", "result"),
    [
        ('{"refund": 7}', "Read as JSON", {"refund": 7}),
        ("done by hand", "Read as text", "done by hand"),
        ('{"refund": 7', "Not whole JSON: read as text", '{"refund": 7'),
        ("", "", None),
    ],
)
def test_taken_as_done_takes_a_result(
    visitor: Visitor, counter: Counter, typed: str, kind: str, result: object
) -> None:
    run_id, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)

    button(card, "Take as done").click()
    field = card.get_by_label("What did the call return?")
    expect(field).to_be_focused()
    field.fill(typed)
    expect(card.locator("form [role=status]")).to_have_text(kind)
    button(card, "Take as done").click()

    expect(card).to_contain_text("Take as done — decided by you.")
    assert answer_of(counter.journal.database, run_id) == Decision(decision="take_as_done", result=result)


# --- before a call --------------------------------------------------------------------------------


def test_a_call_is_approved_as_it_is_shown(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_before())
    card = looks_at(visitor, thread_id)

    expect(card).to_contain_text("May this call be made?")
    expect(card.locator(".choices button")).to_have_text(["Pass on", "Reject", "Edit", "Approve"])
    expect(card.locator(".badge")).to_have_text("unsafe · needs an answer")
    expect(visitor.page.locator(".tool:not(.ask)")).to_be_hidden()
    button(card, "Approve").click()

    expect(card).to_contain_text("Approve — decided by you.")
    assert answer_of(counter.journal.database, run_id) == Decision(decision="approve")


def test_a_call_is_approved_with_other_arguments_that_fit(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_before(arguments={"order": 1042}))
    card = looks_at(visitor, thread_id)
    button(card, "Edit").click()

    card.get_by_label("order").fill("0")
    button(card, "Approve with these").click()
    expect(card).to_contain_text("The least is 1.")
    card.get_by_label("order").fill("7")
    button(card, "Approve with these").click()

    expect(card).to_contain_text("Approve with other arguments — decided by you.")
    expect(visitor.page.locator(".tool:not(.ask)")).to_contain_text("(7)")
    expect(visitor.page.locator(".tool:not(.ask) .badge")).to_contain_text("edited")
    card.locator("summary").click()
    expect(card.locator("details dl.args")).to_contain_text(str(REFUND["order"]))
    assert answer_of(counter.journal.database, run_id) == Decision(decision="approve", arguments={"order": 7})


REFUNDS = {
    "type": "object",
    "description": "Pay an order back.\n\nThe money leaves at once.",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "amount": {"type": "string"},
        "to": {"type": "string"},
        "speed": {"enum": ["slow", "fast"], "default": "slow"},
    },
}


def question_with_defaults() -> Any:
    return replace(question_before(), schema=REFUNDS)


def test_what_decides_is_shown(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting(question_with_defaults())
    card = looks_at(visitor, thread_id)

    expect(card.locator(".ask-about")).to_have_text(["Pay an order back.", "The money leaves at once."])
    expect(card.locator(".ask-effect")).to_have_text("Made twice, it takes effect twice.")
    expect(card.locator(".args dt")).to_have_text(["order", "amount", "to", "speed"])
    expect(card.locator(".args dd").last).to_have_text("slow default")
    tops = card.locator(".choices button").evaluate_all("found => found.map((one) => one.offsetTop)")
    assert len(tops) == 4
    assert len(set(tops)) == 1


def test_a_tool_with_a_title_asks_in_its_authors_words_and_the_question_has_an_address(
    visitor: Visitor, counter: Counter
) -> None:
    about = {"sentence": "Pay back 88 EUR for order\u202e 1042"}
    _, thread_id = counter.waiting(question_before(about=about), question(about=about))
    cards = looks_at(visitor, thread_id)

    expect(cards.nth(0).locator(".ask-title")).to_have_text("Pay back 88 EUR for order⟨U+202E⟩ 1042?")
    expect(cards.nth(1).locator(".ask-title")).to_have_text(
        "Did this take effect: Pay back 88 EUR for order⟨U+202E⟩ 1042?"
    )
    cards.nth(1).get_by_role("link", name="In the approvals").click()
    chosen = visitor.page.get_by_role("region", name="The chosen question")
    expect(chosen.get_by_role("button", name="Run again")).to_be_visible(timeout=PATIENCE_MS)


def test_editing_changes_the_fields_that_were_changed_alone(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_with_defaults())
    card = looks_at(visitor, thread_id)
    button(card, "Edit").click()

    expect(card.get_by_label("amount")).to_have_value("88.00 EUR")
    expect(card.get_by_label("speed").locator("option").first).to_have_text("default: slow")
    card.get_by_label("amount").fill("80.00 EUR")
    expect(card.locator(".form-old:visible s")).to_have_text("88.00 EUR")
    card.get_by_label("order").fill("1043")
    card.locator(".form-old:visible", has_text="1042").get_by_role("button", name="Undo").click()
    expect(card.get_by_label("order")).to_have_value("1042")
    expect(card.locator(".form-old:visible s")).to_have_text(["88.00 EUR"])
    card.get_by_label("to").fill("")
    button(card, "Approve with these").click()

    expect(card).to_contain_text("Approve with other arguments — decided by you.")
    arguments = {"order": REFUND["order"], "amount": "80.00 EUR"}
    assert answer_of(counter.journal.database, run_id) == Decision(decision="approve", arguments=arguments)


def test_an_edit_that_changes_nothing_approves_the_call_as_it_is(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_with_defaults())
    card = looks_at(visitor, thread_id)
    button(card, "Edit").click()

    button(card, "Approve with these").click()

    expect(card).to_contain_text("Approve — decided by you.")
    assert answer_of(counter.journal.database, run_id) == Decision(decision="approve")


def test_a_call_is_rejected_with_a_reason(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_before())
    card = looks_at(visitor, thread_id)
    button(card, "Reject").click()

    card.locator("textarea").fill("12 are enough")
    button(card, "Reject").click()

    expect(card).to_contain_text("Reject — decided by you.")
    expect(card).to_contain_text("12 are enough")
    assert answer_of(counter.journal.database, run_id) == Decision(decision="reject", message="12 are enough")


def test_a_call_that_two_have_to_approve_waits_for_the_second(browser: Browser, guarded: Counter) -> None:
    run_id, _ = guarded.waiting(question_before(approvers=2))
    context, other = (browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(2))

    for browser_context, name in ((context, "ann"), (other, "ben")):
        visitor = Visitor(browser_context, guarded.url).opens(f"#token={guarded.key(name, Role.APPROVER)}")
        visitor.page.locator(f"a.run[data-run={run_id}]").click()
        card = visitor.page.locator(".ask")
        expect(card.locator(".choices button")).to_have_text(["Pass on", "Reject", "Approve"], timeout=PATIENCE_MS)
        if name == "ann":
            expect(card).to_contain_text("2 persons have to approve it. The owner of the run is none of them.")
        else:
            expect(card).to_contain_text("1 of 2 have approved it: ann.")
        button(card, "Approve").click()
        if name == "ann":
            expect(card).to_contain_text("1 of 2 have approved it: ann.")
            expect(card.locator(".choices button")).to_have_text(["Pass on", "Reject", "Approve"])

    expect(card).to_contain_text("Approve — decided by ben.")
    for each in (context, other):
        each.close()
    assert answer_of(guarded.journal.database, run_id) == Decision(decision="approve")


def test_keys_lead_to_approve_edit_and_reject(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_before())
    card = looks_at(visitor, thread_id)

    for key, named in (("r", "Why?"), ("e", "order")):
        visitor.page.keyboard.press(key)
        expect(card.get_by_label(named)).to_be_focused()
        visitor.page.keyboard.press("Escape")
    visitor.page.keyboard.press("a")
    expect(button(card, "Approve")).to_be_focused()
    assert status_of(counter, run_id) == "waiting"
    visitor.page.keyboard.press("Enter")

    expect(card).to_contain_text("Approve — decided by you.")
    assert answer_of(counter.journal.database, run_id) == Decision(decision="approve")


def test_back_leads_back_and_decides_nothing(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)

    button(card, "Take as done").click()
    visitor.presses("Escape")

    expect(button(card, "Take as done")).to_be_focused()
    expect(card.locator(".choices button")).to_have_count(4)
    assert status_of(counter, run_id) == "waiting"


def test_while_an_answer_is_sent_nothing_else_can_be_pressed(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)
    held: list[Route] = []
    visitor.page.route("**/approvals/*", lambda route: held.append(route))

    button(card, "Fail the run").click()
    for name in ("Run again", "Take as done", "Fail the run"):
        expect(button(card, name)).to_be_disabled()
    expect(card).to_have_attribute("aria-busy", "true")
    held[0].continue_()

    expect(card).to_contain_text("Fail the run — decided by you.")
    expect(card).to_have_attribute("aria-busy", "false")


def test_an_answer_that_could_not_be_sent_can_be_given_again(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)
    keys: list[str] = []

    def lose_the_first(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        route.abort() if len(keys) == 1 else route.continue_()

    visitor.page.route("**/approvals/*", lose_the_first)
    button(card, "Run again").click()
    expect(card.get_by_role("alert")).to_contain_text("The server does not answer")
    expect(button(card, "Run again")).to_be_focused()
    button(card, "Run again").click()

    expect(card).to_contain_text("Run again — decided by you.")
    assert keys[0] == keys[1]
    assert answer_of(counter.journal.database, run_id).decision == "run_again"
    visitor.complaints.clear()  # what was cut off on purpose


def test_a_view_of_questions_that_could_not_be_loaded_is_loaded_again(browser: Browser, counter: Counter) -> None:
    _, thread_id = counter.waiting()
    context = browser.new_context(viewport=WIDE)
    visitor = Visitor(context, counter.url)
    visitor.page.route("**/late.js*", lambda route: route.abort(), times=1)
    visitor.opens()

    card = looks_at(visitor, thread_id)

    expect(button(card, "Run again")).to_be_visible(timeout=PATIENCE_MS)
    context.close()


# --- others ---------------------------------------------------------------------------------------


def test_an_answer_from_elsewhere_arrives_by_itself(visitor: Visitor, counter: Counter) -> None:
    open_question = question()
    run_id, thread_id = counter.waiting(open_question)
    card = looks_at(visitor, thread_id)
    answer = Decision(decision="take_as_done", message="the bank says so")

    counter.journal.clients.decide(ME, run_id, open_question.id, answer, by="terminal")

    expect(card).to_contain_text("Take as done — decided at a terminal.")
    expect(card).to_contain_text("“the bank says so”")
    expect(card.locator("button")).to_have_count(0)
    card.locator("summary").click()
    expect(card).to_contain_text(WHY)


def test_two_browsers_see_one_answer(visitor: Visitor, browser: Browser, counter: Counter) -> None:
    _, thread_id = counter.waiting()
    context = browser.new_context()
    other = looks_at(Visitor(context, counter.url), thread_id)
    card = looks_at(visitor, thread_id)

    button(other, "Fail the run").click()

    expect(card).to_contain_text("Fail the run — decided by local.")
    context.close()


def test_a_conversation_that_is_left_before_its_new_run_was_read_is_left_without_an_error(
    visitor: Visitor, counter: Counter
) -> None:
    _, thread_id = counter.waiting()
    looks_at(visitor, thread_id)

    handle = counter.runner.run("One more.", "support", thread_id=thread_id)
    expect(visitor.page.locator(f"a.run[data-run={handle.run_id}]")).to_be_visible()
    visitor.opens("#/")

    visitor.page.evaluate("() => new Promise((done) => setTimeout(done, 500))")  # it reads a new run after 300 ms


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER])
def test_only_a_reader_who_may_decide_is_offered_the_answers(browser: Browser, guarded: Counter, role: Role) -> None:
    run_id, _ = guarded.waiting()
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visitor = Visitor(context, guarded.url).opens(f"#token={guarded.key('vic', role)}")
    visitor.page.locator(f"a.run[data-run={run_id}]").click()
    card = visitor.page.locator(".ask")
    expect(card).to_contain_text("Did this call take effect?", timeout=PATIENCE_MS)

    if role is Role.APPROVER:
        expect(card.locator(".choices button")).to_have_count(4)
    else:
        expect(card.get_by_role("button")).to_have_count(0)
        expect(card).to_contain_text("Its owner, local, may, and so may everyone with the role approver or admin.")
        visitor.presses("r")
        expect(card).to_be_focused()
        assert status_of(guarded, run_id) == "waiting"
    context.close()
    assert visitor.complaints == []


@pytest.mark.parametrize("width", [320, 1440])
def test_the_account_of_many_roles_can_be_read_and_the_calls_are_linked(
    browser: Browser, guarded: Counter, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    visitor = Visitor(context, guarded.url).opens(f"#token={guarded.key('ann', *Role)}")
    page = visitor.page
    if width == 320:
        page.get_by_role("button", name="Menu").click()
    facts = page.locator(".account-facts")

    expect(facts).to_have_text("admin · approver · operator · viewer · with an API key")
    assert facts.evaluate("found => found.scrollWidth <= found.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for scheme in in_each_scheme(page):
        assert page.evaluate(FAINT_TEXTS) == [], scheme
    page.get_by_role("link", name="HTTP calls").click()
    expect(page.locator("article.call").first).to_be_visible(timeout=PATIENCE_MS)
    context.close()
    assert visitor.complaints == []


def test_a_second_press_shows_the_answer_that_won(visitor: Visitor, counter: Counter) -> None:
    open_question = question()
    run_id, thread_id = counter.waiting(open_question)
    card = looks_at(visitor, thread_id)

    def be_quicker(route: Route) -> None:
        counter.journal.clients.decide(ME, run_id, open_question.id, Decision(decision="take_as_done"), by="ann")
        route.continue_()

    visitor.page.route("**/approvals/*", be_quicker)
    button(card, "Run again").click()

    expect(card).to_contain_text("Take as done — decided by ann.")
    expect(card.locator(".choices")).to_have_count(0)
    assert answer_of(counter.journal.database, run_id).decision == "take_as_done"


def test_of_two_questions_each_has_its_card(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question(), question("close_ticket", {"ticket": "T-881"}))
    cards = looks_at(visitor, thread_id)
    expect(cards).to_have_count(2)

    button(cards.nth(1), "Run again").click()

    expect(cards.nth(1)).to_contain_text("decided by you")
    expect(cards.nth(0).locator(".choices button")).to_have_count(4)
    expect(visitor.page.locator(".head .state")).to_have_text("waiting for an answer")
    assert status_of(counter, run_id) == "waiting"


def test_a_run_that_is_stopped_asks_no_more(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)

    visitor.stop.click()

    expect(card).to_contain_text("The run ended before it was answered.")
    expect(card.locator("button")).to_have_count(0)
    expect(visitor.turns.last.locator(".end")).to_contain_text("cancelled")


def test_after_a_reload_question_and_answer_stand_as_they_were(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)
    visitor.page.reload()
    button(card, "Run again").click()
    expect(card).to_contain_text("decided by you")

    visitor.page.reload()

    expect(card).to_contain_text("Run again — decided")
    expect(card.locator("button")).to_have_count(0)


# --- looks and keys -------------------------------------------------------------------------------


def test_a_question_is_answered_by_keyboard_alone(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)

    visitor.presses("a")
    expect(button(card, "Take as done")).to_be_focused()
    visitor.presses("Enter")
    expect(card.get_by_label("What did the call return?")).to_be_focused()
    visitor.page.keyboard.type("by hand")
    visitor.presses("Tab", "Enter")

    expect(card).to_contain_text("Take as done — decided by you.")
    expect(card).to_be_focused()
    assert answer_of(counter.journal.database, run_id).result == "by hand"


@pytest.mark.parametrize(("key", "name"), [("a", "Take as done"), ("e", ""), ("r", "Fail the run")])
def test_no_key_leads_to_a_call_made_again(visitor: Visitor, counter: Counter, key: str, name: str) -> None:
    run_id, thread_id = counter.waiting()
    card = looks_at(visitor, thread_id)

    visitor.presses(key, key)

    expect(button(card, name) if name else card).to_be_focused()
    assert status_of(counter, run_id) == "waiting"


@pytest.mark.parametrize("width", [390, 760, 1440])
def test_a_question_fits_and_can_be_read(browser: Browser, counter: Counter, width: int) -> None:
    _, thread_id = counter.waiting(question("send_mail", LONG), question())
    context = browser.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    visitor = Visitor(context, counter.url)
    card = looks_at(visitor, thread_id)
    button(card.nth(1), "Fail the run").click()
    expect(card.nth(1)).to_contain_text("decided by you")
    button(card.nth(0), "Take as done").click()
    card.nth(0).get_by_label("What did the call return?").fill("x" * 300)

    for scheme in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert visitor.page.evaluate(OVERFLOW) <= 0, scheme
        assert visitor.page.evaluate(FAINT_TEXTS) == [], scheme
    context.close()


# --- several calls at once ------------------------------------------------------------------------


def three_calls(counter: Counter, **fields: Any) -> tuple[str, str]:
    """Return a run that asks about three calls before they are made, and its thread."""
    return counter.waiting(*(question_before(arguments={"order": order}, **fields) for order in (7, 8, 9)))


def said_of(counter: Counter, run_id: str) -> list[str]:
    """Return the decisions that the run has not used yet."""
    with counter.journal.database.read() as connection:
        answers = approvals.answers(connection, run_id).values()
    return [answer.decision.decision for answer in answers if answer.decision]


@pytest.mark.parametrize(("name", "decision"), [("Approve all 3", "approve"), ("Reject all", "reject")])
def test_calls_that_wait_are_decided_about_together_by_the_digests_shown(
    visitor: Visitor, counter: Counter, name: str, decision: str
) -> None:
    run_id, thread_id = three_calls(counter)
    card = looks_at(visitor, thread_id)
    line = visitor.page.get_by_role("group", name="3 calls wait")
    expect(line).to_contain_text("3 calls wait")
    digests = [approval["digest"] for approval in counter.runner.handle(run_id).approvals()]

    button(line, name).focus()
    with visitor.page.expect_request("**/v1/approvals") as sent:
        visitor.presses("Enter")

    for number in range(3):
        expect(card.nth(number)).to_contain_text(f"{decision.title()} — decided by you.")
    expect(visitor.page.locator(".batch")).to_be_hidden()
    expect(card.first).to_be_focused()
    assert [answer["digest"] for answer in orjson.loads(sent.value.post_data or "")["answers"]] == digests
    assert said_of(counter, run_id) == [decision] * 3


def test_a_card_with_an_answer_under_way_is_left_out_of_the_line(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = three_calls(counter, scopes=("thread",), scope_s=1800)
    card = looks_at(visitor, thread_id)
    line = visitor.page.locator(".batch")

    button(card.nth(1), "Edit").click()
    expect(line).to_have_attribute("aria-label", "2 calls wait")
    expect(card.nth(1).get_by_label("order")).to_be_focused()
    card.nth(0).get_by_label("holds for").select_option("thread")
    expect(line).to_be_hidden()
    card.nth(0).get_by_label("holds for").select_option("")
    button(line, "Approve all 2").click()

    expect(card.nth(2)).to_contain_text("decided by you")
    expect(card.nth(0)).to_contain_text("decided by you")
    expect(card.nth(1).get_by_label("order")).to_be_visible()
    assert said_of(counter, run_id) == ["approve", "approve"]
    assert status_of(counter, run_id) == "waiting"


def test_the_line_is_for_two_or_more_calls_that_one_person_may_approve(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting(question(), question_before(), question_before(approvers=2), question_form())

    expect(looks_at(visitor, thread_id)).to_have_count(4)

    expect(visitor.page.locator(".batch")).to_be_hidden()


def test_what_changes_under_the_line_moves_the_focus_off_its_buttons(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = three_calls(counter)
    card = looks_at(visitor, thread_id)
    line = visitor.page.locator(".batch")
    button(line, "Approve all 3").focus()

    first = counter.runner.handle(run_id).approvals()[0]["approval_id"]
    counter.journal.clients.decide(ME, run_id, first, Decision(decision="reject"), by="ann")

    expect(card.first).to_contain_text("decided by ann")
    expect(button(line, "Approve all 2")).to_be_visible()
    expect(line).to_be_focused()
    assert line.evaluate("line => line.nextElementSibling === document.querySelectorAll('.ask')[1]")


def test_each_call_of_the_line_is_refused_for_itself_and_a_lost_request_is_said(
    visitor: Visitor, counter: Counter
) -> None:
    run_id, thread_id = three_calls(counter)
    card = looks_at(visitor, thread_id)
    line = visitor.page.locator(".batch")
    calls = counter.runner.handle(run_id).approvals()
    tries: list[Route] = []

    def another_first(route: Route) -> None:
        tries.append(route)
        if len(tries) == 1:
            return route.abort()
        answers = orjson.loads(route.request.post_data or "")["answers"]
        answers[1]["digest"] = "f" * 64
        counter.journal.clients.decide(ME, run_id, calls[0]["approval_id"], Decision(decision="reject"), by="ann")
        return route.continue_(post_data={"answers": answers})

    visitor.page.route("**/v1/approvals", another_first)
    button(line, "Approve all 3").click()
    expect(line.get_by_role("alert")).to_contain_text("The server does not answer")
    button(line, "Approve all 3").click()

    expect(card.nth(0)).to_contain_text("Reject — decided by ann.")
    expect(card.nth(1).get_by_role("alert")).to_contain_text("arguments_differ")
    expect(card.nth(2)).to_contain_text("Approve — decided by you.")
    expect(line).to_be_hidden()
    visitor.complaints.clear()  # what was cut off on purpose


def test_a_reader_who_may_not_decide_is_not_offered_the_line(browser: Browser, guarded: Counter) -> None:
    run_id, _ = three_calls(guarded)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visitor = Visitor(context, guarded.url).opens(f"#token={guarded.key('vera', Role.VIEWER)}")
    visitor.page.locator(f"a.run[data-run={run_id}]").click()

    expect(visitor.page.locator(".ask")).to_have_count(3, timeout=PATIENCE_MS)

    expect(visitor.page.locator(".batch")).to_be_hidden()
    context.close()


@pytest.mark.parametrize("width", [320, 1440])
def test_the_line_fits_and_can_be_read(browser: Browser, counter: Counter, width: int, tmp_path: Path) -> None:
    _, thread_id = three_calls(counter)
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, counter.url)
    looks_at(visitor, thread_id)
    line = visitor.page.locator(".batch")
    expect(line).to_be_visible()
    line.evaluate("line => line.scrollIntoView({ block: 'start' })")

    for scheme in in_each_scheme(visitor.page):
        folder = Path(os.environ.get("TEST_PICTURES", tmp_path))
        visitor.page.screenshot(path=folder / f"batch-{width}-{scheme}.png")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert visitor.page.evaluate(OVERFLOW) <= 0, scheme
        assert visitor.page.evaluate(FAINT_TEXTS) == [], scheme
    context.close()


# --- questions with a form ------------------------------------------------------------------------


def test_a_long_question_keeps_its_lines_below_its_title(visitor: Visitor, counter: Counter) -> None:
    reason = "The server has changed count.\n\ndescription, before:\nCounts.\ndescription, now:\nCounts, and tells."
    _, thread_id = counter.waiting(question_form(reason=reason))
    card = looks_at(visitor, thread_id)

    expect(card.locator(".ask-title")).to_have_text("The server has changed count.")
    assert card.locator(".ask-title + p").inner_text().split("\n") == reason.split("\n")[2:]


def test_a_form_is_filled_in_and_what_is_wrong_is_said_beside_the_field(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_form())
    card = looks_at(visitor, thread_id)

    expect(card.locator(".ask-title")).to_have_text("Where should the parcel go?")
    button(card, "Send answer").click()
    street = card.get_by_label("Street and number")
    expect(street).to_be_focused()
    expect(street).to_have_attribute("aria-invalid", "true")
    expect(card).to_contain_text("2 fields need another look.")
    street.fill("Main St 7")
    card.get_by_label("floor").fill("99")
    card.get_by_label("A gift?").select_option("Yes")
    expect(card.get_by_label("speed")).to_have_value("0")
    card.get_by_label("card").check()
    button(card, "Send answer").click()
    expect(card).to_contain_text("The most is 80.")
    card.get_by_label("floor").fill("7")
    button(card, "Send answer").click()

    expect(card).to_contain_text("Answer — decided by you.")
    expect(card.locator("dl.args").first).to_contain_text("Main St 7")
    assert filled_in(counter.journal.database, run_id) == {
        "street": "Main St 7",
        "floor": 7,
        "speed": "slow",
        "is_gift": True,
        "extras": ["card"],
    }


def test_missing_arguments_are_filled_in_beside_those_of_the_call(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_missing())
    card = looks_at(visitor, thread_id)

    expect(card.locator("dl.args")).to_contain_text("order")
    card.get_by_label("amount").fill("2.5")
    card.get_by_label("amount").press("Enter")

    expect(card).to_contain_text("Answer — decided by you.")
    assert filled_in(counter.journal.database, run_id) == {"order": 7, "amount": 2.5}


def test_a_question_with_a_form_is_declined_with_a_reason(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_form())
    card = looks_at(visitor, thread_id)

    button(card, "Decline").click()
    card.get_by_label("Why?").fill("Ask Ben.")
    button(card, "Reject").click()

    expect(card).to_contain_text("Reject — decided by you.")
    assert answer_of(counter.journal.database, run_id).message == "Ask Ben."


def test_hidden_characters_of_a_form_are_written_out(visitor: Visitor, counter: Counter) -> None:
    form = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "title": "Na\u202eme", "description": "x\u200by"},
            "b": {"enum": ["r\u2066d"]},
        },
    }
    _, thread_id = counter.waiting(question_form(form, reason="Who\u202e?"))

    card = looks_at(visitor, thread_id)

    for text in ("Who⟨U+202E⟩?", "Na⟨U+202E⟩me", "x⟨U+200B⟩y", "r⟨U+2066⟩d"):
        expect(card).to_contain_text(text)


@pytest.mark.parametrize("width", [1440, 390])
def test_a_form_fits_and_can_be_read(browser: Browser, counter: Counter, width: int, tmp_path: Path) -> None:
    _, thread_id = counter.waiting(question_form())
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, counter.url)
    card = looks_at(visitor, thread_id)
    button(card, "Send answer").click()

    for scheme in in_each_scheme(visitor.page):
        folder = Path(os.environ.get("TEST_PICTURES", tmp_path))
        visitor.page.screenshot(path=folder / f"form-{width}-{scheme}.png")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert visitor.page.evaluate(OVERFLOW) <= 0, scheme
        assert visitor.page.evaluate(FAINT_TEXTS) == [], scheme
    context.close()


# --- approvals that hold for later calls ----------------------------------------------------------


def test_an_approval_may_hold_for_later_calls_where_that_is_offered(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_before(scopes=("thread",), scope_s=1800))
    card = looks_at(visitor, thread_id)
    chosen = card.get_by_label("holds for")
    expect(chosen.locator("option")).to_have_text(["this call only", "its calls in this conversation, for 30 min"])

    chosen.select_option("thread")
    button(card, "Approve").click()

    expect(card).to_contain_text("It holds for later calls in this conversation until")
    (sticky,) = counter.journal.stores.sticky_approvals.page(ME)
    assert (sticky["scope"], sticky["approved_by"], sticky["is_valid"]) == ("thread", "local", True)
    assert status_of(counter, run_id) == "queued"


def test_without_an_offer_an_approval_is_for_this_call(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting(question_before())

    card = looks_at(visitor, thread_id)

    expect(card.get_by_label("holds for")).to_have_count(0)


# --- links ----------------------------------------------------------------------------------------


def link_to(counter: Counter, run_id: str, approval_id: str, for_whom: str = "local") -> str:
    link = counter.journal.stores.approval_links.make(ME, run_id, approval_id, for_whom=for_whom)
    return f"#/approval/{link['token']}"


@pytest.mark.parametrize("width", [1440, 390])
def test_a_link_opens_its_question_and_takes_one_answer(
    browser: Browser, counter: Counter, width: int, tmp_path: Path
) -> None:
    open_question = question_before()
    run_id, _ = counter.waiting(open_question)
    address = link_to(counter, run_id, open_question.id)
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, counter.url)
    visitor.opens(address)
    view = visitor.page.locator(".link-view")
    expect(view.get_by_role("heading", name="A question for you")).to_be_visible(timeout=PATIENCE_MS)
    expect(view.locator("dl.args")).to_contain_text("88.00 EUR")
    for scheme in in_each_scheme(visitor.page):
        visitor.page.screenshot(path=Path(os.environ.get("TEST_PICTURES", tmp_path)) / f"link-{width}-{scheme}.png")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert visitor.page.evaluate(FAINT_TEXTS) == [], scheme

    button(view, "Approve").click()
    expect(view).to_contain_text("Approve — decided by you.")
    visitor.page.reload()

    expect(view.get_by_role("heading", name="This link is over")).to_be_visible(timeout=PATIENCE_MS)
    expect(view).to_contain_text("link_over")
    assert answer_of(counter.journal.database, run_id).decision == "approve"
    context.close()


def test_a_link_of_another_person_shows_nothing_of_the_question(visitor: Visitor, counter: Counter) -> None:
    open_question = question_before()
    run_id, _ = counter.waiting(open_question)
    visitor.opens(link_to(counter, run_id, open_question.id, "ana"))
    view = visitor.page.locator(".link-view")

    expect(view.get_by_role("heading", name="This link is another person's")).to_be_visible(timeout=PATIENCE_MS)
    expect(view).not_to_contain_text("88.00")
    view.get_by_role("link", name="To the page").click()
    expect(view).to_be_hidden()
    visitor.complaints.clear()  # the browser reports the 403
