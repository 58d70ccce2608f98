"""The fleet: workers, queues, a day's plots with a brush, parts, and what the doctor says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from sqlalchemy import update

from bus.journal.stores import WorkerRow
from bus.journal.tailing import ObserverCursors, Series, add_values
from config.clock import epoch_ms
from config.database.tables import workers
from tests.browser.answering import Counter
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme
from tests.bus.crowd import Crowd

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"
SLOT_S = 60
OF_RUNS = (("kind", "agent"), ("agent", "support"), ("tenant", "default"))


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def part(visitor: Visitor, name: str) -> Locator:
    return visitor.page.get_by_role("region", name=name)


def worker(counter: Counter, name: str, *, silent_ms: int = 0, **fields: Any) -> None:
    facts: dict[str, Any] = {"host": "oslo-1", "pid": 7, "pool": "threads", "slots": 20, "busy": 0, "queue": "runs"}
    counter.journal.stores.workers.renew(WorkerRow(id=name, **facts | {"version": "0.1.0"} | fields))
    with counter.journal.database.write() as connection:
        connection.execute(update(workers).where(workers.c.id == name).values(seen_ms=workers.c.seen_ms - silent_ms))


def counted(counter: Counter, ago_s: int, **numbers: float) -> None:
    """Count runs that ended so long ago, by status."""
    at_ms = epoch_ms() - ago_s * 1000
    counts = {
        (Series("runs_ended", (*OF_RUNS, ("status", status))), at_ms): number for status, number in numbers.items()
    }
    with counter.journal.database.write() as connection:
        add_values(connection, counts)


def fits_the_width(page: Page) -> bool:
    places = "[document.documentElement, document.querySelector('.view-scroll')]"
    return bool(page.evaluate(f"{places}.every((place) => place.scrollWidth <= place.clientWidth)"))


def test_workers_are_shown_with_what_is_wrong_with_each(visitor: Visitor, counter: Counter) -> None:
    worker(counter, "own_steady", busy=5, version="9.9.9")
    worker(counter, "own_leaves", busy=2, draining=True)
    worker(counter, "own_gone", silent_ms=60_000)
    worker(counter, "own_full", busy=20, host=HOSTILE)

    visitor.opens("#/fleet")

    rows = part(visitor, "Workers").get_by_role("row")
    expect(rows).to_have_count(5)
    expect(part(visitor, "Workers")).to_contain_text("2 alive, 1 drains, 1 lost · 25 of 40 slots taken")
    expect(rows.filter(has_text="steady")).to_contain_text("9.9.9")
    expect(rows.filter(has_text="steady")).to_contain_text("5 of 20")
    expect(rows.filter(has_text="leaves")).to_contain_text("drains: 2 runs left")
    expect(rows.filter(has_text="n_gone")).to_contain_text("lost: no sign for 1 min")
    expect(rows.filter(has_text="n_full")).to_contain_text("full")
    expect(rows.filter(has_text="n_full")).to_contain_text("<img src=x onerror=alert(1)>⟨U+202E⟩gnp")
    expect(part(visitor, "Doctor")).to_contain_text("1 worker was lost within an hour (oslo-1 process 7)")
    assert visitor.complaints == []


def test_a_queue_without_a_worker_says_what_to_start_and_leads_to_its_runs(visitor: Visitor, crowd: Crowd) -> None:
    crowd.add("ocr", 3, created_ago_ms=600_000, status="queued", reason=None, queue="ocr")

    visitor.opens("#/fleet")

    row = part(visitor, "Queues").get_by_role("row").filter(has_text="ocr")
    expect(row).to_contain_text("10 min")
    expect(row.locator("code")).to_have_text("./callboard worker --queues ocr")
    doctor = part(visitor, "Doctor")
    expect(doctor).to_contain_text("3 runs and 0 messages waiting in 'ocr'")
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    doctor.locator(".finding").filter(has_text="'ocr'").get_by_role("button", name="Copy").click()
    assert visitor.page.evaluate("navigator.clipboard.readText()") == "./callboard worker --queues ocr"
    row.get_by_role("link", name="ocr").click()
    expect(visitor.page.get_by_role("table", name="Runs").locator("tr.line-row")).to_have_count(3)


def test_a_time_that_is_chosen_leads_to_its_runs(visitor: Visitor, counter: Counter, crowd: Crowd) -> None:
    ago_s = SLOT_S // 2 + epoch_ms() // 1000 % SLOT_S  # in the slot before this one, which may end meanwhile
    counted(counter, ago_s, succeeded=2, failed=3)
    facts = {"status": "failed", "reason": "model_failed", "error_code": "model_failed"}
    crowd.add("failed", 3, ago_s * 1000, ago_s * 1000, **facts)
    visitor.opens("#/fleet?in=1h")
    plot = part(visitor, "What happened").get_by_role("group", name="Runs:")
    expect(plot.locator("canvas")).to_be_visible()

    plot.focus()
    visitor.presses("End", "ArrowLeft", "ArrowLeft", "Shift+ArrowRight", "Shift+ArrowRight")

    brushed = visitor.page.locator(".brushed")
    expect(brushed).to_contain_text("3 failed, 2 runs ended well")
    brushed.get_by_role("link", name="Runs that failed then").press("Enter")
    expect(visitor.page.get_by_role("table", name="Runs").locator("tr.line-row")).to_have_count(3)
    assert "since=" in visitor.page.url
    assert "until=" in visitor.page.url
    visitor.page.go_back()
    expect(visitor.page.get_by_role("heading", name="The fleet")).to_be_visible()


def test_an_installation_of_today_begins_with_an_hour_and_keeps_what_is_chosen(
    visitor: Visitor, counter: Counter
) -> None:
    counted(counter, 600, succeeded=2)
    visitor.opens("#/fleet")
    lengths = visitor.page.get_by_role("navigation", name="Length of time").get_by_role("link")
    expect(lengths.filter(has_text="1 h")).to_have_attribute("aria-current", "page")

    lengths.filter(has_text="24 h").click()

    expect(lengths.filter(has_text="24 h")).to_have_attribute("aria-current", "page")
    expect(part(visitor, "What happened")).to_contain_text("2 ended")


def test_an_observer_that_is_behind_is_shown_with_how_far(visitor: Visitor, counter: Counter) -> None:
    cursors = ObserverCursors(counter.journal.database)
    cursors.register("slow", "webhooks", "reliable", None, "beginning")
    cursors.register("idle", "logger", "reliable", None, "beginning")
    cursors.pause("idle", is_paused=True)
    counter.waiting()

    visitor.opens("#/fleet")

    line = part(visitor, "Observers").get_by_role("listitem").filter(has_text="slow")
    expect(line).to_contain_text("stopped")
    expect(line).to_contain_text("look at it")
    idle = part(visitor, "Observers").get_by_role("listitem").filter(has_text="idle")
    expect(idle).to_contain_text("paused")
    expect(part(visitor, "Doctor")).to_contain_text("./callboard observe slow")


def test_without_an_observer_of_metrics_the_view_says_how_to_start_one(visitor: Visitor) -> None:
    visitor.opens("#/fleet")

    expect(part(visitor, "What happened")).to_contain_text("./callboard observe metrics")
    expect(part(visitor, "What happened")).to_contain_text("No run began or ended in this time.")
    expect(part(visitor, "Workers")).to_contain_text("No worker gave a sign of life within an hour.")


def test_what_a_reader_may_not_see_is_said_and_the_rest_stays(visitor: Visitor) -> None:
    for path in ("metrics", "doctor"):
        visitor.page.route(f"**/v1/{path}*", _refuse)

    visitor.opens("#/fleet")

    expect(part(visitor, "Doctor")).to_contain_text("This is for the operators of the whole deployment.")
    expect(part(visitor, "What happened")).to_contain_text("This is for the operators of the whole deployment.")
    expect(part(visitor, "Queues")).to_contain_text("runs")
    visitor.complaints.clear()  # the browser's own lines about 403


def test_a_server_that_is_away_leaves_what_was_read_and_says_so(visitor: Visitor, counter: Counter) -> None:
    worker(counter, "own_steady")
    visitor.opens("#/fleet")
    expect(part(visitor, "Workers")).to_contain_text("steady")

    visitor.page.route("**/v1/workers", lambda route: route.abort())

    expect(part(visitor, "Workers")).to_contain_text("Not current:", timeout=PATIENCE_MS)
    expect(part(visitor, "Workers")).to_contain_text("steady")
    visitor.complaints.clear()


def test_no_page_scrolls_sideways(visitor: Visitor, counter: Counter) -> None:
    worker(counter, "own_steady", host="a-host-with-a-very-long-name." * 6, queues=("a-queue" * 12,))
    counted(counter, 600, succeeded=10**7)
    visitor.opens("#/fleet")
    expect(part(visitor, "Workers")).to_contain_text("steady")

    for width in (390, 768, 1440, 1920):
        visitor.page.set_viewport_size({"width": width, "height": 900})
        for _scheme in in_each_scheme(visitor.page):
            expect(visitor.page.locator(".plot canvas").first).to_be_visible()
            assert fits_the_width(visitor.page), width
            assert visitor.page.evaluate(CONTRAST) == []


def _refuse(route: Route) -> None:
    problem = {"code": "forbidden", "title": "Forbidden", "status": 403, "detail": "Not yours."}
    route.fulfill(status=403, content_type="application/problem+json", json=problem)
