"""What the demo model says of its own accord."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agents.models.demo.filling import kinds_of
from agents.models.demo.offer import Offer, words_of

NOTE = (
    "*I am the demo model, a small program and not a language model. "
    "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY and start again for a real one.*"
)
MAX_EXAMPLES = 8

_TRY = {
    "calculator": "What is 17 * 23?",
    "clock": "What time is it in Tokyo and Lima?",
    "write_file": "Write buy milk to notes.txt",
    "read_file": "Read notes.txt",
    "list_files": "List my files",
    "query_countries": "Which five countries have the largest population?",
    "order_supplies": "Order 3 boxes of paper",
}
_ALWAYS = ("Think hard and write 120 words", "Fail once")
_HEADS = (
    "The stage manager", "A lamp above the door", "The quiet prompter", "Somebody from the chorus",
    "The old call board", "A messenger", "The second violin", "Nobody in the house", "The curtain",
    "A stagehand with a list",
)  # fmt: skip
_VERBS = (
    "pins up", "reads aloud", "waits for", "forgets", "counts", "carries", "hears", "turns over", "writes down",
    "asks about",
)  # fmt: skip
_TAILS = (
    "the next call", "a note in pencil", "seven minutes of silence", "the names of the evening",
    "an order for the tailor", "the last cue", "the sound of rain", "a door that stays open", "what was promised",
    "the way to the stage",
)  # fmt: skip
_JOINTS = (
    " before the bell",
    " while the house fills",
    " and smiles",
    " once more",
    "",
    " at half past seven",
    " for the others",
)


def introduction(examples: Sequence[str]) -> str:
    """Return who is speaking and what can be said to it."""
    return f"Hello! {NOTE}\n\nWith this agent's tools I understand sentences like these:\n\n{_listed(examples)}"


def again(examples: Sequence[str]) -> str:
    """Return the same for somebody who knows it already."""
    return f"Hello again. Try one of these:\n\n{_listed(examples)}"


def not_understood(examples: Sequence[str]) -> str:
    """Return an apology with sentences that work."""
    return f"That is beyond me; I only know a few kinds of short sentences. These work:\n\n{_listed(examples)}"


def asked_back(offer: Offer, arguments: Mapping[str, Any], missing: Sequence[str]) -> str:
    """Return why a tool was not called, and what to say to have it called."""
    if not offer.has_effect:
        return f"I can ask `{offer.name}`, but your sentence does not say: {', '.join(missing)}."
    about = f"`{offer.name}` changes something, so I call it only when a sentence says every value plainly"
    why = f"I miss: {', '.join(missing)}" if missing else "yours says more than that, which I do not understand"
    return f"Nothing was done. {about}; {why}. Say just this:\n\n{_listed([command_for(offer, arguments)])}"


def examples(offers: Mapping[str, Offer], starters: Sequence[str], has_rule: Callable[[Offer], bool]) -> list[str]:
    """Return sentences for the agent that is asked: its starters, then one for each of its tools.

    ``has_rule`` says whether a tool is one that ships, and not another one of its name.
    """
    offered = [_TRY[name] if has_rule(offer) else command_for(offer, {}) for name, offer in offers.items()]
    return list(dict.fromkeys([*starters, *offered, *_ALWAYS]))[:MAX_EXAMPLES]


def command_for(offer: Offer, arguments: Mapping[str, Any]) -> str:
    """Return the sentence that has a tool called with ``arguments``; ``…`` stands for a value of the user's.

    A tool with effects gets no sample values: whoever copies the sentence means it.
    """
    names = list(dict.fromkeys([*offer.required, *arguments]))
    said = ", ".join(f"{' '.join(words_of(name))} {_sample(offer, name, arguments)}" for name in names)
    name = " ".join(offer.words).capitalize()
    return f"{name}: {said}" if said else name


def _sample(offer: Offer, name: str, arguments: Mapping[str, Any]) -> str:
    schema = offer.arguments[name]
    if name in arguments:
        return (
            f'"{arguments[name]}"'
            if isinstance(arguments[name], str) and "enum" not in schema
            else str(arguments[name])
        )
    kinds = kinds_of(schema)
    if offer.has_effect:
        return '"…"' if "string" in kinds and "enum" not in schema else "…"
    if schema.get("enum"):
        return str(schema["enum"][0])
    if "integer" in kinds or "number" in kinds:
        return str(max(42, int(schema.get("minimum", 42))))
    return "yes" if "boolean" in kinds else '"…"'


def welcome() -> str:
    """Return an answer to thanks."""
    return "You are welcome. What shall I do next?"


def without_tools() -> str:
    """Return an answer where a tool would be needed and none is left."""
    return "I would need a tool for that, and in this step I have none. Ask me again, perhaps for one thing at a time."


def ramble(words: int) -> str:
    """Return exactly ``words`` words, the same ones each time."""
    found: list[str] = []
    turn = 0
    while len(found) < words:
        number = turn * 7 + turn // 10 * 3
        sentence = f"{_HEADS[number % 10]} {_VERBS[(turn * 3 + turn // 7) % 10]} {_TAILS[(turn * 9 + turn // 3) % 10]}"
        sentence += f"{_JOINTS[turn % 7]}."
        if turn % 5 == 4:
            sentence += "\n\n"
        found += sentence.split(" ")
        turn += 1
    text = " ".join(found[:words]).replace("\n\n ", "\n\n").rstrip()
    return text if text.endswith(".") else f"{text}."


def ponder(sentence: str) -> str:
    """Return long thoughts about a sentence."""
    words = sentence.split()
    longest = max(words, key=len, default="nothing").strip(".,!?")
    return (
        f"I was told to take my time. The sentence has {len(words)} words, and the longest is “{longest}”. "
        "First I look for numbers, then for places, then for the names of files, "
        "since those tell me which tool to take. "
        "Then I look at what was said before, in case “that” or “it” means something. "
        "A language model would weigh every word against every other here; I compare with a list. "
        "The list is short, so thinking longer does not help me, "
        "but it shows you what thinking looks like on this page. "
    )


def _listed(lines: Collection[str]) -> str:
    listed = "\n".join(f"- {line}" for line in lines)
    return f"{listed}\n\nFor each … say a value of yours." if "…" in listed else listed
