"""Sign-in on the page, at a real provider: what a reader sees before, during and after a session."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.visitor import PATIENCE_MS, in_each_scheme
from tests.identity_provider.provider import CLIENT_ID, CLIENT_SECRET, PASSWORD, IdentityProvider
from tests.journeys.up import Up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

FAINT_TEXTS = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture(scope="module")
def guarded_url(tmp_path_factory: pytest.TempPathFactory, identity_provider: IdentityProvider) -> Iterator[str]:
    """The address of a Callboard that asks for a sign-in."""
    environment = {
        "CALLBOARD_AUTH": "required",
        "CALLBOARD_OIDC_ISSUER": identity_provider.issuer,
        "CALLBOARD_OIDC_CLIENT_ID": CLIENT_ID,
        "CALLBOARD_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "CALLBOARD_OIDC_SCOPES": "openid profile email groups",
        "CALLBOARD_OIDC_ROLES": "ops=operator,admins=admin",
        "ANTHROPIC_API_KEY": "",
        "OPENAI_API_KEY": "",
        "GEMINI_API_KEY": "",
    }
    with Up(tmp_path_factory.mktemp("guarded"), "--port", "0", "--workers", "1", **environment) as up:
        identity_provider.allow(up.address.rstrip("/"))
        yield up.address.rstrip("/")
        up.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


def sign_in(page: Page, url: str, name: str, hash_: str = "") -> None:
    """Sign in as a person does, from the page and back to it."""
    page.goto(f"{url}/{hash_}")
    page.get_by_role("button", name="Sign in", exact=True).click()
    if page.locator("input[name=login]").or_(page.locator(".account-name")).first.get_attribute("name") == "login":
        page.locator("input[name=login]").fill(name)
        page.keyboard.press("Enter")
        page.locator("input[name=password]").fill(PASSWORD)
        page.keyboard.press("Enter")
    expect(page.locator(".account-name")).to_be_visible(timeout=PATIENCE_MS)
    # a message is sent to an agent, so that Enter does nothing before the agents are there
    expect(page.locator("select[aria-label=Agent] option").first).to_be_attached(timeout=PATIENCE_MS)


def test_a_reader_signs_in_talks_and_signs_out(context: BrowserContext, guarded_url: str) -> None:
    page = context.new_page()
    sign_in(page, guarded_url, "olga")

    assert "code=" not in page.url
    expect(page.locator(".account-name")).to_have_text("Olga")
    expect(page.locator(".account-facts")).to_have_text("operator")
    page.get_by_label("Message").fill("What is 2 + 2?")
    page.keyboard.press("Enter")
    expect(page.locator(".end")).to_have_count(1, timeout=60_000)
    thread = page.url
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()

    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('callboard:1:'))") == []
    page.goto(thread)
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_session_that_ends_while_the_page_is_open_is_noticed_and_what_was_typed_stays(
    context: BrowserContext, guarded_url: str
) -> None:
    page, other = context.new_page(), context.new_page()
    sign_in(page, guarded_url, "olga")
    sign_in_again = page.get_by_role("button", name="Sign in again")
    page.get_by_label("Message").fill("A long message that is not sent yet")
    other.goto(guarded_url)
    other.get_by_role("button", name="Sign out everywhere").click()
    expect(other.get_by_role("heading", name="You are signed out")).to_be_visible()
    page.bring_to_front()

    expect(sign_in_again).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_label("Message")).to_have_value("A long message that is not sent yet")
    page.get_by_label("Message").press("End")
    page.keyboard.type(", and more")
    expect(page.locator(".health")).not_to_contain_text("does not answer")
    expect(page.locator(".board .line")).to_contain_text("signed out")
    sign_in_again.click()

    expect(page.locator(".account-name")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_label("Message")).to_have_value("A long message that is not sent yet, and more")


def test_others_runs_show_whose_they_are(browser: Browser, guarded_url: str) -> None:
    contexts = [browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(2)]
    nora, adam = (context.new_page() for context in contexts)
    sign_in(nora, guarded_url, "nora")
    sign_in(adam, guarded_url, "adam")

    nora.get_by_label("Message").fill("What is 3 + 3?")
    nora.keyboard.press("Enter")
    card = adam.locator("a.run", has_text="What is 3 + 3?")

    expect(card.locator(".by")).to_have_text("by nora", timeout=PATIENCE_MS)
    expect(nora.locator("a.run .by:visible")).to_have_count(0)
    card.click()
    expect(adam.locator(".turn.is-user .who")).to_have_text("nora")
    expect(adam.locator(".end")).to_be_visible(timeout=60_000)
    expect(adam.get_by_label("Message")).to_be_hidden()
    adam.reload()
    expect(adam.locator(".turn.is-user .who")).to_have_text("nora")
    for context in contexts:
        context.close()


def test_cookies_of_another_port_sign_no_one_in_and_lock_no_one_out(browser: Browser, guarded_url: str) -> None:
    """Another application on this host begins a sign-in as nora, plants its cookies, and links to the callback."""
    attacker, reader = browser.new_context(), browser.new_context()
    mallory = attacker.new_page()
    with mallory.expect_request(re.compile("/auth/callback[?]")) as callback:
        mallory.route(re.compile("/auth/callback[?]"), lambda route: route.abort())
        mallory.goto(guarded_url)
        mallory.get_by_role("button", name="Sign in", exact=True).click()
        mallory.locator("input[name=login]").fill("nora")
        mallory.keyboard.press("Enter")
        mallory.locator("input[name=password]").fill(PASSWORD)
        mallory.keyboard.press("Enter")
    begun = next(each for each in attacker.cookies(guarded_url) if "callboard_sign_in" in each["name"])
    name = begun["name"].replace("sign_in", "session")
    made_up = f"{name}=cbs_{'0' * 24}_{'0' * 43}; Path=/v1"
    with Planting([f"{begun['name']}={begun['value']}; Path=/", made_up]) as other_port:
        page = reader.new_page()
        page.goto(other_port)
        planted = {each["name"] for each in reader.cookies(f"{guarded_url}/v1/runs")}
        assert {begun["name"], name} <= planted

        page.goto(callback.value.url)  # the attacker's link

        expect(page.get_by_role("alert")).to_contain_text("not begun in this tab")
        page.goto(guarded_url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        sign_in(page, guarded_url, "olga")
        expect(page.locator(".account-name")).to_have_text("Olga")
    attacker.close()
    reader.close()


def test_with_a_planted_session_of_another_person_the_page_asks_for_a_sign_in(
    browser: Browser, guarded_url: str
) -> None:
    attacker, reader = browser.new_context(), browser.new_context()
    mallory = attacker.new_page()
    sign_in(mallory, guarded_url, "nora")
    session = next(each for each in attacker.cookies(guarded_url) if "callboard_session" in each["name"])
    with Planting([f"{session['name']}={session['value']}; Path=/; HttpOnly"]) as other_port:
        page = reader.new_page()
        page.goto(other_port)

        page.goto(guarded_url)

        expect(page.get_by_role("alert")).to_contain_text("not begun on this page")
    attacker.close()
    reader.close()


@pytest.mark.parametrize("width", [320, 1440])
def test_the_sign_in_fits_and_can_be_read(browser: Browser, guarded_url: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(guarded_url)
    page.get_by_text("Use an API key").click()
    page.get_by_label("API key").fill("cbk_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not valid")

    for scheme in in_each_scheme(page):
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert page.evaluate(FAINT_TEXTS) == [], scheme
    context.close()


class Planting:
    """A server of another application, on another port of this host, that sets cookies."""

    def __init__(self, cookies: list[str]) -> None:
        class Planter(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                for cookie in cookies:
                    self.send_header("Set-Cookie", cookie)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Planter)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
