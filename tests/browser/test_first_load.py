"""How much a reader's browser receives until the page is there, headers included."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page

from tests.browser.visitor import Visitor
from tests.journeys.neighbour import until

pytestmark = pytest.mark.browser

MOST_BYTES = 60 * 1024
MOST_REQUESTS = 16


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


def is_compressed_further(visitor: Visitor) -> bool:
    answer = visitor.context.request.get(f"{visitor.url}/static/index.js", headers={"Accept-Encoding": "br, gzip"})
    return answer.headers["content-encoding"] == "br"


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

    files = {url: traffic.received.get(request, 0) for request, url in traffic.urls.items() if "/static/" in url}
    assert page <= MOST_BYTES, f"{page:,} bytes"
    assert len(received) <= MOST_REQUESTS
    assert files
    assert not any(files.values()), files
