"""axe-core finds nothing serious or moderate on a view: light and dark, wide and narrow."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tests.browser.answering import Counter
from tests.browser.visitor import Visitor, in_each_scheme

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
RUN = """
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "moderate" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")}`);
"""


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def places(visitor: Visitor, run_id: str, thread_id: str) -> list[str]:
    """Return an address of each view: of each row of the rail, and of one thing where a view has one."""
    script = "const { PLACES, RAIL } = await import('/static/router.js'); return RAIL.map(([name]) => PLACES[name][0])"
    own = [f"/thread/{thread_id}", "/board?as=lanes", "/board?agent=support", "/nowhere"]
    tabs = ("", "events", "usage", "decisions", "log", "related", f"compare&with={run_id}")
    return [*visitor.module(script), *own, *(f"/run/{run_id}?tab={name}" for name in tabs)]


@pytest.mark.parametrize("width", [360, 1440])
def test_no_view_has_a_fault_that_axe_finds(visitor: Visitor, counter: Counter, width: int) -> None:
    run_id, thread_id = counter.waiting()
    counter.waiting(text="Another one.")
    visitor.page.set_viewport_size({"width": width, "height": 800})
    visitor.opens("#/")
    visitor.page.evaluate(AXE)

    faults = []
    for place in places(visitor, run_id, thread_id):
        visitor.page.evaluate("(hash) => { location.hash = hash }", place)
        visitor.page.wait_for_timeout(500)
        for scheme in in_each_scheme(visitor.page):
            faults += [f"{place} {scheme}: {fault}" for fault in visitor.module(RUN)]

    assert not faults, "\n".join(faults)
