"""What the view of a run says beside its timeline: usage, decisions, log, related runs, comparison, and its files."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from playwright.sync_api import Locator, expect

from agents.recording.recording import read_recording
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture
def run_id(visitor: Visitor) -> str:
    """A run of the page's own Callboard that has called a tool."""
    visitor.opens()
    visitor.says("What is 17 * 23?", agent="assistant").waits_for_end()
    run_id = visitor.asks(f"/v1/runs?thread_id={visitor.thread_id}")["runs"][0]["run_id"]
    visitor.opens(f"#/run/{run_id}")
    return str(run_id)


def tab(visitor: Visitor, name: str) -> None:
    visitor.page.get_by_role("navigation", name="Of this run").get_by_role("link", name=name).click()


def rows(visitor: Visitor, table: str) -> Locator:
    return visitor.page.get_by_role("table", name=table).locator("tbody tr")


def test_its_usage_adds_up(visitor: Visitor, run_id: str) -> None:
    tab(visitor, "Usage")

    expect(rows(visitor, "Usage")).to_have_count(2, timeout=PATIENCE_MS)
    written = [int(text) for text in rows(visitor, "Usage").locator("td:nth-child(5)").all_inner_texts()]
    usage = visitor.asks(f"/v1/runs/{run_id}")["usage"]
    assert sum(written) == usage["output_tokens"]
    expect(visitor.page.locator("tfoot td:nth-child(5)")).to_have_text(str(usage["output_tokens"]))


def test_the_policy_decided_about_each_call(visitor: Visitor, run_id: str) -> None:
    tab(visitor, "Decisions")

    expect(rows(visitor, "Decisions")).to_have_count(3, timeout=PATIENCE_MS)
    expect(rows(visitor, "Decisions").nth(1)).to_contain_text("calculator")


def test_a_step_has_the_policys_decision_and_the_conversation_leads_to_all(visitor: Visitor, run_id: str) -> None:
    visitor.page.locator(".step.is-tool").get_by_role("button").click()
    panel = visitor.page.get_by_role("complementary", name="The chosen step")
    expect(panel).to_contain_text("allow · default", timeout=PATIENCE_MS)

    visitor.page.get_by_role("link", name="Conversation", exact=True).click()
    visitor.page.get_by_text("Policy decisions").click()

    expect(rows(visitor, "Decisions")).to_have_count(3, timeout=PATIENCE_MS)


def test_its_log_is_searched_and_saved(visitor: Visitor, run_id: str) -> None:
    tab(visitor, "Log")
    log = visitor.page.get_by_label("The log")
    expect(log).to_contain_text("succeeded", timeout=PATIENCE_MS)

    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("button", name="Download").click()
    visitor.page.get_by_label("Find lines").fill("TOOL_RESULT")

    expect(log).not_to_contain_text("succeeded")
    expect(log).to_contain_text("tool_result")
    assert download.value.suggested_filename == f"{run_id}.log"
    assert "succeeded" in download.value.path().read_text()


def test_it_is_saved_for_a_test_and_as_its_events(visitor: Visitor, run_id: str) -> None:
    with visitor.page.expect_download() as recording:
        visitor.page.get_by_role("button", name="Make a test of the run").click()
    tab(visitor, "Events")
    with visitor.page.expect_download() as events:
        visitor.page.get_by_role("button", name="Download").click()

    assert read_recording(recording.value.path()).run.run_id == run_id
    content = orjson.loads(events.value.path().read_bytes())
    assert (content["run"]["run_id"], content["events"][-1]["type"]) == (run_id, "end")


def test_a_related_run_is_compared_with_it(visitor: Visitor, run_id: str) -> None:
    visitor.page.get_by_role("link", name="Conversation", exact=True).click()
    visitor.says("What is 2 + 2 and 3 + 3?").waits_for_end(2)
    visitor.opens(f"#/run/{run_id}?tab=related")
    expect(visitor.page.get_by_role("heading", name="In the same conversation")).to_be_visible(timeout=PATIENCE_MS)

    visitor.page.get_by_role("link", name="Compare with").click()

    facts = rows(visitor, "Facts")
    expect(facts.filter(has_text="input")).to_contain_text("differs", timeout=PATIENCE_MS)
    expect(facts.filter(has_text="status")).not_to_contain_text("differs")
    steps = rows(visitor, "Steps")
    expect(steps).to_have_count(4)
    expect(steps.nth(2).locator("td").first).to_have_text("–")


def test_a_run_that_is_not_there_is_not_compared(visitor: Visitor, run_id: str) -> None:
    visitor.opens(f"#/run/{run_id}?tab=compare&with=run_none")

    expect(visitor.page.locator(".run-tab").get_by_text("run_unknown")).to_be_visible(timeout=PATIENCE_MS)
    visitor.complaints.clear()  # the browser's own lines about 404


@pytest.mark.parametrize("width", [360, 1440])
def test_each_tab_fits_and_has_the_contrast_of_aa(visitor: Visitor, run_id: str, width: int) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 800})
    for name in ("usage", "decisions", "log", "related", f"compare&with={run_id}"):
        visitor.opens(f"#/run/{run_id}?tab={name}")
        expect(visitor.page.locator(".loaded").get_by_role("status")).to_have_count(0, timeout=PATIENCE_MS)
        for _ in in_each_scheme(visitor.page):
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
            assert visitor.page.evaluate(CONTRAST) == []
