"""What a person does to runs in the conversation: messages that wait, steering, pause, retry, fork."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.visitor import PATIENCE_MS, Visitor

pytestmark = pytest.mark.browser


def speaking(visitor: Visitor, words: int = 100) -> Visitor:
    """Have a run whose answer has begun."""
    visitor.opens()
    visitor.says(f"write {words} words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+"), timeout=PATIENCE_MS)
    return visitor


def queued(visitor: Visitor, text: str) -> Locator:
    """Send a message that waits, and return its actions."""
    visitor.says(text)
    actions = visitor.turns.last.locator(".turn-actions")
    expect(actions.get_by_role("button")).to_have_count(4, timeout=PATIENCE_MS)
    return actions


def press(where: Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def test_a_message_that_waits_is_sent_now(visitor: Visitor) -> None:
    press(queued(speaking(visitor), "What is 17 * 23?"), "Send now")

    visitor.waits_for_end(2)
    assert [run["status"] for run in runs(visitor)] == ["cancelled", "succeeded"]
    expect(visitor.answer.last).to_contain_text("391")


def test_a_message_that_waits_is_edited_in_its_place(visitor: Visitor) -> None:
    actions = queued(speaking(visitor, 24), "What is 1 + 1?")

    press(actions, "Edit")
    expect(actions.get_by_label("Text", exact=True)).to_have_value("What is 1 + 1?")
    actions.get_by_label("Text", exact=True).fill("What is 17 * 23?")
    press(actions, "Save")

    expect(visitor.turns.last).to_contain_text("What is 17 * 23?")
    visitor.waits_for_end(2)
    expect(visitor.answer.last).to_contain_text("391")


def test_a_message_that_a_route_took_is_not_edited(visitor: Visitor) -> None:
    thread_id = f"routed-{uuid4().hex}"
    run_ids: list[str] = []
    for text in ("write 600 words slowly", "The sum of 17 * 23?"):
        body = {"agent": "desk", "input": text, "thread_id": thread_id}
        answer = visitor.context.request.post(f"{visitor.url}/v1/runs", data=body)
        assert answer.status == 202
        run_ids.append(answer.json()["run_id"])
    visitor.opens(f"#/thread/{thread_id}")
    buttons = visitor.turns.last.locator(".turn-actions").get_by_role("button")
    expect(buttons).to_have_text(["Send now", "Remove"], timeout=PATIENCE_MS)

    visitor.says("The sum of 2 + 2?")  # of which the page learns what it is after it was sent
    expect(visitor.turns).to_have_count(3)
    expect(buttons).to_have_text(["Send now", "Remove"], timeout=PATIENCE_MS)
    visitor.says("And a word for the model.")
    expect(visitor.turns).to_have_count(4)
    expect(buttons).to_have_text(["Send now", "Steer", "Edit", "Remove"], timeout=PATIENCE_MS)
    press(visitor.turns.nth(1).locator(".turn-actions"), "Remove")
    expect(visitor.turns).to_have_count(3)
    visitor.context.request.post(f"{visitor.url}/v1/runs/{run_ids[0]}/cancel")

    visitor.waits_for_end(3)
    assert [run["kind"] for run in runs(visitor)] == ["agent", "tool", "tool", "agent"]


@pytest.mark.parametrize("is_thread_old", [False, True])
def test_a_message_that_is_removed_while_the_page_reads_the_thread_is_no_turn(
    visitor: Visitor, is_thread_old: bool
) -> None:
    speaking(visitor, 400)
    thread_id = visitor.page.url.rpartition("/")[2]
    requests, address = visitor.context.request, f"{visitor.url}/v1/threads/{thread_id}"
    body = {"agent": "assistant", "input": "Never mind.", "thread_id": thread_id}
    held = dict[bool, Route]()

    def hold(route: Route) -> None:
        """Keep the first reading of the thread and of its messages: the page sends both at once, in either order."""
        if held.setdefault("/messages" in route.request.url, route) is not route:
            route.continue_()

    visitor.page.route(re.compile(f"{re.escape(address)}(/messages.*)?$"), hold)
    assert requests.post(f"{visitor.url}/v1/runs", data=body).status == 202
    while len(held) < 2:
        visitor.page.wait_for_timeout(20)
    messages, thread = held[True].fetch(), held[False].fetch()
    assert requests.delete(f"{address}/queue/{messages.json()['messages'][-1]['run_id']}").ok
    visitor.page.wait_for_timeout(1000)  # the board's row of the removed message comes to a page that does not show it
    held[True].fulfill(response=messages)
    held[False].fulfill(response=thread if is_thread_old else held[False].fetch())
    assert requests.post(f"{visitor.url}/v1/runs", data={**body, "input": "And now?"}).status == 202

    expect(visitor.turns.last).to_contain_text("And now?", timeout=PATIENCE_MS)
    expect(visitor.turns).to_have_count(2, timeout=PATIENCE_MS)
    expect(visitor.page.locator(".end")).to_have_count(0)


def test_the_answer_of_a_route_is_the_text_of_its_turn_live_and_in_another_browser(visitor: Visitor) -> None:
    visitor.opens(f"#/thread/{routed(visitor, 'The sum of 17 * 23?')}").waits_for_end()
    visitor.says("The sum of 2 + 2?").waits_for_end(2)
    _reads_as_an_answer(visitor.turns.last, "4")

    in_another_browser(visitor)

    expect(visitor.turns).to_have_count(2)
    _reads_as_an_answer(visitor.turns.first, "391")
    _reads_as_an_answer(visitor.turns.last, "4")


def test_the_answer_of_a_route_is_there_when_its_events_are_not(visitor: Visitor) -> None:
    visitor.opens(f"#/thread/{routed(visitor, 'The sum of 17 * 23?')}").waits_for_end()
    visitor.page.route("**/v1/runs/*/events*", lambda route: route.fulfill(json={"events": [], "cursor": "0"}))

    in_another_browser(visitor)

    _reads_as_an_answer(visitor.turns.first, "391")


def test_a_message_that_waits_is_removed_and_no_model_gets_it(visitor: Visitor) -> None:
    actions = queued(speaking(visitor, 24), "What is 17 * 23?")
    events = f"**/v1/runs/{visitor.turns.last.get_attribute('data-run')}/events*"
    visitor.page.route(events, lambda route: route.fulfill(json={"events": [], "cursor": "0"}))

    press(actions, "Remove")

    visitor.waits_for_end()
    assert [run["status"] for run in runs(visitor)] == ["succeeded", "cancelled"]
    is_the_only_turn(visitor)
    expect(visitor.turns).not_to_contain_text("391")
    in_another_browser(visitor)
    is_the_only_turn(visitor)


def test_a_message_that_is_removed_elsewhere_leaves_the_conversation(visitor: Visitor) -> None:
    queued(speaking(visitor, 24), "What is 17 * 23?")
    run_id = visitor.turns.last.get_attribute("data-run")

    assert visitor.context.request.delete(f"{visitor.url}/v1/threads/{visitor.thread_id}/queue/{run_id}").ok

    expect(visitor.turns).to_have_count(1, timeout=PATIENCE_MS)
    visitor.waits_for_end()
    is_the_only_turn(visitor)


def test_a_message_whose_run_was_stopped_before_it_began_stays(visitor: Visitor) -> None:
    queued(speaking(visitor, 24), "What is 17 * 23?")
    run_id = visitor.turns.last.get_attribute("data-run")

    assert visitor.context.request.post(f"{visitor.url}/v1/runs/{run_id}/cancel").ok

    visitor.waits_for_end(2)
    in_another_browser(visitor)
    visitor.waits_for_end(2)
    expect(visitor.turns.last).to_contain_text("What is 17 * 23?")


def test_a_message_that_waits_is_given_to_the_open_run(visitor: Visitor) -> None:
    press(queued(speaking(visitor, 24), "What is 17 * 23?"), "Steer")

    expect(visitor.turns.first.locator(".passing")).to_have_text(re.compile("17 .* 23.*delivered"), timeout=PATIENCE_MS)
    expect(visitor.turns.first.locator(".text").last).to_contain_text("391", timeout=PATIENCE_MS)
    is_the_only_turn(visitor)
    assert [run["status"] for run in runs(visitor)] == ["succeeded", "cancelled"]


@pytest.mark.parametrize("how", ["button", "keys"])
def test_what_is_typed_steers_the_open_run_and_is_no_turn_of_its_own(visitor: Visitor, how: str) -> None:
    speaking(visitor, 24)
    visitor.page.get_by_label("Message").fill("What is 17 * 23?")
    expect(visitor.page.locator(".compose .hint")).to_have_text("Enter queues · Ctrl+Enter steers")

    if how == "button":
        press(visitor.page.locator(".compose"), "Steer")
    else:
        visitor.presses("Control+Enter")

    expect(visitor.turns.last.locator(".passing")).to_contain_text("What is 17 * 23?", timeout=PATIENCE_MS)
    visitor.waits_for_end()
    expect(visitor.turns).to_have_count(1)
    expect(visitor.answer.last).to_contain_text("391")
    expect(visitor.turns.last.locator(".passing .icon")).to_have_class(re.compile("i-succeeded"))
    expect(visitor.page.locator(".compose .steer")).to_be_hidden()
    expect(visitor.page.locator(".compose .hint")).to_have_text("Enter sends · Shift+Enter breaks the line")


def test_a_text_that_the_stopped_run_did_not_get_is_shown_in_another_browser(visitor: Visitor) -> None:
    speaking(visitor)
    visitor.page.get_by_label("Message").fill("Leave out the bell.")
    visitor.presses("Control+Enter")
    expect(visitor.turns.last.locator(".passing")).to_contain_text("Leave out the bell.", timeout=PATIENCE_MS)
    visitor.stop.click()
    visitor.waits_for_end()

    in_another_browser(visitor)

    expect(visitor.turns.last.locator(".passing:visible")).to_have_text(re.compile("Leave out the bell.*not delivered"))


def test_a_turn_that_was_undone_says_so_live_and_in_another_browser(visitor: Visitor) -> None:
    speaking(visitor)
    body = {"agent": "assistant", "input": "What is 17 * 23?", "thread_id": visitor.thread_id, "if_busy": "rollback"}

    assert visitor.context.request.post(f"{visitor.url}/v1/runs", data=body).status == 202

    visitor.waits_for_end(2)
    expect(visitor.turns.first.locator(".passing:visible")).to_contain_text("This turn was undone")
    visitor.page.route("**/v1/runs/*/events*", lambda route: route.fulfill(json={"events": [], "cursor": "0"}))
    in_another_browser(visitor)
    expect(visitor.turns.first.locator(".passing:visible")).to_contain_text("This turn was undone")
    expect(visitor.turns.last.locator(".passing")).to_have_count(0)
    expect(visitor.turns).to_have_count(2)


def test_a_change_that_comes_too_late_is_said(visitor: Visitor) -> None:
    actions = queued(speaking(visitor, 24), "What is 17 * 23?")
    press(actions, "Edit")
    taken = '{"code": "message_taken", "title": "Conflict", "detail": "Its run has begun; steer it.", "status": 409}'
    visitor.page.route("**/queue/*", lambda route: _refuse(route, taken))
    actions.get_by_label("Text", exact=True).fill("What is 2 + 2?")

    press(actions, "Save")

    expect(visitor.page.locator(".turns")).to_contain_text("Its run has begun; steer it.")
    expect(actions.get_by_label("Text", exact=True)).to_have_value("What is 2 + 2?")
    visitor.complaints.clear()  # the browser reports the 409


def test_a_run_is_paused_and_continues(visitor: Visitor) -> None:
    speaking(visitor, 24)
    head = visitor.page.locator(".head")

    press(head, "Pause")
    visitor.page.get_by_label("Message").fill("What is 17 * 23?")
    visitor.presses("Control+Enter")
    expect(head.get_by_role("button", name="Resume")).to_be_visible(timeout=PATIENCE_MS)
    expect(head.locator(".state")).to_have_text("paused")
    press(head, "Resume")

    visitor.waits_for_end()
    expect(visitor.answer.last).to_contain_text("391")
    expect(head.locator(".pause")).to_be_hidden()


def test_a_failed_run_is_retried_as_the_next_turn(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("fail", agent="assistant").waits_for_end()

    visitor.turns.last.get_by_role("button", name="Try again").dblclick()

    visitor.waits_for_end(2)
    expect(visitor.turns).to_have_count(2)
    first, second = [visitor.asks(f"/v1/runs/{run['run_id']}") for run in runs(visitor)]
    assert second["retry_of"] == first["run_id"]
    expect(visitor.turns.last).to_contain_text("fail")


def test_a_conversation_is_forked_behind_a_run(visitor: Visitor) -> None:
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    visitor.says("What is 2 + 2?").waits_for_end(2)
    first = visitor.thread_id

    press(visitor.turns.first, "Fork")

    expect(visitor.page).not_to_have_url(re.compile(first))
    expect(visitor.turns).to_have_count(1)
    expect(visitor.turns.last).to_contain_text("391")
    visitor.says("What is 3 + 4?")
    expect(visitor.answer.last).to_contain_text("7", timeout=PATIENCE_MS)
    assert len(visitor.asks(f"/v1/threads/{first}")["runs"]) == 2


def test_the_next_message_is_for_the_agent_to_which_the_run_was_handed_over(visitor: Visitor) -> None:
    visitor.opens()
    thread_id = f"goals-{uuid4().hex}"
    body = {"agent": "multi", "input": "Which agents are there?", "thread_id": thread_id}
    assert visitor.context.request.post(f"{visitor.url}/v1/runs", data=body).status == 202
    visitor.opens(f"#/thread/{thread_id}")
    visitor.waits_for_end()
    expect(visitor.agents).to_have_value("multi")

    visitor.says("Switch to finance").waits_for_end(2)

    expect(visitor.agents).to_have_value("finance")
    visitor.says("What are my account balances?").waits_for_end(3)
    assert [run["agent"] for run in runs(visitor)] == ["multi", "finance", "finance"]


def routed(visitor: Visitor, text: str) -> str:
    """Send a message that a route takes, and return its new thread."""
    thread_id = f"routed-{uuid4().hex}"
    body = {"agent": "desk", "input": text, "thread_id": thread_id}
    assert visitor.context.request.post(f"{visitor.url}/v1/runs", data=body).status == 202
    return thread_id


def in_another_browser(visitor: Visitor) -> None:
    """Load the page again without anything that it kept of the conversation."""
    visitor.page.evaluate("addEventListener('pagehide', () => localStorage.clear())")
    visitor.page.reload()


def is_the_only_turn(visitor: Visitor) -> None:
    """The conversation has one turn, and its head shows how that one ended."""
    visitor.waits_for_end()
    expect(visitor.turns).to_have_count(1)
    expect(visitor.page.locator(".head .state")).to_have_text("succeeded")


def _reads_as_an_answer(turn: Locator, words: str) -> None:
    expect(turn.locator(".text")).to_contain_text(words, timeout=PATIENCE_MS)
    expect(turn.locator(".passing")).to_contain_text("Assistant was asked")
    expect(turn.locator(".text")).to_have_count(1)
    expect(turn.locator(".tool:visible")).to_have_count(0)


def runs(visitor: Visitor) -> list[dict[str, str]]:
    """Return the runs of the conversation, the oldest first."""
    page = visitor.asks(f"/v1/runs?thread_id={visitor.thread_id}")
    return sorted(page["runs"], key=lambda run: run["run_id"])


def _refuse(route: Route, problem: str) -> None:
    route.fulfill(status=409, content_type="application/problem+json", body=problem)
