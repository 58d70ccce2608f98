"""What the runs of a soak are about: a sentence says which tools a run calls, and what it answers at last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from config.clock import epoch_ms
from tests.model_server import Call, Turn

PLANS: dict[str, list[list[str]]] = {
    "chat": [],
    "long": [],
    "tools": [["look_up"], ["send"], ["order"]],
    "pay": [["pay"]],
    "both": [["send", "pay", "order"]],
    "hostile": [["recite"]],
    "shaped": [],
    "failing": [],
}
"""Kind of a run -> the calls of each answer before the last one. F39 are the last three: a tool result and an answer of
hostile text, a structured answer that hides in blank lines, an error page of 10 MB before the answer."""
KINDS = tuple(PLANS)
AGENT_TOOLS = "tools: [{}]\ntimeouts: {{between_chunks_s: 20, tool_s: 20}}".format(
    ", ".join(f"'tests.soak.shop:{name}'" for name in ("look_up", "send", "order", "pay", "recite"))
)
SHAPED = """output_schema:
  type: object
  properties: {said: {type: string}}
  required: [said]
  additionalProperties: false
timeouts: {between_chunks_s: 20}"""
"""The rest of the definition of the agent that answers in a schema."""
HOSTILE = ("\n", "```", "[](", '{"a":', "**_", "|-|\n", "<a ", "sk-aaaa", "\u202e", "$ref")
"""Text that is short for a model to say and long for a bad parser to read, each piece of an answer of its own kind."""
PIECE_CHARS = 3000
ERROR_PAGE_BYTES = 10_000_000


def kind_of(sentence: str) -> str:
    """Return the kind of the run that was started with ``sentence``."""
    return sentence.partition(" ")[0]


def agent_of(kind: str) -> str:
    """Return the id of the agent that runs of a kind are started with."""
    return "shaped" if kind == "shaped" else "tester"


def output_of(sentence: str) -> Any:
    """Return the output of a run that was started with ``sentence`` and succeeded."""
    text = "".join(_words(sentence))
    return {"said": sentence} if kind_of(sentence) == "shaped" else text


def hostile(value: str) -> list[str]:
    """Return the pieces of a text that is hostile to parsers, with ``value`` in each."""
    return [f"{value}{piece * (PIECE_CHARS // len(piece))}" for piece in HOSTILE]


def _words(sentence: str) -> list[str]:
    kind, _, value = sentence.partition(" ")
    if kind == "hostile":
        return hostile(value)
    if kind == "shaped":
        return [
            "```json",
            *["\n" * PIECE_CHARS] * 3,
            orjson.dumps({"said": sentence}).decode(),
            "\n" * PIECE_CHARS,
            "```",
        ]
    return [f"{value}.{i} " for i in range(120 if kind == "long" else 25)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One time the model was asked."""

    sentence: str
    round: int
    """How many answers of the run came before."""
    at_ms: int
    """When, in ms since 1970."""


@dataclass(slots=True)
class Model:
    """Answers as the sentence says, the same conversation the same each time, and remembers when it was asked."""

    asked: list[Asked] = field(default_factory=list)
    pace: float | None = 25.0
    """Words a second."""

    def respond(self, body: Mapping[str, Any]) -> Turn:
        """Return the next turn of a conversation."""
        position = max(index for index, message in enumerate(body["messages"]) if message["role"] == "user")
        sentence = str(body["messages"][position]["content"])
        round_number = sum(1 for message in body["messages"][position:] if message["role"] == "assistant")
        self.asked.append(Asked(sentence=sentence, round=round_number, at_ms=epoch_ms()))
        kind, _, value = sentence.partition(" ")
        if kind == "failing" and [request.sentence for request in self.asked].count(sentence) == 1:
            return Turn(status=500, raw=b"<p>sk-" * (ERROR_PAGE_BYTES // 6))
        if round_number < len(PLANS.get(kind, ())):
            calls = PLANS[kind][round_number]
            tool_calls = [Call(name=name, arguments={"value": f"{value}-{name}"}) for name in calls]
            return Turn(text=f"Now {calls[0]}. ", calls=tool_calls)
        return Turn(text=_words(sentence), pace=self.pace)
