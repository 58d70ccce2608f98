"""The page in a real browser against a real Callboard with the demo model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.visitor import PATIENCE_MS, OpenPage, Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

HOSTILE = (
    "say <img src=x onerror=document.title='owned'> <script>document.title='owned'</script> "
    "<svg onload=alert(1)> [a](javascript:alert(1)) ![b](http://foreign.invalid/b.png) </textarea><b>"
)
IS_AT_END = """() => {
  const talk = document.querySelector(".talk");
  return talk.scrollHeight - talk.scrollTop - talk.clientHeight <= 1;
}"""
IS_AWAY = """() => {
  const talk = document.querySelector(".talk");
  return talk.scrollHeight - talk.scrollTop - talk.clientHeight > 150;
}"""

# Opens, closes and opens a line that polls; returns how many polls are under way at once afterwards.
POLLED = """
  const { Feed } = await import("/static/client/feed.js");
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  let atOnce = 0, most = 0;
  const poll = async () => {
    most = Math.max(most, atOnce += 1);
    await pause(40);
    atOnce -= 1;
    return { events: [], ended: false };
  };
  const feed = new Feed({ url: () => "/none", poll, onEvent() {}, onState() {} });
  feed.heldBack = true;
  feed.start();
  feed.stop();
  feed.start();
  await pause(100);
  most = 0;
  await pause(200);
  feed.stop();
  return most;
"""


@pytest.fixture(scope="module")
def open_page(browser: Browser, callboard_url: str) -> Iterator[OpenPage]:
    page = OpenPage(browser, callboard_url)
    yield page
    page.close()


@pytest.fixture
def visitor(open_page: OpenPage, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    with open_page.visitor(request.session) as visitor:
        yield visitor
        assert visitor.complaints == []
        assert visitor.foreign == []


# --- talking ------------------------------------------------------------------------------------


def test_choosing_an_agent_and_typing_brings_its_answer(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()

    expect(visitor.answer.last).to_contain_text("391")
    expect(visitor.turns.last.locator(".end")).to_have_text(
        re.compile(r"succeeded.+ m?s\d+ tokens in, \d+ out3 stepsrun …\w{6}Timeline")
    )
    expect(visitor.page.locator(".head .state")).to_have_text("succeeded")


def test_a_run_with_calls_leads_to_what_the_policy_decided(visitor: Visitor) -> None:
    visitor.opens().says("What is 17 * 23?", agent="assistant").waits_for_end()
    expect(visitor.page.locator(".tool-policy")).to_have_count(0)

    visitor.turns.last.get_by_role("link", name="Policy decisions").click()

    decisions = visitor.page.get_by_role("table", name="Decisions").locator("tbody tr")
    expect(decisions).to_have_count(3)
    expect(decisions.nth(1)).to_contain_text("calculator")
    expect(decisions.nth(1)).to_contain_text("allow")


def test_text_arrives_before_the_run_has_ended(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("write 20 words slowly", agent="assistant")

    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+"), timeout=PATIENCE_MS)
    assert visitor.page.locator(".end").count() == 0


def test_a_tool_is_a_card_with_arguments_result_effect_and_duration(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()

    card = visitor.turns.last.locator(".tool").first
    expect(card).to_contain_text("calculator")
    expect(card).to_contain_text("17 * 23")
    expect(card).to_contain_text("391")
    expect(card.locator(".badge")).to_have_text(re.compile(r"pure · \d+ ms"))


def test_thinking_is_one_line_that_unfolds(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    thinking = visitor.turns.last.locator(".think").first
    expect(thinking).to_have_text(re.compile(r"Thought for [\d.]+ m?s"))
    expect(thinking.locator(".think-body")).to_be_hidden()

    thinking.locator("summary").click()

    expect(thinking.locator(".think-body .prose")).to_have_text(re.compile(r"\w+"))


def test_a_call_that_a_person_approves_is_made(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("Order 3 boxes of paper", agent="office")
    visitor.turns.last.locator(".ask [data-key=approve]").click(timeout=PATIENCE_MS)
    visitor.waits_for_end()

    card = visitor.turns.last.locator(".tool:not(.ask)").first
    expect(card).to_contain_text("total_eur")
    expect(card.locator(".badge")).to_have_text(re.compile(r"unsafe · \d+ ms"))


def test_a_call_that_a_person_rejects_is_not_made(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("Order 3 boxes of paper", agent="office").rejects("we have enough").waits_for_end()

    card = visitor.turns.last.locator(".tool.is-refused").first
    expect(card).to_contain_text("unsafe · refused")
    expect(card).to_contain_text("we have enough")


def test_a_structured_answer_is_a_list_of_terms(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("Lunch with Maria Rossi on 3 December 2026 at 12:30 in Lisbon", agent="calendar").waits_for_end()

    terms = visitor.answer.last.locator("dl").first
    expect(terms).to_contain_text("2026-12-03")
    expect(terms.locator("dt").first).to_have_text(re.compile("title", re.IGNORECASE))


def test_stop_ends_the_run_and_keeps_what_was_said(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("write 100 words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+"), timeout=PATIENCE_MS)

    visitor.stop.click()
    visitor.waits_for_end()

    expect(visitor.turns.last.locator(".end")).to_contain_text("cancelled")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+"))


def test_continues_talking_in_the_same_thread(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    first = visitor.thread_id

    visitor.says("What is 2 + 2?").waits_for_end(2)

    assert visitor.thread_id == first
    assert len(visitor.asks(f"/v1/threads/{first}")["runs"]) == 2


def test_a_message_sent_while_a_run_is_on_waits_for_its_turn(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("write 16 words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+"), timeout=PATIENCE_MS)

    visitor.says("What is 17 * 23?")

    visitor.waits_for_end(2)
    expect(visitor.answer.last).to_contain_text("391")


def test_a_text_that_steers_the_run_is_shown_with_what_became_of_it_and_again_after_a_reload(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("write 24 words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+"), timeout=PATIENCE_MS)
    run_id = visitor.turns.last.get_attribute("data-run")

    visitor.page.request.post(f"{visitor.url}/v1/runs/{run_id}/steer", data={"content": "What is 17 * 23?"})

    expect(visitor.turns.last.locator(".passing")).to_contain_text("What is 17 * 23?", timeout=PATIENCE_MS)
    visitor.waits_for_end()
    expect(visitor.turns.last.locator(".passing")).to_have_text(re.compile("What is 17 .* 23.*delivered"))
    expect(visitor.answer.last).to_contain_text("391")
    visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")
    visitor.page.reload()
    expect(visitor.turns).to_have_count(1)
    expect(visitor.turns.last.locator(".passing")).to_contain_text("What is 17 * 23?")
    expect(visitor.turns.last).to_contain_text("write 24 words slowly")


# --- coming back --------------------------------------------------------------------------------


@pytest.mark.parametrize("remembers", [True, False], ids=["from its cursor", "from the beginning"])
def test_reload_in_the_middle_continues_and_repeats_nothing(visitor: Visitor, remembers: bool) -> None:
    visitor.opens()
    visitor.says("write 24 words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+ \w+"), timeout=PATIENCE_MS)
    if not remembers:
        visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")

    visitor.page.reload()
    visitor.waits_for_end()

    messages = visitor.asks(f"/v1/threads/{visitor.thread_id}/messages")["messages"]
    answer_text = [message["content"] for message in messages if message["role"] == "assistant"][-1]
    expect(visitor.answer.last).to_contain_text(answer_text.split()[-1], timeout=PATIENCE_MS)  # which is typed out
    assert _words(visitor.answer.last.inner_text()) == _words(answer_text)


def test_an_old_thread_shows_its_tools_with_duration_and_effect(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")

    visitor.page.reload()

    expect(visitor.turns.last.locator(".tool .badge").first).to_have_text(re.compile(r"pure · \d+ ms"))
    expect(visitor.turns.last.locator(".end")).to_contain_text("succeeded")


def test_an_old_thread_opens_at_its_end_on_a_phone_and_on_a_wide_screen(visitor: Visitor, browser: Browser) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.says("Compare Norway, Sweden and Finland", agent="atlas").waits_for_end(2)
    visitor.says("Order 3 boxes of paper", agent="office").rejects().waits_for_end(3)

    for width, height in ((390, 844), (1440, 900)):
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
        other = Visitor(context, visitor.url).opens(f"#/thread/{visitor.thread_id}")
        expect(other.turns.last.locator(".tool:not(.ask) .badge")).to_have_text("unsafe · refused")
        other.page.wait_for_function(IS_AT_END)
        context.close()


def test_a_message_that_is_sent_as_soon_as_it_is_written_is_in_view(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 360, "height": 740})
    visitor.opens()
    visitor.says("Think hard and write 120 words", agent="assistant").waits_for_end()

    # Two lines: the composer grows, the page scrolls, and the message is sent before the event of that has arrived.
    visitor.says("What is 17 * 23, and what time is it in Tokyo?").waits_for_end(2)

    visitor.page.wait_for_function(IS_AT_END)


def test_a_reader_who_scrolls_up_is_left_there(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 500})
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.says("write 150 words")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+"), timeout=PATIENCE_MS)
    visitor.page.locator(".talk").hover()

    visitor.page.mouse.wheel(0, -300)
    visitor.page.wait_for_function(IS_AWAY)
    visitor.waits_for_end(2)

    assert visitor.page.evaluate(IS_AWAY)
    expect(visitor.page.get_by_role("button", name="New below")).to_be_visible()


def test_a_thread_whose_logs_were_not_kept_shows_what_was_said(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")
    visitor.page.route("**/v1/runs/*/events*", _expire)

    with visitor.page.expect_response("**/v1/runs/*/events*"):
        visitor.page.reload()

    visitor.waits_for_end()
    expect(visitor.answer.last).to_contain_text("391")


def test_a_removed_run_leaves_what_was_said_in_its_place(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.says("write 5 words").waits_for_end(2)
    first = visitor.asks(f"/v1/threads/{visitor.thread_id}")["runs"][0]["run_id"]
    visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")

    assert visitor.context.request.delete(f"{visitor.url}/v1/runs/{first}").status == 204
    visitor.page.reload()

    expect(visitor.turns).to_have_count(2)
    expect(visitor.turns.first.locator(".text").last).to_contain_text("391")


def test_a_thread_that_does_not_exist_is_explained(visitor: Visitor) -> None:
    visitor.opens("#/thread/unknown")

    expect(visitor.page.locator(".notice")).to_contain_text("There is no thread 'unknown'")
    assert visitor.complaints
    assert all("404" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


def test_a_lost_line_is_said_in_words_and_heals(visitor: Visitor) -> None:
    visitor.opens()
    line = visitor.page.locator(".board .line")
    expect(line).to_contain_text("live")

    visitor.context.set_offline(True)
    expect(line).to_contain_text(re.compile("offline|reconnecting"))
    visitor.context.set_offline(False)

    expect(line).to_contain_text("live")
    visitor.complaints[:] = [text for text in visitor.complaints if "ERR_INTERNET_DISCONNECTED" not in text]


def test_a_phone_is_reported_beside_the_composer(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.opens()
    trouble = visitor.page.locator(".dock-trouble")
    expect(trouble).to_be_hidden()

    visitor.context.set_offline(True)
    expect(trouble).to_have_text(re.compile("This device has no network|Server does not answer"))
    visitor.context.set_offline(False)

    expect(trouble).to_be_hidden(timeout=PATIENCE_MS)
    visitor.complaints[:] = [text for text in visitor.complaints if "ERR_INTERNET_DISCONNECTED" not in text]


@pytest.mark.parametrize(
    ("observer", "sentence"),
    [
        ({"state": "stopped", "behind_s": 89.2}, "Observer ledger is stopped, 89 s behind."),
        ({"state": "running", "behind_s": 7260.0}, "Observer ledger is 121 min behind."),
        ({"state": "running", "behind_s": 0.0, "dead_letters": 1}, "Observer ledger is left with 1 dead letter."),
    ],
)
def test_an_observer_that_is_late_is_named_beside_the_composer(
    visitor: Visitor, observer: dict[str, Any], sentence: str
) -> None:
    late = {"name": "ledger", "is_late": True, "dead_letters": 0, **observer}

    def answer(route: Route) -> None:
        health = route.fetch()
        route.fulfill(response=health, json={**health.json(), "slowest_observer": late})

    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.page.route("**/health", answer)
    visitor.page.reload()

    expect(visitor.page.locator(".dock-trouble")).to_have_text(sentence)
    expect(visitor.page.locator(".health")).to_have_attribute("data-health", "late")
    expect(visitor.page.locator(".health a")).to_have_attribute("href", "#/observers")


def test_where_streams_do_not_come_through_it_polls(visitor: Visitor) -> None:
    page = visitor.page
    page.route("**/events*", _hold_streams_back)
    visitor.opens()

    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()

    expect(visitor.answer.last).to_contain_text("391")
    page.unroute_all(behavior="ignoreErrors")


def test_a_line_that_is_opened_anew_while_it_polls_polls_once(visitor: Visitor) -> None:
    at_once = visitor.opens().module(POLLED)

    assert at_once == 1


def test_an_earlier_search_that_is_answered_late_is_not_shown(visitor: Visitor) -> None:
    held: list[Route] = []
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.page.route("**/v1/threads?*search=What", lambda route: held.append(route))
    search, threads = visitor.page.get_by_label("Search threads"), visitor.page.locator("nav.threads")
    with visitor.page.expect_request("**/v1/threads?*search=What"):
        search.fill("What")
    search.fill("nothing has this")
    expect(threads).to_have_text("No thread has these words in its title.")

    with visitor.page.expect_response("**/v1/threads?*search=What"):
        held[0].continue_()
    visitor.page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 50))")

    expect(threads).to_have_text("No thread has these words in its title.")


# --- the board ----------------------------------------------------------------------------------


def test_the_board_shows_a_run_in_its_lane_as_it_moves(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("write 60 words slowly", agent="assistant")
    card = visitor.page.locator(f"a.run[href*='{_thread(visitor)}']")
    expect(visitor.lane("running").and_(card)).to_have_count(1, timeout=PATIENCE_MS)

    visitor.waits_for_end()

    expect(visitor.lane("ended").and_(card)).to_have_count(1, timeout=PATIENCE_MS)


def test_a_run_on_the_board_opens_its_thread(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.opens("#/board")

    visitor.page.get_by_role("table", name="Runs").get_by_role("link", name="What is 17 * 23?").first.click()
    visitor.page.get_by_role("link", name="Conversation", exact=True).click()

    expect(visitor.turns.last).to_contain_text("391")


def test_two_pages_see_the_same_run(visitor: Visitor, browser: Browser) -> None:
    visitor.opens()
    visitor.says("write 16 words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+"), timeout=PATIENCE_MS)
    context = browser.new_context()
    other = Visitor(context, visitor.url).opens(f"#/thread/{visitor.thread_id}")

    visitor.waits_for_end()
    other.waits_for_end()

    # Text is painted steadily, so the last word may still be on its way when the end is shown.
    last_word = re.compile(r"[.!?*]\s*$")
    for page in (visitor, other):
        expect(page.answer.last).to_have_text(last_word, timeout=PATIENCE_MS)
    assert _words(other.answer.last.inner_text()) == _words(visitor.answer.last.inner_text())
    assert (other.complaints, other.foreign) == ([], [])
    context.close()


# --- what goes wrong ----------------------------------------------------------------------------


def test_a_failed_run_says_what_happened_and_offers_another_try(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("fail", agent="assistant").waits_for_end()

    notice = visitor.turns.last.locator(".notice")
    expect(notice.locator(".code-name")).to_have_text(re.compile(r"^[a-z_]+$"))
    expect(notice.get_by_role("button", name="Try again")).to_be_visible()


def test_what_a_broken_attempt_wrote_is_withdrawn_but_not_gone(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says("fail halfway", agent="assistant").waits_for_end()

    lost = visitor.turns.last.locator(".lost-note").first
    expect(lost).to_contain_text("Withdrawn")
    lost.locator("summary").click()
    expect(lost.locator(".lost")).to_be_visible()


def test_a_message_sent_before_the_first_was_accepted_joins_its_conversation(visitor: Visitor) -> None:
    held: list[Route] = []
    visitor.opens()
    visitor.page.route("**/v1/runs", lambda route: held.append(route), times=1)
    visitor.says("What is 17 * 23?", agent="assistant")
    expect(visitor.turns).to_have_count(1)

    visitor.says("What is 2 + 2?")
    expect(visitor.turns).to_have_count(2)
    held[0].continue_()
    visitor.waits_for_end(2)

    runs = visitor.asks(f"/v1/threads/{visitor.thread_id}")["runs"]
    assert len(runs) == 2


def test_a_message_sent_before_the_agents_are_known_is_sent_once_they_are(visitor: Visitor) -> None:
    held: list[Route] = []
    visitor.page.route("**/v1/agents*", lambda route: held.append(route))
    visitor.page.goto(f"{visitor.url}/")
    hint, message = visitor.page.locator(".compose .hint"), visitor.page.get_by_label("Message")

    visitor.presses("c")
    message.fill("What is 17 * 2?")
    visitor.presses("Enter")
    expect(hint).to_contain_text("No agent is loaded yet")
    expect(message).to_have_value("What is 17 * 2?")
    message.fill("What is 17 * 23?")
    expect(hint).to_contain_text("Enter sends")
    visitor.presses("Enter")
    for route in held:
        route.continue_()

    visitor.waits_for_end()
    expect(visitor.answer.last).to_contain_text("391")
    expect(message).to_have_value("")
    expect(hint).to_contain_text("Enter sends")


def test_messages_behind_a_first_one_that_was_not_accepted_can_be_sent_again(visitor: Visitor) -> None:
    held: list[Route] = []
    visitor.opens()
    visitor.page.route("**/v1/runs", lambda route: held.append(route), times=1)
    visitor.says("What is 17 * 23?", agent="assistant")
    visitor.says("What is 2 + 2?")
    expect(visitor.turns).to_have_count(2)
    held[0].abort()
    again = visitor.page.get_by_role("button", name="Send again")
    expect(again).to_have_count(2)

    again.first.click()
    visitor.waits_for_end(1)
    again.click()
    visitor.waits_for_end(2)

    assert len(visitor.asks(f"/v1/threads/{visitor.thread_id}")["runs"]) == 2
    visitor.complaints[:] = [text for text in visitor.complaints if "ERR_FAILED" not in text]


def test_a_message_the_server_does_not_take_can_be_sent_again(visitor: Visitor) -> None:
    visitor.opens()
    visitor.page.route("**/v1/runs", _lose_posts)
    visitor.says("What is 17 * 23?", agent="assistant")
    again = visitor.page.get_by_role("button", name="Send again")
    expect(again).to_be_visible()
    visitor.page.unroute("**/v1/runs")

    again.click()
    visitor.waits_for_end()

    expect(visitor.answer.last).to_contain_text("391")
    visitor.complaints[:] = [text for text in visitor.complaints if "ERR_FAILED" not in text]


def test_hostile_text_is_only_text(visitor: Visitor) -> None:
    visitor.opens()

    visitor.says(HOSTILE, agent="assistant").waits_for_end()

    assert visitor.page.locator(":is(.said, .run, .thread, .head) :is(img, script, iframe, b.x, textarea)").count() == 0
    assert visitor.page.locator("a[href^='javascript']").count() == 0
    expect(visitor.turns.last.locator(".is-user")).to_contain_text("<img src=x onerror=")
    assert "owned" not in visitor.page.title().replace(HOSTILE, "")[:5]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _thread(visitor: Visitor) -> str:
    visitor.page.wait_for_url("**/#/thread/**")
    return visitor.thread_id


def _hold_streams_back(route: Route) -> None:
    """As a proxy that waits for the whole answer: the stream's never comes."""
    if "event-stream" not in (route.request.headers.get("accept") or ""):
        route.continue_()


def _lose_posts(route: Route) -> None:
    if route.request.method == "POST":
        route.abort()
    else:
        route.continue_()


def _expire(route: Route) -> None:
    """Answer as the server does long after, when retention took a run's log."""
    answer = route.fetch()
    page = answer.json()
    end = page["events"][-1]
    gone = end | {"seq": end["seq"] - 1, "type": "withdrawn", "reason": "expired", "ranges": [[1, end["seq"] - 2]]}
    route.fulfill(response=answer, json=page | {"events": [gone, end]})
