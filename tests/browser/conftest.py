"""A Callboard as `./callboard up` starts it, with the demo model, and a person who looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import Visitor
from tests.bus.crowd import Crowd
from tests.journeys.up import Up

ARGUMENTS = """
    --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run
""".split()

DESK = """\
name: Front desk
description: Passes sums on.
model: auto
system_prompt: You answer.
listed: false
router: [{contains: sum, agent: assistant}]
"""
"""A router, which is started by its name alone."""


@pytest.fixture(scope="session")
def callboard_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Callboard of this session's own."""
    state, agents = tmp_path_factory.mktemp("callboard"), tmp_path_factory.mktemp("agents")
    (agents / "desk.yaml").write_text(DESK)
    keys = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}
    keys["CALLBOARD_AGENTS_DIR"] = f"{agents}:config/agents:config/goals:config/workflows"
    with Up(state, "--port", "0", "--workers", "1", **keys) as up:
        up.ask("assistant", "What is 2 + 2?")  # the workers are warm from here on
        yield up.address
        up.stop()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for all tests of a file."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Counter]:
    """A served page whose runs the test writes itself."""
    with opened_counter(tmp_path) as opened:
        yield opened


@pytest.fixture
def crowd(counter: Counter) -> Crowd:
    """Adds runs beside one that waits for a person."""
    run_id, _ = counter.waiting()
    return Crowd(counter.journal.database, run_id)


@pytest.fixture
def page_url(callboard_url: str) -> str:
    """The address that the visitor opens."""
    return callboard_url


@pytest.fixture
def visitor(browser: Browser, page_url: str) -> Iterator[Visitor]:
    """A visitor at a wide screen; the browser must have had nothing to complain about in the end."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visitor = Visitor(context, page_url)
    yield visitor
    context.close()
    assert visitor.complaints == []
    assert visitor.foreign == []
