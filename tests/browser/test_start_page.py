"""The start page with many agents, two of one name and one broken; what it says while workers start; a run's id."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

WATCH_FOR_COPIED = """() => {
  const watch = new MutationObserver(() => {
    window.isCopied ||= document.querySelector(".run-id").textContent === "Copied";
  });
  watch.observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
AGENTS = "Atlas Auditor Billing Calendar Office Planner Researcher Support Translator Writer"
DESKS = {f"desk-{number}": f"Desk {number}" for number in range(10, 39)}
NAMES = {name.lower(): name for name in AGENTS.split()} | {"support-emea": "support"} | DESKS
BROKEN = "name: Legal\nmodle: openai/gpt-5-mini\nsystem_prompt: You answer.\n"


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """A page with forty agents."""
    folder = tmp_path_factory.mktemp("many")
    with opened_counter(folder) as opened:
        for agent_id, name in NAMES.items():
            definition = f"name: {name}\ndescription: Answers.\nmodel: openai/gpt-5-mini\nsystem_prompt: You answer.\n"
            definition += f"starters: [Begin with {name}]\n"
            (folder / "agents" / f"{agent_id}.yaml").write_text(definition)
        (folder / "agents" / "legal.yaml").write_text(BROKEN)
        yield opened


@pytest.fixture
def visitor(browser: Browser, counter: Counter) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1200, "height": 700})
    visitor = Visitor(context, counter.url)
    yield visitor
    context.close()
    assert visitor.complaints == []


def test_agents_of_one_name_are_distinguished(visitor: Visitor) -> None:
    visitor.opens()

    cards = visitor.page.locator(".agent").filter(has_text="upport")
    expect(cards).to_have_count(2)
    expect(cards.locator(".agent-id")).to_have_text(["support", "support-emea"])
    options = [text for text in visitor.agents.locator("option").all_text_contents() if "upport" in text]
    assert options == ["Support (support)", "support (support-emea)"]
    expect(visitor.page.locator(".agent .agent-id")).to_have_count(2)  # the others need none


def test_who_chooses_an_agent_far_down_stays_there(visitor: Visitor) -> None:
    visitor.opens()
    cards = visitor.page.locator(".agents")
    card = visitor.page.locator('[data-agent="writer"]')
    card.scroll_into_view_if_needed()
    before = cards.evaluate("element => element.scrollTop")
    assert before > 0

    card.click()

    expect(card).to_have_attribute("aria-checked", "true")
    assert cards.evaluate("element => element.scrollTop") == before
    expect(visitor.page.get_by_role("button", name="Begin with Writer")).to_be_in_viewport()


def test_an_agent_is_found_and_chosen_by_keyboard_alone(visitor: Visitor) -> None:
    visitor.opens()
    field = visitor.page.get_by_role("searchbox", name="Find an agent")
    radios = visitor.page.get_by_role("radio")
    expect(field).to_have_attribute("placeholder", "Find one of 40 agents")
    field.focus()

    visitor.page.keyboard.type("DESK 3")
    expect(radios).to_have_count(11)
    visitor.presses("ArrowDown")
    expect(radios.first).to_be_focused()
    visitor.presses("ArrowDown", "ArrowDown")
    expect(radios.nth(2)).to_be_focused()
    expect(radios.nth(2)).to_have_attribute("aria-checked", "true")
    expect(radios).to_have_count(11)  # what was typed stays with the choice
    visitor.presses("Shift+Tab")
    expect(field).to_be_focused()
    visitor.presses("End")
    visitor.page.keyboard.type("5")
    visitor.presses("Enter")

    expect(visitor.page.get_by_role("button", name="Begin with Desk 35")).to_be_in_viewport()
    expect(visitor.agents).to_have_value("desk-35")
    expect(field).to_be_focused()
    visitor.page.keyboard.type("<b>")
    expect(visitor.page.get_by_text("No agent has these words.")).to_be_visible()
    visitor.presses("Escape")
    expect(radios).to_have_count(40)


@pytest.mark.parametrize("width", [390, 1440])
def test_forty_agents_fit_and_the_starters_stay_in_sight(visitor: Visitor, width: int) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 844})
    visitor.opens()

    expect(visitor.page.locator(".starter").first).to_be_in_viewport()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_broken_agent_says_what_is_wrong_with_it(visitor: Visitor) -> None:
    visitor.opens()

    notice = visitor.page.locator(".notice", has_text="legal cannot be asked")
    notice.scroll_into_view_if_needed()

    expect(notice).to_be_in_viewport()
    expect(notice).to_contain_text("legal.yaml:2")
    expect(notice).to_contain_text("Did you mean 'model'?")


def test_a_runs_id_is_copied_with_a_click(browser: Browser, counter: Counter) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    visitor = Visitor(context, counter.url)
    run_id, thread_id = counter.waiting()
    visitor.opens(f"#/thread/{thread_id}")

    visitor.page.bring_to_front()  # a clipboard is given to the page that has the focus
    visitor.page.evaluate(WATCH_FOR_COPIED)  # the button shows it for 1.6 s
    visitor.page.get_by_role("button", name=f"run …{run_id[-6:]}").click(timeout=PATIENCE_MS)

    visitor.page.wait_for_function("window.isCopied", timeout=PATIENCE_MS)
    assert visitor.page.evaluate("navigator.clipboard.readText()") == run_id
    context.close()


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"workers": 0, "workers_starting": 2}, "Workers are starting (0 of 2)"),
        ({"workers": 1, "workers_starting": 1}, "Workers are starting (1 of 2)"),
        ({"workers": 2}, "2 workers are alive"),
        ({"workers": 0}, "no worker is alive"),
    ],
)
def test_workers_that_start_are_no_trouble(visitor: Visitor, counts: dict[str, int], words: str) -> None:
    status = "ok" if counts["workers"] else "degraded"
    health = json.dumps({"status": status, "database": "ok", "redis": "ok", **counts})
    visitor.page.route("**/health", lambda route: route.fulfill(body=health, content_type="application/json"))

    visitor.opens()

    line = visitor.page.locator(".health")
    expect(line).to_have_text(words)
    expect(line).to_have_attribute(
        "data-health", "bad" if words.startswith("no") else "starting" if counts["workers"] == 0 else "good"
    )


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (
            {"missing_keys": {"OPENAI_API_KEY": {"agents": ["support", "writer"], "workers": 1}}},
            "OPENAI_API_KEY is not set in 1 of 2 workers; needed by support, writer.",
        ),
        ({"redis": "refuses_writes"}, "Redis: refuses writes."),
        ({"missing_keys": {"OPENAI_API_KEY": {"agents": ["support"], "workers": 2}}}, ""),
    ],
    ids=["a key", "Redis", "a key that no worker has"],
)
def test_a_degraded_health_has_its_cause_as_its_title(visitor: Visitor, facts: dict[str, object], cause: str) -> None:
    health = json.dumps({"status": "degraded", "database": "ok", "redis": "ok", "workers": 2, **facts})
    visitor.page.route("**/health", lambda route: route.fulfill(body=health, content_type="application/json"))

    visitor.opens()

    expect(visitor.page.locator(".health")).to_have_attribute("data-health", "bad")
    expect(visitor.page.locator(".health")).to_have_attribute("title", cause)


def test_a_queued_run_says_that_workers_are_starting(visitor: Visitor) -> None:
    health = json.dumps({"status": "degraded", "database": "ok", "redis": "ok", "workers": 0, "workers_starting": 2})
    visitor.page.route("**/health", lambda route: route.fulfill(body=health, content_type="application/json"))
    visitor.opens()
    expect(visitor.page.locator(".health")).to_contain_text("starting")

    visitor.says("Hello?", agent="writer")

    expect(visitor.page.locator(".run-turn .foot")).to_contain_text("Queued: workers are starting (0 of 2)")
