"""`./callboard docs` builds the documents as a site: its links lead to pages, and it loads nothing from elsewhere."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from cli.dev.commands.docs import site_paths
from cli.dev.own_files import copy, own_files
from tests.fleet import bare_environment

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout") / "callboard"
    copy(own_files(), folder)
    return folder


def build(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "cli", "docs", "--output", "site"]
    environment = bare_environment(PYTHONPATH=str(checkout))
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(checkout: Path) -> Path:
    """The site, whose builder has looked at each link and at all that pages load."""
    ran = build(checkout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return checkout / "site"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that may ask the site and no other host, and has nothing to complain about."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page, urls, errors = context.new_page(), list[str](), list[str]()
    context.on("requestfinished", lambda request: urls.append(request.url))
    context.on("requestfailed", lambda request: urls.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert [url for url in urls if not url.startswith((address, "blob:", "data:"))] == []
    assert errors == []


def test_every_document_is_a_page(site: Path) -> None:
    pages = {str(path.relative_to(site).with_suffix(".md")) for path in site.rglob("*.html")}

    assert set(site_paths().values()) <= pages


def test_the_site_serves_the_lists_for_language_models_and_what_they_name(site: Path) -> None:
    names = [line.partition("](")[2].partition(")")[0] for line in (site / "llms.txt").read_text().splitlines()]

    assert "tutorials/agent.md" in names
    assert [name for name in names if name and not (site / name).is_file()] == []
    assert "# Tutorial: your first agent" in (site / "llms-full.txt").read_text()


def test_a_phone_in_the_dark_reads_a_page_without_scrolling_sideways(page: Page, address: str) -> None:
    page.goto(f"{address}/tutorials/tool.html")

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.body.getAttribute('data-md-color-scheme')") == "slate"


def test_the_search_finds_a_page_by_its_words(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{address}/index.html")
    for _ in range(40):  # its script is loaded behind the page
        page.keyboard.press("Control+k")
        page.wait_for_timeout(500)
        if page.evaluate("document.activeElement !== document.body"):
            break
    page.keyboard.type("crash lab kills", delay=20)

    page.locator("a", has_text="Kill it in the call").first.wait_for(timeout=20_000)


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ("[x](nowhere.md)", "docs/tools.md has a link to nowhere.md"),
        ("[x](agents.md#nowhere)", "anchor does not exist"),
        ("![x](https://example.org/x.png)", "tools.html loads https://example.org/x.png from another host"),
    ],
)
def test_a_mistake_fails_the_build(mistake: str, sentence: str, checkout: Path, site: Path) -> None:
    document = checkout / "docs" / "tools.md"
    text = document.read_text()
    document.write_text(f"{text}\n{mistake}\n")

    ran = build(checkout)
    document.write_text(text)

    assert ran.returncode == 1
    assert sentence in ran.stderr
    assert (site / "tools.html").exists(), "the site that was built before is there"


def test_a_page_that_the_index_does_not_list_fails_the_build(checkout: Path) -> None:
    orphan = checkout / "docs" / "orphan.md"
    shutil.copy(checkout / "docs" / "page.md", orphan)

    ran = build(checkout)
    orphan.unlink()

    assert ran.returncode == 1
    assert "docs/orphan.md is not in docs/README.md" in ran.stderr
