"""The agents on the page: finding one among many, its definition, its versions, and two of them side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.answering import AGENT, Counter, opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor, in_each_scheme
from tests.bus.questions import asks, question_before

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
LATER = AGENT.replace("You answer.", "You answer briefly.")
ODD = """\
name: Odd
description: <img src=x onerror=alert(1)> in a sentence
model: openai/gpt-5-mini
system_prompt: "<svg onload=alert(1)> \\u202Eevil"
"""
BROKEN = "name: Legal\nmodle: openai/gpt-5-mini\nsystem_prompt: You answer.\n"


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """A page with fifty agents, one of which is broken; `support` has two versions, of which the first serves."""
    folder = tmp_path_factory.mktemp("agents")
    with opened_counter(folder) as opened:
        for number in range(48):
            definition = AGENT.replace("Support", f"Clerk {number}").replace("customers", f"letters of box {number}")
            (folder / "agents" / f"clerk-{number}.yaml").write_text(definition)
        (folder / "agents" / "odd.yaml").write_text(ODD)
        (folder / "agents" / "legal.yaml").write_text(BROKEN)
        registry = opened.runner.registry
        registry.register("support")
        (folder / "agents" / "support.yaml").write_text(LATER)
        registry.register("support")
        opened.journal.stores.agent_versions.promote(opened.runner.principal, "support", 1)
        yield opened


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def detail(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("article")


def test_one_of_many_agents_is_found_by_keyboard(visitor: Visitor) -> None:
    visitor.opens("#/agents")
    rows = visitor.page.get_by_role("list", name="Agents").get_by_role("link")
    expect(rows).to_have_count(51)
    expect(rows.filter(has_text="modle: there is no such field")).to_have_count(1)

    visitor.presses("/")
    visitor.page.keyboard.type("box 31")
    expect(rows).to_have_count(1)
    visitor.presses("Tab", "Enter")

    expect(detail(visitor).get_by_role("heading", name="Clerk 31")).to_be_visible()
    expect(rows).to_have_attribute("aria-current", "page")
    visitor.page.locator("#view").get_by_label("Find an agent").fill("nothing like it")
    expect(visitor.page.get_by_text("Nothing has these words.")).to_be_visible()


def test_a_definition_is_shown_as_it_serves_and_leads_to_a_conversation(visitor: Visitor) -> None:
    visitor.opens("#/agents/support")

    expect(visitor.page.get_by_label("Instructions")).to_have_text("You answer.")
    expect(detail(visitor)).to_contain_text("version 1 serves in place of its file")
    expect(detail(visitor)).to_contain_text("openai/gpt-5-mini")
    detail(visitor).get_by_role("link", name="Talk to it").click()
    expect(visitor.agents).to_have_value("support")


def test_what_an_author_wrote_is_text(visitor: Visitor) -> None:
    visitor.opens("#/agents/odd")

    expect(visitor.page.get_by_label("Instructions")).to_have_text("<svg onload=alert(1)> ⟨U+202E⟩evil")
    expect(detail(visitor).locator(".detail-about")).to_have_text("<img src=x onerror=alert(1)> in a sentence")
    expect(detail(visitor).locator("img")).to_have_count(0)


def test_a_broken_file_is_named_with_the_remedy(visitor: Visitor) -> None:
    visitor.opens("#/agents")
    visitor.page.get_by_role("link", name="legal").click()

    expect(detail(visitor)).to_contain_text("legal.yaml:2: modle: there is no such field. Did you mean 'model'?")
    expect(detail(visitor).get_by_role("tab")).to_have_count(0)


def test_versions_are_compared_promoted_and_taken_back_after_a_question(visitor: Visitor) -> None:
    visitor.opens("#/agents/support")
    visitor.page.get_by_role("tab", name="Definition").focus()
    visitor.presses("ArrowRight")
    versions = visitor.page.get_by_role("table", name="Versions").locator("tbody tr")
    expect(versions).to_have_count(2)
    lines = visitor.page.get_by_role("list", name="system_prompt").get_by_role("listitem")
    expect(lines).to_have_text(["−removed: You answer.", "+added: You answer briefly."])

    visitor.page.get_by_role("button", name="Make version 2 stable").click()
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog).to_contain_text("New runs of all threads get version 2")
    visitor.presses("Escape")
    expect(versions.first).not_to_contain_text("serves")
    visitor.page.get_by_role("button", name="Make version 2 stable").click()
    dialog.get_by_role("button", name="Make stable").click()

    expect(versions.first).to_contain_text("serves")
    expect(versions.first).to_contain_text("stable by you")
    visitor.page.get_by_role("button", name="Roll back").click()
    dialog.get_by_role("button", name="Roll back").click()
    expect(versions.last).to_contain_text("serves")


def test_one_input_is_tried_with_two_versions(visitor: Visitor, counter: Counter) -> None:
    visitor.opens("#/agents/support?tab=try")
    expect(visitor.page.get_by_label("The first version", exact=True)).to_have_value("1")
    expect(visitor.page.get_by_label("The other version", exact=True)).to_have_value("2")

    visitor.page.get_by_label("What to ask").fill("Where is order 1042?")
    visitor.presses("Control+Enter")

    digests = {row["version"]: row["digest"] for row in counter.runner.registry.versions("support")}
    for number, name in ((1, "Answer of the first version"), (2, "Answer of the other version")):
        group = visitor.page.get_by_role("group", name=name)
        address = group.get_by_role("link", name="Its timeline").get_attribute("href")
        run_id = re.sub(".*/", "", address or "")
        row = counter.journal.readers.runs.row(counter.runner.principal, run_id)
        assert row.definition_digest == digests[number]
        counter.journal.live.publish(
            asks(counter.journal.database, run_id, question_before(), says=f"By version {number}.")
        )
        expect(group).to_contain_text(f"By version {number}.")
        expect(group.get_by_role("button", name="Approve")).to_be_visible()


def test_an_agent_that_is_not_there_says_so(visitor: Visitor) -> None:
    visitor.opens("#/agents/none")

    expect(visitor.page.get_by_text("There is no agent “none”")).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("tab", ["definition", "versions", "try"])
def test_it_fits_and_every_text_has_the_contrast_of_aa(visitor: Visitor, width: int, tab: str) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 800})
    visitor.opens(f"#/agents/support?tab={tab}")
    expect(visitor.page.get_by_role("tabpanel")).to_be_visible()

    for _ in in_each_scheme(visitor.page):
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visitor.page.evaluate(CONTRAST) == []


def test_on_a_phone_the_list_and_an_agent_are_two_screens(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 800})
    visitor.opens("#/agents")
    expect(detail(visitor)).to_have_count(0)

    visitor.page.get_by_role("link", name="Support").click()
    expect(detail(visitor)).to_be_visible()
    expect(visitor.page.locator("#view").get_by_label("Find an agent")).to_be_hidden()
    visitor.page.get_by_role("link", name="‹ Agents").click()
    expect(visitor.page.locator("#view").get_by_label("Find an agent")).to_be_visible()
