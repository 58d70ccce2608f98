"""The page while servers and workers are killed, the network is away, the clock jumps, and a second window looks on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.journeys.neighbour import until
from tests.journeys.up import Up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

AWAY_S = 30
JUMP_MS = 10 * 60 * 1000
RECOVERY_MS = 60_000
BRISK = {"CALLBOARD_LEASE_S": "4", "CALLBOARD_BEAT_S": "1", "CALLBOARD_REAP_S": "1"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A Callboard whose processes a test may kill: `up` starts new ones."""
    keys = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": "", **BRISK}
    with Up(tmp_path_factory.mktemp("callboard"), "--port", "0", "--workers", "2", **keys) as started:
        started.ask("assistant", "What is 2 + 2?")
        yield started
        started.stop()


@pytest.fixture
def page_url(up: Up) -> str:
    return up.address


def speaking(visitor: Visitor, words: int) -> Visitor:
    """Have a run whose answer has begun."""
    visitor.opens()
    visitor.says(f"write {words} words slowly", agent="assistant")
    expect(visitor.answer.last).to_have_text(re.compile(r"\w+ \w+ \w+"), timeout=PATIENCE_MS)
    return visitor


def require_whole(visitor: Visitor) -> None:
    """Return once the page has the answer as the history has it: nothing is missing, nothing is there twice."""
    expect(visitor.page.locator(".end")).to_have_count(1, timeout=RECOVERY_MS)
    messages = visitor.asks(f"/v1/threads/{visitor.thread_id}/messages")["messages"]
    text = [message["content"] for message in messages if message["role"] == "assistant"][-1]
    until(lambda: words_of(visitor.answer.last.inner_text()) == words_of(text), 30, "the whole answer is typed out")


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def forget(visitor: Visitor) -> None:
    """Leave out what the browser itself says of requests that failed."""
    visitor.complaints[:] = [text for text in visitor.complaints if "ERR_" not in text and "50" not in text]


def test_a_second_window_shows_the_same_words_and_stops_the_run_for_both(visitor: Visitor, browser: Browser) -> None:
    speaking(visitor, 400)
    with browser.new_context(viewport={"width": 1000, "height": 800}) as context:
        other = Visitor(context, visitor.url).opens(f"#/thread/{visitor.thread_id}")
        expect(other.answer.last).to_have_text(re.compile(r"\w+ \w+ \w+"), timeout=PATIENCE_MS)

        other.stop.click()

        for window in (visitor, other):
            expect(window.page.locator(".end")).to_contain_text("cancelled", timeout=PATIENCE_MS)
        until(
            lambda: visitor.answer.last.inner_text() == other.answer.last.inner_text(), 20, "both have the same words"
        )


def test_an_answer_is_whole_after_the_server_was_killed(visitor: Visitor, up: Up) -> None:
    speaking(visitor, 150)

    for web in up.children("cli web"):
        web.kill()

    require_whole(visitor)
    forget(visitor)


def test_an_answer_is_whole_after_its_worker_was_killed(visitor: Visitor, up: Up) -> None:
    speaking(visitor, 100)

    for worker in up.children("celery"):
        worker.kill()

    require_whole(visitor)
    run_id = visitor.asks(f"/v1/threads/{visitor.thread_id}")["runs"][0]["run_id"]
    visitor.opens(f"#/run/{run_id}")
    expect(visitor.page.locator(".step.is-attempt")).to_have_count(2, timeout=PATIENCE_MS)
    forget(visitor)


def test_an_answer_is_whole_after_half_a_minute_without_a_network(visitor: Visitor) -> None:
    speaking(visitor, 150)

    visitor.context.set_offline(True)
    visitor.page.wait_for_timeout(AWAY_S * 1000)
    visitor.context.set_offline(False)

    require_whole(visitor)
    expect(visitor.page.locator(".board .line")).to_contain_text("live", timeout=PATIENCE_MS)
    forget(visitor)


@pytest.mark.parametrize("jump_ms", [JUMP_MS, -JUMP_MS], ids=["forwards", "backwards"])
def test_an_answer_is_whole_after_the_clock_jumped(visitor: Visitor, jump_ms: int) -> None:
    visitor.page.add_init_script(
        "const now = Date.now; window.jump = 0; Date.now = () => now.call(Date) + window.jump;"
    )
    speaking(visitor, 60)

    visitor.page.evaluate("(ms) => { window.jump = ms }", jump_ms)

    require_whole(visitor)
    expect(visitor.page.locator(".board .line")).to_contain_text("live", timeout=PATIENCE_MS)
    visitor.says("What is 17 * 23?").waits_for_end(2)
    expect(visitor.answer.last).to_contain_text("391")
