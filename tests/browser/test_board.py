"""The board with many runs, and over a line that holds its stream back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.answering import Counter
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.bus.crowd import ASKS, Crowd

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

AGAIN_S = 61
SHOW_CARD = """
  const { RunCard } = await import("/static/views/board/RunCard.js");
  const card = new RunCard(given.run, { nameOf: () => "Payment" });
  document.querySelector(".board").replaceChildren(card.element);
  card.update(given.run);
"""


@pytest.fixture
def visitor(browser: Browser, counter: Counter) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    visitor = Visitor(context, counter.url)
    yield visitor
    context.close()
    assert visitor.complaints == []


def totals(visitor: Visitor) -> dict[str, str]:
    """Return the number above each lane that is shown."""
    lanes = visitor.page.locator(".lane:visible")
    return {lane.get_attribute("data-lane") or "": lane.locator(".total").inner_text() for lane in lanes.all()}


def test_with_5000_open_runs_the_counts_are_exact_and_the_questions_are_shown(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("running", 200, status="running", reason=None)
    crowd.add("asks", 11, **ASKS)
    crowd.add("queued", 4788, status="queued", reason=None)  # newer than all others
    crowd.add("failed", 3, 3_600_000, status="failed", reason="model_failed", error_code="model_failed")
    crowd.add("succeeded", 150, 0, status="succeeded", reason=None)

    visitor.opens()

    expect(visitor.page.locator(".board .line")).to_contain_text("live · 5,000 open")
    expected = "questions:12 running:200 waiting:4,788 failed:3 ended:LATEST"
    assert totals(visitor) == dict(pair.split(":") for pair in expected.split())
    expect(visitor.lane("questions")).to_have_count(12)
    expect(visitor.lane("failed")).to_have_count(3)
    expect(visitor.page.locator(".lane[data-lane=waiting] .more")).to_have_text(
        "and 4,768 more: ./callboard runs --status open"
    )
    expect(visitor.page.locator(".places .count")).to_have_text("5,000")
    expect(visitor.page.locator(".places .count")).to_have_class(re.compile("is-asked"))


def test_a_card_says_what_is_waited_for_without_the_command(visitor: Visitor) -> None:
    run = {"run_id": "run_1", "thread_id": "thr_1", "agent_name": "Payment", "status": "waiting", "reason": "signal"}
    detail = "Waits for 'paid' (`./callboard signal run_1 paid`), for 'sent' (`./callboard signal run_1 sent`)."
    run |= {"created_at": "2026-01-01T10:00:00Z", "detail": detail}

    visitor.opens().module(SHOW_CARD, {"run": run})

    expect(visitor.page.locator(".why")).to_have_text("Waits for 'paid', for 'sent'.")


def test_a_question_that_is_answered_leaves_the_board_and_its_count(visitor: Visitor, counter: Counter) -> None:
    run_id, _ = counter.waiting()
    visitor.opens()
    expect(visitor.lane("questions")).to_have_count(1)

    assert visitor.context.request.post(f"{visitor.url}/v1/runs/{run_id}/cancel", data={}).ok

    expect(visitor.lane("questions")).to_have_count(0)
    expect(visitor.lane("ended")).to_have_count(1)
    expect(visitor.page.locator(".board .line")).to_contain_text("live · 0 open")


def test_a_stream_that_is_held_back_is_polled_whole_and_tried_again_after_a_minute(
    visitor: Visitor, crowd: Crowd
) -> None:
    crowd.add("queued", 300, status="queued", reason=None)
    visitor.page.clock.install()
    visitor.page.route("**/v1/events", _hold_streams_back)
    visitor.opens()
    line = visitor.page.locator(".board .line")

    visitor.page.clock.fast_forward(7000)
    expect(line).to_contain_text("polling · 301 open", timeout=PATIENCE_MS)
    expect(visitor.lane("questions")).to_have_count(1)
    visitor.page.unroute("**/v1/events")
    visitor.page.clock.fast_forward(AGAIN_S * 1000)

    expect(line).to_contain_text("live · 301 open", timeout=PATIENCE_MS)
    visitor.page.unroute_all(behavior="ignoreErrors")


def _hold_streams_back(route: Route) -> None:
    """As a proxy that waits for the whole answer: the stream's never comes."""
    if "event-stream" not in (route.request.headers.get("accept") or ""):
        route.continue_()
