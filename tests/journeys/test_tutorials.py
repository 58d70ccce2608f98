"""The tutorials, played as a reader plays them: every block in its order, in a fresh checkout of Callboard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect, sync_playwright

from cli.dev.own_files import copy, own_files
from config.folders import ROOT
from config.redis.url import broker_form
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.fleet import bare_environment, keep_turn
from tests.journeys.tutorial import Reader
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

TUTORIALS = ROOT / "docs" / "tutorials"
ADDRESS = "127.0.0.1:8000"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader in front of a fresh checkout."""
    checkout, port = tmp_path / "callboard", free_port()
    copy(own_files(), checkout)
    (checkout / "tests" / "conftest.py").write_text("raise ImportError('a reader has no package of the tests')\n")
    keep_turn(checkout / ".callboard")
    settings = {"CALLBOARD_PORT": str(port), "CALLBOARD_WORKERS": "1", "TERM": "xterm"}
    environment = bare_environment(PATH=os.environ["PATH"], HOME=str(tmp_path), **settings)
    del environment["PYTHONPATH"]
    with Reader(checkout, {ADDRESS: f"127.0.0.1:{port}"}, **environment) as reader:
        yield reader


@contextmanager
def browsing(chromium: str) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_context()
        browser.close()


@pytest.mark.parametrize("name", ["agent", "tool", "observer", "workflow"])
def test_a_reader_who_types_what_a_tutorial_says_sees_what_it_says(name: str, reader: Reader) -> None:
    reader.reads((TUTORIALS / f"{name}.md").read_text())


@pytest.mark.parametrize("name", ["celery", "flask", "fastapi", "django"])
def test_a_reader_with_an_application_sees_what_its_tutorial_says(
    name: str, reader: Reader, redis_url: str, chromium: str
) -> None:
    port = free_port()
    reader.replaced |= {"redis://127.0.0.1:6379/0": broker_form(redis_url), ":5000": f":{port}", " 5000": f" {port}"}
    reader.replaced |= {"/srv/callboard": str(reader.folder), "/srv/shop": str(reader.folder.with_name("shop"))}
    reader.replaced["/srv/storefront"] = str(reader.folder.with_name("storefront"))

    def order_in_a_browser(reader: Reader) -> None:
        with browsing(chromium) as context:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{port}")
            page.get_by_role("button", name="Order it").click()
            expect(page.locator("#answer")).to_contain_text("one mug is packed", timeout=PATIENCE_MS)
            expect(page.locator("#answer")).to_contain_text("succeeded", timeout=PATIENCE_MS)

    reader.reads((TUTORIALS / "embedding" / f"{name}.md").read_text(), at={"4. Break it": order_in_a_browser})


def test_a_reader_answers_a_call_on_the_page_at_the_terminal_and_over_http(reader: Reader, chromium: str) -> None:
    clicked = []

    def answer_on_the_page(reader: Reader) -> None:
        with browsing(chromium) as context:
            visitor = Visitor(context, f"http://{reader.replaced[ADDRESS]}").opens()
            visitor.agents.select_option("service")
            visitor.page.locator(".starter", has_text="Refund: order 1042, euros 120").click()
            visitor.turns.last.locator("[data-key=approve]").click(timeout=PATIENCE_MS)
            expect(visitor.answer).to_contain_text("order 1042: 120 euros are paid back", timeout=PATIENCE_MS)
            clicked.append("approve")

    reader.reads((TUTORIALS / "approval.md").read_text(), at={"2. Answer on the page": answer_on_the_page})

    assert clicked == ["approve"]
