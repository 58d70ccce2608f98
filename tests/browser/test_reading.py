"""What a reader meets: a link into a long conversation, a tall form, a stop of their own, forced colours, a tablet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import update

from bus.journal.ownership.reaper import reap
from bus.payloads import encode
from config.database.tables import runs
from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.bus.crowd import Crowd
from tests.bus.journal_harness import claim
from tests.bus.questions import question_form

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

TALL: dict[str, Any] = {
    "type": "object",
    "properties": {f"field_{number}": {"type": "string", "title": f"Field {number}"} for number in range(20)},
}
# Marks by their ground, as the page paints them: small elements and pseudo-elements with a background of their own.
MARKS = """() => {
  const marks = [];
  for (const element of document.querySelectorAll("#app *")) {
    for (const pseudo of ["", "::before", "::after"]) {
      const style = getComputedStyle(element, pseudo || undefined);
      if (pseudo && style.content === "none") continue;
      const [width, height] = [parseFloat(style.width), parseFloat(style.height)];
      const isShown = element.checkVisibility() && width > 0 && width <= 12 && height > 0 && height <= 20;
      if (!isShown || element.closest("svg")) continue;
      const isPainted = style.backgroundColor !== "rgba(0, 0, 0, 0)" || parseFloat(style.borderTopWidth) > 0;
      if (isPainted) marks.push([element, pseudo]);
    }
  }
  window.marks ??= marks;
  return window.marks.map(([element, pseudo]) => element.className + pseudo);
}"""
LOST_MARKS = """() => {
  const canvas = getComputedStyle(document.body).backgroundColor;
  return window.marks.filter(([element, pseudo]) => {
    const style = getComputedStyle(element, pseudo || undefined);
    const isFilled = ![canvas, "rgba(0, 0, 0, 0)"].includes(style.backgroundColor);
    return !isFilled && !(parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== "none");
  }).map(([element, pseudo]) => element.className + pseudo);
}"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    with opened_counter(tmp_path_factory.mktemp("reading")) as opened:
        yield opened


@pytest.fixture
def visitor(browser: Browser, counter: Counter) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, counter.url)
    yield visitor
    context.close()
    assert visitor.complaints == []


def test_a_link_to_an_older_run_shows_and_marks_it(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    crowd = Crowd(counter.journal.database, run_id)
    crowd.add("linked", 90, 0, status="succeeded", reason=None, turn=2)

    visitor.opens(f"#/thread/{thread_id}/run/linked-80")

    turn = visitor.page.locator("[data-run=linked-80]")
    expect(turn).to_be_in_viewport(timeout=PATIENCE_MS)
    expect(turn).to_have_attribute("aria-current", "true")
    expect(visitor.page.locator(".run-turn[aria-current]")).to_have_count(1)


def test_a_link_to_a_run_that_was_removed_says_so(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting()

    visitor.opens(f"#/thread/{thread_id}/run/run_gone")

    expect(visitor.page.get_by_text("There is no run 'run_gone' in this conversation.")).to_be_visible()


def test_a_form_that_is_higher_than_the_screen_opens_at_its_question(visitor: Visitor, counter: Counter) -> None:
    _, thread_id = counter.waiting(question_form(TALL))

    visitor.opens(f"#/thread/{thread_id}")

    expect(visitor.page.locator(".ask-title")).to_be_in_viewport(timeout=PATIENCE_MS)
    visitor.page.get_by_label("Field 19").scroll_into_view_if_needed()
    visitor.page.get_by_label("Field 19").fill("x")
    expect(visitor.page.get_by_label("Field 19")).to_be_in_viewport()


def test_a_stop_by_the_reader_is_no_failure(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting()
    visitor.opens(f"#/thread/{thread_id}")
    expect(visitor.page.locator(".ask")).to_be_visible(timeout=PATIENCE_MS)

    visitor.stop.click()
    visitor.waits_for_end()

    assert counter.runner.handle(run_id).status() == "cancelled"
    expect(visitor.page.locator(".end")).to_contain_text("cancelled")
    expect(visitor.page.locator(".notice, .error-item, .i-failed, .is-bad")).to_have_count(0)
    visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")
    visitor.page.reload()
    visitor.waits_for_end()
    expect(visitor.page.locator(".notice, .error-item, .i-failed, .is-bad")).to_have_count(0)


def test_a_call_that_the_readers_stop_cuts_off_is_no_failure(visitor: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.calling("look_up")
    visitor.opens(f"#/thread/{thread_id}")
    card = visitor.page.locator(".tool")
    expect(card.locator(".badge")).to_contain_text("pure · running", timeout=PATIENCE_MS)

    visitor.stop.click()
    visitor.waits_for_end()

    assert counter.runner.handle(run_id).status() == "cancelled"
    for is_read_again in (False, True):
        if is_read_again:  # from the history alone
            visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")
            visitor.page.reload()
            visitor.waits_for_end()
        expect(card.locator(".badge")).to_contain_text("stopped")
        expect(card).to_have_class(re.compile(r"is-faint is-stopped"))
        expect(visitor.page.locator(".i-failed, .is-bad")).to_have_count(0)


def test_a_lost_worker_is_the_same_state_everywhere(visitor: Visitor, counter: Counter) -> None:
    handle, journal = counter.runner.run("Hello", "support"), counter.journal
    lease = claim(journal.database, handle.run_id, "own_lost", 60.0)
    assert lease is not None
    for payload in lease.first_events:
        journal.live.hot_log.append(handle.run_id, payload.seq, encode(payload, handle.run_id, handle.thread_id))
    visitor.opens(f"#/thread/{handle.thread_id}")
    state = visitor.page.locator(".head .state")
    expect(state).to_have_text("running", timeout=PATIENCE_MS)

    with journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == handle.run_id).values(lease_until=0))
    written = reap(journal.database, handle.run_id)
    assert written is not None
    journal.live.publish(written)

    expect(visitor.page.locator("a.run.is-here .why")).to_have_text("its worker was lost", timeout=PATIENCE_MS)
    expect(state).to_have_text("queued")
    expect(visitor.turns.last.locator(".foot")).to_contain_text(re.compile("Queued"))


def test_no_mark_vanishes_in_forced_colours(visitor: Visitor, counter: Counter) -> None:
    counter.runner.run("Hello", "support")
    _, thread_id = counter.waiting()
    visitor.opens(f"#/thread/{thread_id}")
    expect(visitor.page.locator(".ask")).to_be_visible(timeout=PATIENCE_MS)
    visitor.says("and a queued one")
    expect(visitor.page.locator(".dots").first).to_be_visible()

    marks = visitor.page.evaluate(MARKS)
    visitor.page.emulate_media(forced_colors="active")

    assert {"line::before", "health-dot"} <= set(marks)
    assert visitor.page.evaluate(LOST_MARKS) == []


@pytest.mark.parametrize("width", [768, 820, 1100])
def test_a_tablet_shows_the_whole_title(browser: Browser, counter: Counter, width: int) -> None:
    title = "Please pay back the orders 1042 and 1043 of March"
    _, thread_id = counter.waiting(text=title)
    context = browser.new_context(viewport={"width": width, "height": 1100}, reduced_motion="reduce")

    visitor = Visitor(context, counter.url).opens(f"#/thread/{thread_id}")

    heading = visitor.page.get_by_role("heading", name=title)
    expect(heading).to_be_visible(timeout=PATIENCE_MS)
    assert heading.evaluate("h => h.scrollHeight <= h.clientHeight + 1 && h.scrollWidth <= h.clientWidth")
    context.close()
