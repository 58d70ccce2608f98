"""Text that a model writes to freeze the page: the time to read it grows with its length alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from bus.journal.approvals import Decision
from config.identity.principal import Principal
from config.text.visible import visible
from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.bus.questions import question
from tests.config.text.test_visible import HIDDEN, PLAIN

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

MIB = 1_048_576
SLOW_MS = 6000
"""More for one MiB is a freeze, also on a machine with other work; what is linear takes a twentieth of it."""
TRIES = 5
"""Most tries of a text that takes too long."""

# A unit is repeated up to the length; what stands before and behind it is what makes a parser look again.
UNITS = [
    *"\n \t\ra-*_~`#|>\\[]()<{=",
    *"~~ |- -| *a_b _*~~ ~~~~` [x]( []( [x](http:// http:// http://[ http://!! https://e.org/))) <http://".split(),
    *(f"{mark} " for mark in ("|", "-", ">", "#", "*a", "**a", "1.", "> >", "> -", "`` `")),
    " -",
    "``` \t",
    '[x](https://e.org "',
    "[x](https://e.org 'a ",
    "- \n",
    "- a\n  - b\n",
    "a  \n",
    "a\n\n\n",
    "|-|\n",
    "|a|b|\n|-|-|\n",
    "```\n\n",
]
AROUND = [
    ("", ""),
    ("```", "`"),
    ("```json", "\n```"),
    ("|-|", "x"),
    ("a|b\n", "x"),
    ("a|b\n-", "x|-"),
    ("- ", "\n\nx"),
    ("` ", "x`"),
    ("[x](https://e.org", "x)"),
]
WIDE_TABLE = f"a|b\n-{' ' * 4000}x|-\n"
WIDE_LINK = f"[x](https://e.org{' ' * 4000}x)\n\n"

# Twice as much each time, until it is one MiB or a step took longer than all may take.
GROWS = """
  const timed = (work, text) => {
    const begun = performance.now();
    work(text);
    return performance.now() - begun;
  };
  // What the heaviest ordinary text of 64 KiB takes now: a machine with other work is slow for both.
  const ordinary = (work) => timed(work, "|a|b|\\n|-|-|\\n".repeat(5462));
  // A machine with other work pauses some tries; a parser that looks again is slow in each of them. So the quickest
  // counts, and there are no more tries than it takes to tell the two apart.
  const quickest = (work, text, size) => {
    const most = given.slow * Math.max(size / given.most, 0.5);
    const tries = [];
    for (let spent = 0; tries.length < given.tries && spent < 20 * given.slow; spent += tries.at(-1)) {
      tries.push(timed(work, text));
      const took = Math.min(...tries);
      if (took <= most || took <= (2.5 * size * ordinary(work)) / 65_536) return { took, isSlow: false };
    }
    return { took: Math.min(...tries), isSlow: true };
  };
  let isFound = false; // one is enough, and each takes long
  const grows = (work, unit, [before, after]) => {
    for (const size of [3500, 15_500, 65_536, 262_144, 1_048_576].filter((each) => each <= given.most && !isFound)) {
      const text = before + unit.repeat(Math.ceil(size / unit.length)) + after;
      const { took, isSlow } = quickest(work, text, size);
      isFound ||= isSlow;
      if (isSlow) return { unit, before, after, size, took: Math.round(took) };
      // Even if it grew with the square of the length from here, the longest text would stay far below the limit.
      if (given.extrapolates && size >= 65_536 && took * (given.most / size) ** 2 < 0.6 * given.slow) return null;
    }
    return null;
  };
  const of = (work, unit) => given.around.map((each) => grows(work, unit, each));
  const frozen = (work) => given.units.flatMap((unit) => of(work, unit)).filter(Boolean);
"""
FUZZ = """
  let seed = given.seed;
  const random = (n) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % n;
  const pick = (from) => from[random(from.length)];
  const shapes = Array.from({ length: given.shapes }, () => ({
    unit: Array.from({ length: 1 + random(4) }, () => pick(given.units)).join(""),
    around: [pick(given.units).repeat(random(5)), pick(given.units).repeat(random(5))],
  }));
  return shapes.map(({ unit, around }) => grows(work, unit, around)).filter(Boolean);
"""
MARKDOWN = """
  const { renderMarkdown } = await import("/static/markdown/stream.js");
  const work = renderMarkdown;
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """A page of this file's own."""
    with opened_counter(tmp_path_factory.mktemp("hostile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser: Browser, counter: Counter) -> Iterator[Visitor]:
    """A page whose modules can be imported."""
    context = browser.new_context()
    yield Visitor(context, counter.url).opens()
    context.close()


def shapes(**more: Any) -> dict[str, Any]:
    usual = {"most": MIB // 4, "slow": SLOW_MS / 4, "extrapolates": True, "tries": TRIES}
    return {"units": UNITS, "around": AROUND, **usual, **more}


# Three pauses of a machine with other work, each long enough to be taken for a freeze.
PAUSED = """
  let pauses = 3;
  const work = (text) => {
    const until = performance.now() + (text[0] !== "|" && text.length > 65_000 && pauses-- > 0 ? given.slow : 0);
    while (performance.now() < until);
  };
"""
SQUARE = """
  let seen = 0;
  const work = (text) => {
    if (text[0] === "|") return; // what is ordinary is read at once
    for (let at = 0; at < text.length; at++) for (let from = 0; from < at; from += 64) seen += from;
  };
"""


@pytest.mark.parametrize(("parser", "sizes"), [(PAUSED, []), (SQUARE, [65_536])], ids=["paused", "square"])
def test_growth_with_the_square_is_told_from_a_machine_that_pauses(
    page: Visitor, parser: str, sizes: list[int]
) -> None:
    shape_options = shapes(units=["a"], around=[("", "x")], slow=SLOW_MS / 40)  # neither has to take seconds for that

    assert [entry["size"] for entry in page.module(f"{GROWS}{parser} return frozen(work);", shape_options)] == sizes


@pytest.mark.parametrize("around", AROUND, ids=repr)
def test_no_shape_of_markdown_takes_more_than_its_length(page: Visitor, around: tuple[str, str]) -> None:
    shape_options = shapes(around=[around])

    assert page.module(f"{GROWS}{MARKDOWN} return frozen(work);", shape_options) == []


@pytest.mark.parametrize("seed", range(4))
def test_no_mixture_takes_more_than_its_length(page: Visitor, seed: int) -> None:
    shape_options = shapes(seed=seed * 7919 + 1, shapes=25)

    assert page.module(f"{GROWS}{MARKDOWN}{FUZZ}", shape_options) == []


@pytest.mark.parametrize("unit", [WIDE_TABLE, WIDE_LINK, "|-", "\n", "*a ", "_{", "[x](http://", "``` \t"])
def test_a_mebibyte_does_not_freeze_the_page(page: Visitor, unit: str) -> None:
    shape_options = shapes(units=[unit], around=[("", "x"), ("a|b\n", "x")], most=MIB, slow=SLOW_MS, extrapolates=False)

    assert page.module(f"{GROWS}{MARKDOWN} return frozen(work);", shape_options) == []


@pytest.mark.parametrize("unit", ["word ", "\n", "x", "- item\n", "|a|b|\n|-|-|\n", "*a ", "```\n"])
def test_an_answer_in_ten_thousand_pieces_costs_little_more_in_its_second_half(page: Visitor, unit: str) -> None:
    halves = page.module(
        """
        const { MarkdownStream } = await import("/static/markdown/stream.js");
        const piece = given.repeat(Math.ceil(100 / given.length));
        const stream = new MarkdownStream();
        const halves = [0, 0];
        for (let i = 0; i < 10_000; i++) {
          const begun = performance.now();
          stream.append(piece);
          if (i % 10 === 9) stream.paint();
          halves[i < 5000 ? 0 : 1] += performance.now() - begun;
        }
        stream.finish();
        return halves;
        """,
        unit,
    )

    assert halves[1] < 2.5 * halves[0] + 300


def test_a_short_row_of_a_wide_table_has_one_cell_for_all_it_lacks(page: Visitor) -> None:
    cells = page.module(
        """
        const { renderMarkdown } = await import("/static/markdown/stream.js");
        const table = renderMarkdown(`${"a|".repeat(1000)}a\\n${"-|".repeat(1000)}-\\n${"b|\\n".repeat(1000)}`);
        return table.querySelectorAll("td").length;
        """
    )

    assert cells <= 3000


def test_emphasis_is_never_deep_enough_to_break_the_page(page: Visitor) -> None:
    html = page.module(
        """
        const { renderMarkdown } = await import("/static/markdown/stream.js");
        const element = renderMarkdown(given);
        const depth = (node) => 1 + Math.max(0, ...[...node.children].map(depth));
        return { depth: depth(element), text: element.textContent.length };
        """,
        "*a " * 2500 + "a* " * 2500,
    )

    assert html["depth"] < 40
    assert html["text"] > 9000


@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_a_long_line_of_the_stream_is_looked_through_once(page: Visitor, size: int) -> None:
    """Short lines in one large piece, then one long line in small pieces."""
    result = page.module(
        """
        const { EventStreamParser } = await import("/static/client/sse.js");
        const text = ": beat\\n".repeat(100_000) + "data: " + "x".repeat(1_000_000) + "\\n\\n";
        const found = [];
        const parser = new EventStreamParser({ onEvent: (event) => found.push(event.data.length) });
        const begun = performance.now();
        if (given > 60_000) parser.push(text);
        else for (let at = 0; at < text.length; at += given) parser.push(text.slice(at, at + given));
        return { found, took: performance.now() - begun };
        """,
        size,
    )

    assert result["found"] == [1_000_000]
    assert result["took"] < SLOW_MS


@pytest.mark.parametrize(
    "answer", ["[" * 100_000 + "]" * 100_000, "```json\n" + "\n" * 150_000 + "{"], ids=["deep", "fence"]
)
def test_a_structured_answer_is_read_without_a_freeze(page: Visitor, answer: str) -> None:
    took = page.module(
        """
        const { TextItem } = await import("/static/views/story/TextItem.js");
        const begun = performance.now();
        const item = new TextItem();
        item.update({ text: given, closed: true });
        return [performance.now() - begun, item.element.textContent.length];
        """,
        answer,
    )

    assert took[0] < SLOW_MS
    assert took[1] > 0


def test_a_long_answer_that_comes_at_once_is_drawn_in_pieces_of_a_frame(page: Visitor) -> None:
    """Each frame takes as long as its piece, on a machine of any speed."""
    lengths = page.module(
        """
        const { TextItem } = await import("/static/views/story/TextItem.js");
        const item = new TextItem();
        document.body.append(item.element);
        const growing = () => !item.element.querySelector(".prose:not(.is-growing)");
        const lengths = [0];
        const look = () => lengths.push(item.element.querySelectorAll("li").length);
        item.update({ text: given, closed: true });
        look();
        while (growing()) {
          await new Promise(requestAnimationFrame);
          look();
        }
        item.element.remove();
        return lengths;
        """,
        "- a\n" * 25_000,
    )

    assert lengths[-1] == 25_000
    assert max(after - before for before, after in pairwise(lengths)) <= 4000


@pytest.mark.parametrize("unit", ["|-", "*a ", "- a\n", "[x](http://", "a|b\n-|-\n"])
def test_the_page_continues_beside_a_hostile_answer(browser: Browser, counter: Counter, unit: str) -> None:
    context = browser.new_context()
    visitor = Visitor(context, counter.url)
    open_question = question()
    run_id, thread_id = counter.waiting(open_question)
    visitor.opens(f"#/thread/{thread_id}")
    visitor.page.locator(".ask").first.wait_for(timeout=PATIENCE_MS)
    visitor.page.evaluate(
        """() => {
          let last = performance.now();
          window.gap = 0;
          const beat = () => {
            const now = performance.now();
            window.gap = Math.max(window.gap, now - last);
            last = now;
            requestAnimationFrame(beat);
          };
          requestAnimationFrame(beat);
        }"""
    )

    counter.journal.clients.decide(Principal(), run_id, open_question.id, Decision(decision="fail"), by="ann")
    counter.resume(run_id, text=unit * (MIB // 4 // len(unit)))

    visitor.waits_for_end()
    expect(visitor.page.locator(".run-turn .prose:not(.is-growing)").last).to_be_attached(timeout=PATIENCE_MS)
    assert visitor.page.evaluate("window.gap") < SLOW_MS
    context.close()


@pytest.mark.parametrize("text", [f"a{character}b" for character in HIDDEN if character != "\r"] + PLAIN, ids=ascii)
def test_the_page_shows_what_is_hidden_as_the_terminal_does(page: Visitor, text: str) -> None:
    output = page.module('return (await import("/static/dom/visible.js")).visible(given);', text)

    assert output == visible(text)
