"""A plot with no point, with one and with a million; its range by pointer and by keys; and a sparkline."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.answering import Counter
from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

DRAW = """
const { Plot } = await import("/static/ui/Plot.js");
const { signal } = await import("/static/dom/live.js");
await (await import("/static/dom/styles.js")).addStyles("/static/style/fleet.css");
document.querySelector(".plot")?.remove();
const range = signal(null);
const lines = [{ label: "ended", token: "live", kind: given.kind }];
const plot = new Plot({ title: "Runs", range, format: String, lines });
plot.element.style.cssText = "position: fixed; z-index: 9; left: 0; top: 0; width: 600px; background: white";
document.body.append(plot.element);
const times = given.times ?? Array.from({ length: given.number }, (_, i) => 1_796_000_000 + i * 300);
const values = given.values ?? times.map((_, i) => i % 7);
plot.show({ times, slotS: 300, values: [values], now: "now", summary: "A summary." });
globalThis.shownRange = range;
"""
PAINTED = """
const canvas = document.querySelector(".plot canvas");
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width * 0.85, canvas.height * 0.7).data;
let painted = 0;
for (let at = 3; at < data.length; at += 4) if (data[at] > 200) painted += 1;
return painted;
"""


@pytest.fixture
def page_url(counter: Counter) -> str:
    return counter.url


def draw(visitor: Visitor, **points: Any) -> None:
    visitor.module(DRAW, points)
    expect(visitor.page.locator(".plot canvas")).to_be_visible()
    visitor.module("await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));")


@pytest.mark.parametrize("kind", ["bars", "line", "steps"])
def test_a_plot_with_no_one_and_a_million_points_is_drawn(visitor: Visitor, kind: str) -> None:
    visitor.opens()
    note = visitor.page.locator(".plot-note")

    draw(visitor, kind=kind, times=[], values=[])
    expect(note).to_be_visible()
    empty = visitor.module(PAINTED)
    draw(visitor, kind=kind, number=1, values=[3])
    expect(note).to_be_hidden()
    single = visitor.module(PAINTED)
    draw(visitor, kind=kind, number=1_000_000)
    million = visitor.module(PAINTED)
    draw(visitor, kind=kind, number=3, values=[None, None, None])

    expect(note).to_be_visible()
    assert empty < single < million
    assert visitor.complaints == []  # the content policy allows all that uPlot does


def test_a_time_is_brushed_in_whole_slots_and_moved_by_keys(visitor: Visitor) -> None:
    visitor.opens()
    draw(visitor, kind="bars", number=12)
    box = visitor.page.locator(".plot .u-over").bounding_box()
    assert box is not None
    slot = box["width"] / 12
    chosen = (
        "const { value } = shownRange; return value && [value.from, value.to].map((s) => (s - 1_796_000_000) / 300);"
    )

    visitor.page.mouse.move(box["x"] + 2.5 * slot, box["y"] + 40)
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 4.5 * slot, box["y"] + 40, steps=4)
    visitor.page.mouse.up()

    assert visitor.module(chosen) == [2, 5]
    select = visitor.page.locator(".plot .u-select").bounding_box()
    assert select is not None
    assert abs(select["width"] - 3 * slot) < 3
    visitor.page.locator(".plot-area").focus()
    visitor.presses("ArrowRight", "Shift+ArrowRight")
    assert visitor.module(chosen) == [3, 7]
    visitor.presses("Escape")
    assert visitor.module(chosen) is None
    assert "A summary." in (visitor.page.locator(".plot-area").get_attribute("aria-label") or "")


def test_the_library_is_loaded_with_the_first_plot_alone(visitor: Visitor) -> None:
    urls: list[str] = []
    visitor.page.on("request", lambda request: urls.append(request.url))
    visitor.opens()
    assert not [url for url in urls if "vendor/" in url]

    draw(visitor, kind="bars", number=3)
    draw(visitor, kind="line", number=3)

    assert len([url for url in urls if "uPlot.esm.js" in url]) == 1
    assert visitor.foreign == []


@pytest.mark.parametrize("kind", ["bars", "line"])
def test_a_sparkline_draws_few_shapes_and_none_without_numbers(visitor: Visitor, kind: str) -> None:
    script = """
    const { Sparkline } = await import("/static/ui/Sparkline.js");
    const { element, show } = Sparkline({ kind: given });
    const shapes = (values) => (show(values), [element.childElementCount, element.hasAttribute("hidden")]);
    const many = Array.from({ length: 1e6 }, (_, i) => i);
    return [shapes([]), shapes([0, null]), shapes([4]), shapes([1, null, 3, 2]), shapes(many)];
    """
    visitor.opens()

    empty, zeros, single, gap, million = visitor.module(script, kind)

    assert (empty, zeros[1], single) == ([0, True], True, [1, False])
    assert gap == ([4, False] if kind == "bars" else [2, False])
    assert million == ([32, False] if kind == "bars" else [1, False])
