"""What one model call of an agent asks, as far as the definition, the conversation and the tools decide it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from agents.errors import OutputInvalid
from agents.prompt import FINAL_TURN_PROMPT, Window, messages_for, offered
from agents.tools.tool import Tool
from bus.journal.owner import HistoryItem
from config.definitions.agent import AgentDefinition
from config.definitions.schemas.json_schema import schema_errors
from config.identity.principal import Role


def model_request(
    definition: AgentDefinition,
    window: Window,
    tools: Mapping[str, Tool],
    roles: Collection[Role],
    *,
    max_result_chars: int,
    steered: Sequence[HistoryItem] = (),
    repair: Sequence[Mapping[str, Any]] = (),
    is_last: bool = False,
) -> dict[str, Any]:
    """Return the fields of a ``ModelCall`` that say what is asked, without those that say whom.

    Args:
        window: the conversation so far; texts of clients (``steered``) stand behind it.
        roles: those of the run's principal, which may not call every tool.
        repair: messages that make the model correct an answer that did not fit the output schema.
        is_last: whether the model has to answer without tools.
    """
    messages: list[Mapping[str, Any]] = [
        *messages_for(
            definition,
            [*window.items, *steered],
            is_cut=window.is_cut,
            max_result_chars=max_result_chars,
            summary=window.summary,
        ),
        *repair,
    ]
    if is_last:
        messages.append({"role": "system", "content": FINAL_TURN_PROMPT})
    offered_tools = {name: tool for name, tool in tools.items() if tool.may_be_called_with(roles)}
    return {
        "messages": messages,
        "tools": offered(offered_tools) or None,
        "effects": {name: tool.effect for name, tool in offered_tools.items()},
        "tool_choice": "none" if is_last and offered_tools else None,
        "params": definition.params,
        "response_format": response_format(definition.output_schema) if definition.output_schema else None,
    }


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as OpenAI's ``response_format``."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def repair_messages(text: str, problem: str) -> list[dict[str, Any]]:
    """Return the messages that make the model correct an answer that failed the schema."""
    request = f"Your last answer cannot be used: {problem} Answer again with only the corrected JSON object."
    return [{"role": "assistant", "content": text}, {"role": "user", "content": request}]


# --- the answer that fits an output schema


MAX_CHARS = 512 * 1024
"""Longest structured answer; a worker decodes and checks it on the loop of all its runs."""
_FENCE = "```"


def parse_output(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the data in an answer, without a code fence around it.

    Raises:
        OutputInvalid: it is not JSON, fails the schema, or is too long; the message is for people and the model.
    """
    if len(text) > MAX_CHARS:
        raise OutputInvalid(f"the answer has {len(text):,} characters and the limit is {MAX_CHARS:,}.")
    try:
        value = orjson.loads(_without_fence(text))
    except orjson.JSONDecodeError as error:
        raise OutputInvalid(f"the answer is not JSON ({error}).") from error
    problems = schema_errors(schema, value)
    if problems:
        raise OutputInvalid(f"the answer does not fit the schema: {'; '.join(problems)}.")
    return value


def _without_fence(text: str) -> str:
    """Return ``text`` without its first and last line where these are a code fence."""
    answer = text.strip()
    opening, newline, inside = answer.partition("\n")
    if not newline or not inside.endswith(_FENCE) or opening.rstrip() not in (_FENCE, f"{_FENCE}json"):
        return text
    return inside.removesuffix(_FENCE)
