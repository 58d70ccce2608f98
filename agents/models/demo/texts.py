"""What the demo model says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from typing import Any

NOTE = (
    "*I am the demo model, a small program and not a language model. "
    "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY and start again for a real one.*"
)
NOT_KNOWN = "I know only a few kinds of short sentences. These work here:"
THOUGHTS = (
    "I was asked to take my time. First I look for numbers, then for places, then for the names of files. "
    "A language model would weigh every word against every other here; I compare with a list. "
    "Thinking longer does not help me, but it shows you what thinking looks like on this page. "
)
_STORY = (
    "The stage manager pins up the next call before the bell. A lamp above the door waits for the last cue. "
    "The prompter counts seven minutes of silence while the house fills. The second violin hears the sound of rain. "
)
MAX_ROWS, MAX_CHARS = 50, 2000
"""Rows of a table and characters of another result that are shown."""


def story(words: int) -> str:
    """Return exactly so many words, the same ones each time."""
    return " ".join(islice(cycle(_STORY.split()), words)).rstrip(".") + "."


def listed(opening: str, sentences: Iterable[str]) -> str:
    """Return sentences that work, below an opening."""
    lines = "\n".join(f"- {sentence}" for sentence in sentences)
    return f"{opening}\n\n{lines}" + ("\n\nFor each … write a value, several words in quotes." if "…" in lines else "")


def rendered(name: str, result: Any) -> str:
    """Return a result as a table, a list of facts, a block of text or a sentence."""
    if isinstance(result, dict) and {"columns", "rows"} <= set(result):
        return _table(result["columns"], result["rows"])
    files = result.get("files") if isinstance(result, dict) else None
    if files and all(isinstance(file, dict) for file in files):
        return _table([*files[0]], [[*file.values()] for file in files])
    if isinstance(result, dict):
        return "\n".join([f"`{name}` answered:\n", *(f"- {key}: {_cell(value)}" for key, value in result.items())])
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    if "\n" in text:
        return f"`{name}` answered:\n\n```\n{text[:MAX_CHARS].rstrip().replace('```', '` ` `')}\n```"
    return f"`{name}` answered **{text[:MAX_CHARS]}**"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    heads = [str(name).replace("_", " ") for name in columns]
    rulers = ["---:" if isinstance(cell, int | float) else "---" for cell in (rows or [heads])[0]]
    lines = [heads, rulers, *([_cell(cell) for cell in row] for row in rows[:MAX_ROWS])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "" if value is None else str(value).replace("|", "\\|")
