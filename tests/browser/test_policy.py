"""Calls that the policy changed or blocked, on the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_page_looks import FAINT_TEXTS, OVERFLOW
from tests.browser.visitor import Visitor, in_each_scheme
from tests.journeys.up import Up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

RULES = """
rules:
  - {name: notes-in-one-folder, when: {tools: [write_file]}, verdict: constrain,
     computed: {path: "'notes/' + arguments.path"}, reason: Agents write <b>notes</b> only.}
  - {name: no-reading, when: {tools: [read_file]}, verdict: block, reason: Files are not read here.}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("policy")
    (state / "policy.yaml").write_text(RULES)
    keys = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}
    with Up(state, "--port", "0", "--workers", "1", CALLBOARD_POLICY=str(state / "policy.yaml"), **keys) as up:
        yield up.address
        up.stop()


def test_the_page_says_what_the_policy_changed_and_blocked(browser: Browser, address: str) -> None:
    visitor = Visitor(browser.new_context(viewport={"width": 390, "height": 844}), address).opens()

    visitor.says("Write buy milk to list.txt, then read it", agent="assistant").waits_for_end()

    lines = visitor.page.locator(".tool-policy")
    expect(lines).to_have_text(
        [
            "Policy: changed path. Agents write <b>notes</b> only. notes-in-one-folder",
            "Policy: blocked. no-reading",
        ]
    )
    for scheme in in_each_scheme(visitor.page):
        assert visitor.page.evaluate(OVERFLOW) <= 0, scheme
        assert visitor.page.evaluate(FAINT_TEXTS) == [], scheme
    assert visitor.complaints == []
