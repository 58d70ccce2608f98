"""A tool with which an agent asks its user: the run waits without a worker, and the answer is the call's result."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agents.tools.call_context import current_call
from agents.tools.requests import MAX_TEXT
from agents.tools.tool import tool


@tool(effect="pure", timeout_s=10)
def ask_user(
    question: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)], form: dict[str, Any] | None = None
) -> Any:
    """Ask the user something that you need to know and cannot find out. Returns the answer.

    Args:
        question: what to ask, in one or two sentences.
        form: a JSON Schema with `type: object` whose `properties` are the fields to fill in, each with a `title`;
            without it the user answers with one text.
    """
    return current_call().ask(form, question)
