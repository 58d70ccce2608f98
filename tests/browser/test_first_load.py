"""How much a reader's browser receives until the page is there, headers included."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page

from tests.browser.visitor import Visitor

pytestmark = pytest.mark.browser

MOST_BYTES = 120 * 1024
MOST_REQUESTS = 90


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


def test_the_first_load_is_small_and_the_second_loads_no_file_again(visitor: Visitor) -> None:
    traffic = Traffic(visitor.page)
    visitor.opens()
    first, requests = sum(traffic.received.values()), len(traffic.urls)
    traffic.clear()

    visitor.opens()

    files = {url: traffic.received.get(request, 0) for request, url in traffic.urls.items() if "/static/" in url}
    assert first <= MOST_BYTES, f"{first:,} bytes"
    assert requests <= MOST_REQUESTS
    assert files
    assert not any(files.values()), files
