"""What the conversation says while a tool runs, and what of it is copied."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.answering import SAYS, Counter
from tests.browser.visitor import PATIENCE_MS, WIDE, Visitor
from tests.bus.questions import question_before

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
def reader(browser: Browser, counter: Counter) -> Iterator[Visitor]:
    """Yield a visitor who may use the clipboard."""
    context = browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"])
    yield Visitor(context, counter.url)
    context.close()


def clipboard(reader: Visitor) -> str:
    text: str = reader.page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_tool_that_runs_shows_its_seconds(reader: Visitor, counter: Counter) -> None:
    _, thread_id = counter.calling("look_up")

    reader.opens(f"#/thread/{thread_id}")

    pace = reader.page.locator(".head .rate")
    expect(pace).to_have_text(re.compile(r"^look_up, \d+ s$"), timeout=PATIENCE_MS)
    expect(reader.page.locator(".tool .badge")).to_have_text(re.compile(r"^pure · running · \d+ s$"))
    expect(pace).not_to_have_text(pace.text_content() or "")


def test_an_answer_and_a_conversation_are_copied_as_markdown(reader: Visitor, counter: Counter) -> None:
    run_id, thread_id = counter.waiting(question_before(), text="Pay back *1042*.")
    reader.opens(f"#/thread/{thread_id}")
    reader.page.locator("[data-key=approve]").click()
    expect(reader.page.locator(".ask")).to_contain_text("decided by you")
    counter.resume(run_id, text="It is **paid** back.")
    reader.waits_for_end()
    reader.page.bring_to_front()  # a clipboard is given to the page that has the focus

    reader.page.locator(".end").get_by_role("button", name="Copy", exact=True).click()
    expect(reader.page.locator(".end .copy").nth(1)).to_have_text("Copied")
    assert clipboard(reader) == f"{SAYS}\n\nIt is **paid** back."

    reader.page.locator(".head").get_by_role("button", name="Copy").click()
    expect(reader.page.locator(".head .copy")).to_have_text("Copied")
    title, you, asks, agent, *parts = clipboard(reader).strip().split("\n\n")
    assert [title, you, asks, agent] == ["# Pay back \\*1042\\*.", "**you**", "Pay back *1042*.", "**Support**"]
    assert parts[0] == SAYS
    assert re.fullmatch(r"- `refund_order\(order: 1042, [^`]*\)`.*", parts[1])
    assert parts[-1] == "It is **paid** back."


def test_a_new_conversation_has_nothing_to_copy(reader: Visitor) -> None:
    reader.opens()

    expect(reader.page.locator(".head .copy")).to_be_hidden()
