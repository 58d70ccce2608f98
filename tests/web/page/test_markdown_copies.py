"""A conversation as Markdown: what stands in it is data, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

COPIES = """
  const { answerOf, conversationOf } = await import(`${page}/state/markdown.js`);
  return [argument.stories.map(answerOf), conversationOf(argument, (agent, name) => name ?? agent)];
"""


def story(*items: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"agent": "a", "agent_name": "Ann_a", "input": "Hello", "status": "succeeded", "items": items} | facts


def text(words: str, **facts: Any) -> dict[str, Any]:
    return {"kind": "text", "text": words} | facts


def call(name: str, **facts: Any) -> dict[str, Any]:
    return {"kind": "tool", "name": name, "outcome": "done", "arguments": {"x": 1}} | facts


def test_calls_are_lines_and_what_was_withdrawn_is_left_out(module: Module) -> None:
    items = (
        text("Lost", withdrawn=True),
        text("First."),
        call("add", result=2, duration_ms=12),
        call("save", outcome="refused"),
    )
    [[answer], whole] = module(COPIES, {"title": "A | b", "stories": [story(*items, text("Then."))]})

    assert answer == "First.\n\nThen."
    lines = "- `add(x: 1)` → `2` (12 ms)\n- `save(x: 1)` (refused)"
    assert whole == f"# A \\| b\n\n**you**\n\nHello\n\n**Ann\\_a**\n\nFirst.\n\n{lines}\n\nThen.\n"


def test_results_cannot_leave_their_line(module: Module) -> None:
    [_, whole] = module(
        COPIES, {"title": "", "stories": [story(call("q", result="a `b`\n\n# ``c``\u202e" + "y" * 500))]}
    )

    line = whole.split("\n\n")[-1]
    assert line.startswith("- `q(x: 1)` → ``` a `b` # ``c``⟨U+202E⟩y")
    assert line.endswith("y… ```\n")
    assert len(line) < 250


def test_what_has_no_text_is_its_output_or_how_it_ended(module: Module) -> None:
    failed = story({"kind": "error", "message": "No\nroute"}, status="failed", input="")
    stories = [story(end={"status": "succeeded", "output": {"a": "```"}}), failed, story(unsent={"code": "x"})]
    [[structured, *_], whole] = module(COPIES, {"title": "T", "stories": stories})

    assert structured == '````json\n{\n  "a": "```"\n}\n````'
    assert whole.endswith("**Ann\\_a**\n\n> No route\n\n*(failed)*\n")
    assert whole.count("Hello") == 1
