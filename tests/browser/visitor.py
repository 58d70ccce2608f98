"""A person at the page: what they can do, what they can see, and what the browser complained about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, ViewportSize, expect

PATIENCE_MS = 20_000
WIDE: ViewportSize = {"width": 1440, "height": 900}
Scheme = Literal["light", "dark"]


def in_each_scheme(page: Page) -> Iterator[Scheme]:
    """Show an open page light and dark; without ``reduced_motion`` its colours take a moment to change."""
    for scheme in get_args(Scheme):
        page.emulate_media(color_scheme=scheme)
        yield scheme


class Visitor:
    """A page of Callboard in a browser of its own."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.complaints: list[str] = []
        """Errors and violations the browser reported."""
        self.foreign: list[str] = []
        """Requests that left the page's own origin."""
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        context.on("request", self._saw_request)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _saw_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith("blob:"):
            self.foreign.append(request.url)

    # --- doing

    def opens(self, hash_: str = "") -> Visitor:
        """Load the page, with its agents known."""
        self.page.goto(f"{self.url}/{hash_}")
        expect(self.agents.locator("option").first).to_be_attached(timeout=PATIENCE_MS)
        return self

    def says(self, text: str, agent: str | None = None) -> Visitor:
        """Choose an agent and send a message."""
        if agent is not None:
            self.agents.select_option(agent)
        self.page.get_by_label("Message").fill(text)
        self.page.keyboard.press("Enter")
        return self

    def waits_for_end(self, runs: int = 1) -> Visitor:
        """Wait until so many runs of the conversation have ended."""
        expect(self.page.locator(".end")).to_have_count(runs, timeout=PATIENCE_MS)
        return self

    def rejects(self, reason: str = "") -> Visitor:
        """Reject the call that the last run asks about."""
        card = self.turns.last.locator(".ask")
        card.locator("[data-key=reject]").click(timeout=PATIENCE_MS)
        card.locator("textarea").fill(reason)
        card.locator("[data-key=confirm]").click()
        return self

    def presses(self, *keys: str) -> Visitor:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
        return self

    # --- seeing

    @property
    def agents(self) -> Locator:
        return self.page.locator("select[aria-label=Agent]")

    @property
    def turns(self) -> Locator:
        return self.page.locator(".run-turn")

    @property
    def answer(self) -> Locator:
        """The last run's text."""
        return self.turns.last.locator(".text")

    def stops_this_run(self) -> None:
        """Stop the run whose view is shown."""
        self.stop.click()
        self.page.get_by_role("dialog").get_by_role("button", name="Stop the run").click()

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    def lane(self, name: str) -> Locator:
        """The cards of one lane of the board."""
        return self.page.locator(f".lane[data-lane={name}] a.run")

    @property
    def thread_id(self) -> str:
        return self.page.url.split("#/thread/")[1].split("/")[0]

    def asks(self, path: str) -> Any:
        """Return what the server answers to a GET."""
        return self.context.request.get(f"{self.url}{path}").json()

    def module(self, script: str, argument: Any = None) -> Any:
        """Run ``script``, the body of an async function over the page's modules, and return what it returns."""
        return self.page.evaluate(f"async (given) => {{ {script} }}", argument)


class ReturningVisitor(Visitor):
    """A visitor who leaves the page open, and goes back to its start for the next test.

    To load the page's modules in a new browser context takes 0.6 s of CPU, more than most tests of it take themselves.
    """

    def opens(self, hash_: str = "#/") -> Visitor:
        """Go to another address of the page; without a fragment the browser would load it anew."""
        return super().opens(hash_)

    def returns(self) -> ReturningVisitor:
        """Be at the start, with nothing on the screen that an earlier test showed."""
        if self.page.viewport_size != WIDE:
            self.page.set_viewport_size(WIDE)
        self.opens()
        expect(self.page.locator(".welcome .agent").first).to_be_visible(timeout=PATIENCE_MS)
        self.page.evaluate("document.activeElement.blur()")  # as where a conversation is the first that is opened
        return self

    def leaves(self) -> None:
        """Take back what a test did to the page's requests, and forget what the browser complained about."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.complaints.clear()
        self.foreign.clear()


class OpenPage:
    """The page of a file of tests, opened when the first test needs it, and anew after a test that failed."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self._visitor: ReturningVisitor | None = None

    @contextmanager
    def visitor(self, session: pytest.Session) -> Iterator[Visitor]:
        """Yield the visitor, at the start of the page."""
        if self._visitor is None:
            self._visitor = ReturningVisitor(self._browser.new_context(viewport=WIDE), self._url)
        visitor, failed = self._visitor, session.testsfailed
        try:
            yield visitor.returns()
            visitor.leaves()
        except BaseException:
            self.close()
            raise
        if session.testsfailed > failed:
            self.close()

    def close(self) -> None:
        """Close the page, if it is open."""
        if self._visitor is not None:
            self._visitor.context.close()
        self._visitor = None
