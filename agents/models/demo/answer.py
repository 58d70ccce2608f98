"""What the demo model answers to a request: thoughts, then tool calls or text. Nothing here waits or streams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.models.demo import saying
from agents.models.demo.conversation import Conversation, read_conversation
from agents.models.demo.filling import fill
from agents.models.demo.manner import Manner, manner_of
from agents.models.demo.plan import Call, plan
from agents.models.demo.telling import tell


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole answer."""

    reasoning: str = ""
    text: str = ""
    calls: Sequence[tuple[str, str, str]] = field(default_factory=tuple)
    """Id, tool and arguments as JSON."""
    manner: Manner = field(default_factory=Manner)


def answer(messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Answer:
    """Return the answer to ``messages``; ``options`` are LiteLLM's, of which tools and response_format count."""
    conversation = read_conversation(messages)
    manner = manner_of(conversation.sentence)
    tools = _tools(options)
    rounds = plan(conversation, tools)
    if conversation.rounds < len(rounds):
        calls = rounds[conversation.rounds]
        return Answer(
            reasoning=_thoughts(conversation, manner, calls),
            calls=[_call(messages, call, position) for position, call in enumerate(calls)],
            manner=manner,
        )
    schema = _schema(options)
    if schema is not None:
        text = json.dumps(fill(schema, conversation.sentence), ensure_ascii=False, indent=2)
        thought = "I fill the form with what the sentence says and leave empty what it does not. "
        return Answer(
            reasoning=saying.ponder(conversation.sentence) if manner.ponder else thought, text=text, manner=manner
        )
    reasoning = saying.ponder(conversation.sentence) if manner.ponder and not conversation.done else ""
    return Answer(reasoning=reasoning, text=_text(conversation, manner, tools), manner=manner)


def _text(conversation: Conversation, manner: Manner, tools: Mapping[str, Any]) -> str:
    if conversation.done:
        text = tell(conversation.done)
    elif manner.words:
        return saying.ramble(manner.words)
    elif manner.echo:
        text = manner.echo
    elif manner.failure:
        text = "This time it worked. What you saw was a model call that failed and was tried again."
    elif manner.help or (manner.greeting and conversation.first):
        return saying.introduction(tools)
    elif manner.greeting:
        return saying.again(tools)
    elif manner.thanks:
        text = saying.welcome()
    elif not tools and not conversation.first:
        text = saying.without_tools()
    else:
        text = saying.not_understood(tools)
    return f"{text}\n\n{saying.NOTE}" if conversation.first else text


def _thoughts(conversation: Conversation, manner: Manner, calls: Sequence[Call]) -> str:
    start = saying.ponder(conversation.sentence) if manner.ponder else ""
    reasons = list(dict.fromkeys(call.why for call in calls))
    if len(calls) > 1:
        reasons.append("They do not need each other, so I ask for all of them at once.")
    return f"{start}{' '.join(reasons)} "


def _call(messages: Sequence[Mapping[str, Any]], call: Call, position: int) -> tuple[str, str, str]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    seed = f"{len(messages)}/{position}/{call.name}/{arguments}/{messages[-1]}"
    return f"call_{hashlib.sha256(seed.encode('utf-8', 'replace')).hexdigest()[:24]}", call.name, arguments


def _tools(options: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    if options.get("tool_choice") == "none":
        return {}
    functions = (tool.get("function") or {} for tool in options.get("tools") or ())
    return {str(function["name"]): function.get("parameters") or {} for function in functions if function.get("name")}


def _schema(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    asked = options.get("response_format")
    if not isinstance(asked, Mapping):
        return None
    if asked.get("type") == "json_object":
        return {"type": "object", "properties": {"text": {"type": "string"}}}
    schema = (asked.get("json_schema") or {}).get("schema")
    return schema if isinstance(schema, Mapping) else None
