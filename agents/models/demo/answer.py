"""What the demo model answers to a request: thoughts, then tool calls or text. Nothing here waits or streams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.models.demo import saying
from agents.models.demo.conversation import Conversation, read_conversation
from agents.models.demo.filling import fill
from agents.models.demo.manner import Manner, manner_of
from agents.models.demo.offer import offers_of
from agents.models.demo.plan import Call, Question, has_rule, plan
from agents.models.demo.telling import tell

if TYPE_CHECKING:
    from agents.models.call import ModelCall


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole answer."""

    reasoning: str = ""
    text: str = ""
    calls: Sequence[tuple[str, str, str]] = field(default_factory=tuple)
    """Id, tool and arguments as JSON."""
    manner: Manner = field(default_factory=Manner)


def answer(call: ModelCall) -> Answer:
    """Return the answer to ``call``."""
    conversation = read_conversation(call.messages)
    manner = manner_of(conversation.sentence)
    offers = offers_of(call)
    todo = plan(conversation, offers)
    if conversation.rounds < len(todo.rounds):
        calls = todo.rounds[conversation.rounds]
        return Answer(
            reasoning=_thoughts(conversation, manner, calls),
            calls=[_call(call.messages, made, position) for position, made in enumerate(calls)],
            manner=manner,
        )
    schema = _schema(call.response_format)
    if schema is not None:
        text = json.dumps(fill(schema, conversation.sentence), ensure_ascii=False, indent=2)
        thought = "I fill the form with what the sentence says and leave empty what it does not. "
        return Answer(
            reasoning=saying.ponder(conversation.sentence) if manner.ponder else thought, text=text, manner=manner
        )
    reasoning = saying.ponder(conversation.sentence) if manner.ponder and not conversation.done else ""
    examples = saying.examples(offers, call.starters, has_rule)
    text = _text(conversation, manner, todo.question, examples, has_tools=bool(offers))
    return Answer(reasoning=reasoning, text=text, manner=manner)


def _text(
    conversation: Conversation, manner: Manner, question: Question | None, examples: Sequence[str], *, has_tools: bool
) -> str:
    if conversation.done:
        text = tell(conversation.done)
    elif manner.words:
        return saying.ramble(manner.words)
    elif manner.echo:
        text = manner.echo
    elif manner.failure:
        text = "This time it worked. What you saw was a model call that failed and was tried again."
    elif question is not None:
        text = saying.asked_back(question.offer, question.arguments, question.missing)
    elif manner.help or (manner.greeting and conversation.first):
        return saying.introduction(examples)
    elif manner.greeting:
        return saying.again(examples)
    elif manner.thanks:
        text = saying.welcome()
    elif not has_tools and not conversation.first:
        text = saying.without_tools()
    else:
        text = saying.not_understood(examples)
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


def _schema(asked: Any) -> Mapping[str, Any] | None:
    """Return the schema of a ``response_format``."""
    if not isinstance(asked, Mapping):
        return None
    if asked.get("type") == "json_object":
        return {"type": "object", "properties": {"text": {"type": "string"}}}
    schema = (asked.get("json_schema") or {}).get("schema")
    return schema if isinstance(schema, Mapping) else None
