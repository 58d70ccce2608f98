"""The files of the page as a browser loads them: how much it receives, headers included."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import Visitor
from tests.journeys.neighbour import until
from web.page_files import STATIC
from web.page_modules import IMPORT

pytestmark = pytest.mark.browser

MOST_BYTES = 60 * 1024
MOST_BYTES_IN_ALL = 150 * 1024
"""Of the compressed files, with all that views load, but for the library that draws plots."""
BODIES = """
  [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(({ name, entryType }) => entryType === "navigation" || name.includes("/static/"))
    .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)
"""
MOST_REQUESTS = 16
LATE_ONES = """
  ["late.js", "late.css"].every((file) => performance.getEntriesByType("resource")
    .some(({ name, encodedBodySize }) => name.includes(`/static/${file}`) && encodedBodySize > 0))
"""
"""The browser lists a file once it has it whole, which may be behind the first look of what the file makes."""


@dataclass
class Traffic:
    """The requests of a page, and the bytes received for each, as the browser counts them."""

    page: Page
    urls: dict[str, str] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        devtools = self.page.context.new_cdp_session(self.page)
        devtools.send("Network.enable")
        devtools.on("Network.requestWillBeSent", lambda event: self._began(event["requestId"], event["request"]["url"]))
        devtools.on("Network.responseReceived", lambda event: self._grew(event["requestId"], event["response"]))
        devtools.on("Network.loadingFinished", lambda event: self._grew(event["requestId"], event))

    def _began(self, request: str, url: str) -> None:
        self.urls[request] = url

    def _grew(self, request: str, event: dict[str, int]) -> None:
        self.received[request] = event["encodedDataLength"]

    def clear(self) -> None:
        self.urls.clear()
        self.received.clear()


def test_no_name_that_modules_import_is_one_that_browsers_have(visitor: Visitor) -> None:
    """It stands beside all modules of its file, and a module that means the browser's would get it."""
    texts = [path.read_text() for path in STATIC.rglob("*.js")]
    names = sorted({name for text in texts for words, _ in IMPORT.findall(text) for name in words.split(", ")})
    visitor.opens()

    assert len(names) > 300
    assert visitor.page.evaluate("(names) => names.filter((name) => name in globalThis)", names) == []


def is_compressed_further(visitor: Visitor) -> bool:
    urls = [f"{visitor.url}/static/{name}" for name in ("index.js", "index.css", "late.js", "late.css")]
    answers = [visitor.context.request.get(url, headers={"Accept-Encoding": "br, gzip"}) for url in urls]
    return all(answer.headers["content-encoding"] == "br" for answer in answers)


def test_the_first_load_is_small_and_the_second_loads_no_file_again(visitor: Visitor) -> None:
    visitor.context.request.get(visitor.url)  # the first one makes the server compress
    until(lambda: is_compressed_further(visitor), 60, "the files are compressed by Brotli")
    traffic = Traffic(visitor.page)
    visitor.opens()
    received = {url: traffic.received.get(request, 0) for request, url in traffic.urls.items()}
    page = sum(size for url, size in received.items() if "/v1/" not in url and not url.endswith("/health"))
    print(f"{page:,} bytes of the page and {sum(received.values()) - page:,} of answers in {len(received)} requests")
    traffic.clear()

    visitor.opens()
    visitor.opens("#/board")
    expect(visitor.page.get_by_role("heading", name="The board")).to_be_visible()
    visitor.page.wait_for_function(LATE_ONES)
    whole = visitor.page.evaluate(BODIES)
    print(f"{whole:,} bytes of the compressed files of the page with its views")

    files = {url: traffic.received.get(request, 0) for request, url in traffic.urls.items() if "/static/index." in url}
    assert 2 * MOST_BYTES < whole <= MOST_BYTES_IN_ALL, f"{whole:,} bytes"
    assert page <= MOST_BYTES, f"{page:,} bytes"
    assert len(received) <= MOST_REQUESTS
    assert files
    assert not any(files.values()), files
