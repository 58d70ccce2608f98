"""A text that arrives in pieces is shown as it is after a reload, wherever the pieces end."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from config.folders import ROOT
from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

DOCUMENT = """# Title

A *first* paragraph with **strong _and_ soft** words, `code`, ~~gone~~ and https://example.org/a_(b).
Second line.

- one
  - inner
- two

  with a paragraph

3. three
4. four

| a | b |
|---|--:|
| 1 | 2 |
| x `|` | 4 |

```python
def f():

    return "<b>"
```

> said
> twice

---
[a link](https://example.org "t") and ![a picture](https://example.org/p.png)
- [x] done
- [ ] open
"""
SHORT = [
    DOCUMENT,
    DOCUMENT.replace("\n", "\r\n"),
    "```\n\n```\nx",
    "```\n\n\n```\n",
    "```py\n\na\n\n\nb\n\n```\n\n\nend",
    "```\na\n\n\n",
    "```\na\n```\n```\nb\n``",
    "`````\n```\nx\n```\n`````\n~~~\na\n",
    "- a\n\n\n- b\n\n\n\nc",
    "- a\n\n  ```\n  x\n    \n  y\n  ```\n- b\n",
    "> ```\n> a\n>\n> b\n> ```\n> 1. c\n>    d\n",
    "1. a\n\n   b\n2. c\n\n\n3. d",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 |\npara\n| a |\n|---|\n| 1 |\nend",
    "# h\n## g ##\ntext\n***\n---\n* a\n* b\n- c\n1) e\n2. f\n   \n\t\nz",
]
"""Each is split at every character."""


def _items(mark: str, count: int) -> str:
    return "".join(f"{mark} item {number} has *some* words and `code`\n\n  and more\n" for number in range(count))


LONG = {
    "list": _items("-", 200),
    "numbered list": _items("1.", 200) + "\nend",
    "table": "| a | b |\n|---|--:|\n" + "".join(f"| {number} | `{number**9}` |\n" for number in range(500)) + "\nend",
    "paragraph": "a line of *some* words\n" * 400,
    "quotation": "> a line of *some* words\n" * 400,
    "endless line": "words and " * 2000 + "\n" + "x" * 9000 + "\n# end",
    "endless line of code": "```js\n" + "y" * 9000 + "```\n```\nend",
    "too many blocks": "".join(f"p{number}\n\n" for number in range(4100)),
}
"""Texts whose blocks are cut, or that have too many of them."""
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    *(
        f"docs/{name}.md"
        for name in """
    agents approvals architecture capabilities configuration errors faults glossary governance http journal mcp
    observers operations policy terminal tools
""".split()
    ),
)
TEXTS = [*SHORT, *LONG.values(), *((ROOT / path).read_text() for path in DOCUMENTS)]
RANDOM_SPLITS = 15
"""Of each text."""

DIFFERENCES = """
  const { MarkdownStream, renderMarkdown } = await import("/static/markdown/stream.js");
  // Code is laid out in short pieces, wherever they end.
  const html = (element) => element.innerHTML.replaceAll('</span><span class="piece">', "");
  return given.flatMap(({ text, splits }) => {
    const whole = html(renderMarkdown(text));
    return splits.filter((split) => {
      const stream = new MarkdownStream();
      let from = 0;
      for (const [at, paints] of [...split, [text.length, true]]) {
        stream.append(text.slice(from, at));
        if (paints) stream.paint();
        from = at;
      }
      return html(stream.finish().element) !== whole;
    }).map((split) => [text.slice(0, 60), split]);
  });
"""


@pytest.fixture(scope="module")
def page(browser: Browser, callboard_url: str) -> Iterator[Visitor]:
    """A page whose modules can be imported."""
    context = browser.new_context()
    yield Visitor(context, callboard_url).opens()
    context.close()


def test_a_text_in_two_pieces_is_shown_as_the_whole(page: Visitor) -> None:
    cases = [{"text": text, "splits": [[[at, True]] for at in range(len(text))]} for text in SHORT]

    assert page.module(DIFFERENCES, cases) == []


def test_a_text_in_single_characters_is_shown_as_the_whole(page: Visitor) -> None:
    cases = [{"text": text, "splits": [[[at, True] for at in range(len(text))]]} for text in SHORT]

    assert page.module(DIFFERENCES, cases) == []


@pytest.mark.parametrize("paints", ["always", "at times", "never"])
def test_a_text_in_random_pieces_is_shown_as_the_whole(page: Visitor, paints: str) -> None:
    chance = random.Random(paints)

    def split(text: str) -> list[tuple[int, bool]]:
        ends = sorted(chance.choices(range(len(text) + 1), k=chance.randint(1, 40)))
        return [(end, paints == "always" or (paints == "at times" and chance.random() < 0.5)) for end in ends]

    cases = [{"text": text, "splits": [split(text) for _ in range(RANDOM_SPLITS)]} for text in TEXTS]

    assert len(TEXTS) >= 40
    assert page.module(DIFFERENCES, cases) == []


def test_a_text_that_is_finished_twice_is_shown_once(page: Visitor) -> None:
    finished_twice = """
      const { MarkdownStream } = await import("/static/markdown/stream.js");
      return given.filter((text) => {
        const stream = new MarkdownStream();
        stream.append(text);
        const html = stream.finish().element.innerHTML;
        return stream.finish().element.innerHTML !== html;
      });
    """

    assert page.module(finished_twice, [*SHORT, "```\na\n```", "```\na", "a *b"]) == []


@pytest.mark.parametrize("before", ["a", "```\na"])
def test_no_character_is_cut_into_halves(page: Visitor, before: str) -> None:
    halves_and_hidden = """
      const { renderMarkdown } = await import("/static/markdown/stream.js");
      const isText = ({ nodeType }) => nodeType === Node.TEXT_NODE;
      const texts = (element) => isText(element) ? [element.data] : [...element.childNodes].flatMap(texts);
      const shown = given.flatMap((text) => texts(renderMarkdown(text)));
      const halves = shown.filter((text) => !text.isWellFormed());
      return [halves.length, shown.join("").split(String.fromCodePoint(0xE0041)).length - 1];
    """

    assert page.module(halves_and_hidden, [before + character * 9000 for character in "😀\U000e0041"]) == [0, 0]


def test_a_numbered_list_that_is_cut_counts_on(page: Visitor) -> None:
    starts = page.module(
        """
        const { renderMarkdown } = await import("/static/markdown/stream.js");
        return [...renderMarkdown(given).querySelectorAll("ol")].map((list) => [list.start, list.children.length]);
        """,
        LONG["numbered list"],
    )

    assert len(starts) > 1
    assert [start for start, _ in starts] == [1 + sum(count for _, count in starts[:at]) for at in range(len(starts))]
    assert sum(count for _, count in starts) == 200
