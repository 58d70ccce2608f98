"""What the page makes of a run's events: tries that failed are one item, which counts them."""

from __future__ import annotations

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

SCRIPT = """
  const { applyEvent, newStory } = await import(`${page}/state/story.js`);
  const story = newStory({ agent: "assistant", input: "" });
  for (const event of argument) applyEvent(story, event);
  return story.items.map(({ kind, message, tries, retry_in_ms }) => ({ kind, message, tries, retry_in_ms }));
"""


def error(seq: int, message: str, call_id: str | None = None, **more: object) -> dict[str, object]:
    call = {"call_id": call_id} if call_id else {}
    return {"type": "error", "seq": seq, "code": "tool_failed", "message": message, "retryable": True, **call, **more}


def test_tries_of_one_call_are_counted_and_those_of_another_are_not(module: Module) -> None:
    events = [
        error(1, "first", "one", retry_in_ms=100),
        error(2, "other", "two", retry_in_ms=100),
        error(3, "second", "one", retry_in_ms=200),
        error(4, "last", "one", retryable=False),
    ]

    items = module(SCRIPT, events)

    assert items == [
        {"kind": "error", "message": "last", "tries": 3},
        {"kind": "error", "message": "other", "retry_in_ms": 100},
    ]


def test_a_try_after_a_lost_attempt_is_not_counted_with_what_was_withdrawn(module: Module) -> None:
    events = [
        error(1, "lost", "one"),
        {"type": "withdrawn", "seq": 2, "ranges": [[1, 1]], "reason": "lost"},
        error(3, "last", "one", retryable=False),
    ]

    items = module(SCRIPT, events)

    assert [item["message"] for item in items if item["kind"] == "error"] == ["lost", "last"]


def test_a_model_that_another_one_stands_in_for_is_an_item_of_its_own(module: Module) -> None:
    events = [error(1, "busy"), error(2, "busy again", to_model="other"), error(3, "busy too")]

    items = module(SCRIPT, events)

    assert [(item["message"], item.get("tries")) for item in items] == [("busy again", 2), ("busy too", None)]
