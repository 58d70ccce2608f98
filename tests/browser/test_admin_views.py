"""Observers, the audit log and API keys on the page: what administrators see and do, and what others see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import insert

from bus.journal.tailing import ObserverCursors
from config.database.tables import failed_deliveries
from config.identity.principal import Role
from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import Visitor, in_each_scheme
from tests.web.conftest import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
REASON = "the shop answered 503 <b>busy</b>"


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """A page that asks for a key, with two observers, of which one has a dead letter."""
    with opened_counter(tmp_path_factory.mktemp("admin"), auth="required") as opened:
        for name in ("shop", "traces"):
            ObserverCursors(opened.journal.database).register(name, "webhook", "reliable", "{}", "now")
        letter = {"observer": "shop", "partition": 0, "position": 3, "run_id": "run_1", "seq": 3, "type": "end"}
        times = {"state": "dead", "attempts": 5, "first_ms": 1000, "next_ms": None, "error": REASON}
        with opened.journal.database.write() as connection:
            connection.execute(insert(failed_deliveries).values(**letter, **times))
        yield opened


def visitor_of(browser: Browser, counter: Counter, *roles: Role) -> Visitor:
    """Return a visitor with a key of these roles, who has opened nothing yet."""
    visitor = Visitor(browser.new_context(viewport={"width": 1440, "height": 900}), counter.url)
    visitor.page.goto(f"{counter.url}/#token={counter.key('mara', *roles)}")
    return visitor


@pytest.fixture
def admin(browser: Browser, counter: Counter) -> Iterator[Visitor]:
    visitor = visitor_of(browser, counter, Role.ADMIN)
    yield visitor
    visitor.context.close()
    assert visitor.complaints == []


def test_an_observer_says_what_is_wrong_and_which_command_helps(admin: Visitor) -> None:
    admin.opens("#/observers")
    rows = admin.page.get_by_role("list", name="Observers").get_by_role("link")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("needs a look")

    rows.filter(has_text="shop").click()

    article = admin.page.get_by_role("article", name="Observer shop")
    expect(article).to_contain_text("./callboard observers feed shop --all")
    letters = admin.page.get_by_role("table", name="Failed deliveries").locator("tbody tr")
    expect(letters).to_contain_text([REASON])
    rows.filter(has_text="traces").click()
    expect(admin.page.get_by_role("article", name="Observer traces")).to_contain_text("No delivery has failed.")


def test_a_key_is_shown_once_and_revoked_after_a_question(admin: Visitor) -> None:
    admin.opens("#/keys")
    admin.page.get_by_role("button", name="New key").click()
    admin.page.get_by_role("button", name="Create the key").click()
    expect(admin.page.get_by_text("This is needed.")).to_be_visible()
    admin.page.get_by_label("Acts as").fill("a name with spaces")
    admin.page.get_by_role("button", name="Create the key").click()
    expect(admin.page.get_by_text("Not created")).to_be_visible()
    admin.complaints.clear()  # the browser's own line about 400
    admin.page.get_by_label("Acts as").fill("ci")
    admin.page.get_by_label("viewer").check()
    admin.page.get_by_role("button", name="Create the key").click()

    key = admin.page.locator(".key-text code").inner_text()
    headers = {"Authorization": f"Bearer {key}"}
    assert admin.context.request.get(f"{admin.url}/v1/me", headers=headers).ok
    admin.page.get_by_role("button", name="I have it: show it no more").click()
    expect(admin.page.get_by_text(key)).to_have_count(0)
    rows = admin.page.get_by_role("table", name="API keys").get_by_role("row")
    row = rows.filter(has=admin.page.get_by_text("ci", exact=True))
    row.get_by_role("button", name="Revoke the key of ci").click()
    admin.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    admin.page.get_by_role("button", name="that ended").click()
    expect(row).to_contain_text("revoked")
    eventually(lambda: admin.context.request.get(f"{admin.url}/v1/me", headers=headers).status == 401)


def test_the_log_is_found_by_its_fields_opened_and_verified(admin: Visitor, counter: Counter) -> None:
    counter.key("ben", Role.VIEWER)
    admin.opens("#/audit")
    rows = admin.page.get_by_role("table", name="Entries of the audit log").locator("tr.line-row")
    expect(rows.first).to_be_visible()

    admin.presses("/")
    admin.page.keyboard.type("key.created")
    admin.presses("Enter")
    admin.page.wait_for_url("**/#/audit?action=key.created")
    expect(rows.first).to_contain_text("key.created")
    admin.page.get_by_role("heading", name="Audit log").click()
    admin.presses("j", "Enter")
    expect(admin.page.get_by_label("The entry")).to_contain_text('"action": "key.created"')
    rows.first.locator("td.c-facts, td.c-at").first.click()
    expect(admin.page.get_by_label("The entry")).to_be_hidden()
    admin.page.set_viewport_size({"width": 390, "height": 844})
    rows.first.locator("td.c-facts").click()
    expect(admin.page.get_by_label("The entry")).to_be_in_viewport()
    admin.page.get_by_role("button", name="Verify").click()
    expect(admin.page.get_by_text("The chain is whole")).to_be_visible()

    with counter.journal.database.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER audit_refuses_update")
        connection.exec_driver_sql("UPDATE audit SET principal = 'eve' WHERE number = 1")
    admin.page.get_by_role("button", name="Verify").click()
    expect(admin.page.get_by_text("Broken at entry 1")).to_be_visible()
    admin.page.get_by_label("Action").fill("no.such.action")
    admin.page.get_by_role("button", name="Find").click()
    expect(admin.page.get_by_text("No entry fits.")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#/keys", "Keys are for administrators"),
        ("#/audit", "The audit log is for administrators"),
        ("#/observers", "This could not be read"),
    ],
)
def test_others_see_whom_a_view_is_for(browser: Browser, counter: Counter, address: str, words: str) -> None:
    visitor = visitor_of(browser, counter, Role.VIEWER)

    visitor.opens(address)

    expect(visitor.page.get_by_text(words)).to_be_visible()
    expect(visitor.page.get_by_role("button", name="New key")).to_have_count(0)
    visitor.context.close()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("address", ["#/observers/shop", "#/audit", "#/keys"])
def test_it_fits_and_every_text_has_the_contrast_of_aa(admin: Visitor, width: int, address: str) -> None:
    admin.page.set_viewport_size({"width": width, "height": 800})
    admin.opens(address)
    expect(admin.page.locator(".view-head")).to_be_visible()
    expect(admin.page.locator(".view .loading")).to_have_count(0)

    for _ in in_each_scheme(admin.page):
        assert admin.page.evaluate("document.documentElement.scrollWidth") <= width
        assert admin.page.evaluate(CONTRAST) == []
