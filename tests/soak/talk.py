"""What the runs of a soak are about: a sentence says which tools a run calls, and what it answers at last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from config.clock import epoch_ms
from tests.model_server import Call, Turn

PLANS: dict[str, list[list[str]]] = {
    "chat": [], "long": [], "tools": [["look_up"], ["send"], ["order"]], "pay": [["pay"]],
    "both": [["send", "pay", "order"]],
}  # fmt: skip
"""Kind of a run -> the calls of each answer before the last one."""
KINDS = tuple(PLANS)
AGENT_TOOLS = "tools: [{}]\ntimeouts: {{between_chunks_s: 20, tool_s: 20}}".format(
    ", ".join(f"'tests.soak.shop:{name}'" for name in ("look_up", "send", "order", "pay"))
)


def kind_of(sentence: str) -> str:
    """Return the kind of the run that was started with ``sentence``."""
    return sentence.partition(" ")[0]


def whole_answer(sentence: str) -> str:
    """Return the last words of a run that was started with ``sentence`` and succeeded."""
    return "".join(_words(sentence))


def _words(sentence: str) -> list[str]:
    kind, _, value = sentence.partition(" ")
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
        place = max(place for place, message in enumerate(body["messages"]) if message["role"] == "user")
        sentence = str(body["messages"][place]["content"])
        said = sum(1 for message in body["messages"][place:] if message["role"] == "assistant")
        self.asked.append(Asked(sentence=sentence, round=said, at_ms=epoch_ms()))
        kind, _, value = sentence.partition(" ")
        if said < len(PLANS.get(kind, ())):
            calls = PLANS[kind][said]
            made = [Call(name=name, arguments={"value": f"{value}-{name}"}) for name in calls]
            return Turn(text=f"Now {calls[0]}. ", calls=made)
        return Turn(text=_words(sentence), pace=self.pace)
