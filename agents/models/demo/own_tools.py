"""Which of the user's own tools a sentence calls.

A tool that may change something is called only by a plain command, ``refund: order 1043, cents 250``: its name, a
colon, and each argument behind its own name. A ``pure`` tool is found by the words that it shares with the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.models.demo.schema_filler import shape_of, types_of
from config.effects import Changes, Effect

if TYPE_CHECKING:
    from agents.models.call import ModelCall


_PARTS = re.compile(r"(?:\"[^\"]*\"|[^,\"])+")
_NUMBER = r"-?\d{1,15}(?:\.\d{1,9})?"
_NUMERIC = {"integer", "number"}
_FORMS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "integer": (r"-?\d{1,15}", int),
    "number": (_NUMBER, lambda text: float(text) if "." in text else int(text)),
    "boolean": ("yes|no", lambda text: text.lower() == "yes"),
    "string": (r"\"[^\"]*\"|[\w.@:+'/-]+", lambda text: text.strip('"')),
}
"""How a value of each type is written, and what reads it; a text of several words stands in quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A tool on offer."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    has_effect: bool
    """Whether a call may change something."""

    @property
    def words(self) -> str:
        return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", self.name))

    @property
    def kinds(self) -> Mapping[str, list[str]]:
        """The types of each argument, by name."""
        return {name: types_of(shape_of(each, self.schema)) for name, each in self.schema.get("properties", {}).items()}

    def missing(self, *stated: str) -> list[str]:
        """Return the required arguments that are not among ``stated``."""
        return [name for name in self.schema.get("required", ()) if name not in stated]

    def command(self, arguments: Mapping[str, object]) -> str:
        """Return the sentence that calls the tool; ``…`` stands for a value that only the user may choose."""
        values = {**arguments, **dict.fromkeys(self.missing(*arguments), "…")}
        quoted = (f'{name} "{value}"' if " " in str(value) else f"{name} {value}" for name, value in values.items())
        return f"{self.words.capitalize()}{': ' if values else ''}{', '.join(quoted)}"


Command = tuple[Offer, Mapping[str, Any], bool]
"""A tool that a sentence is about, its arguments there, and whether these are all that is required and nothing else."""


def offers_of(call: ModelCall) -> dict[str, Offer]:
    """Return the tools ``call`` may use, by name."""
    functions = (tool["function"] for tool in call.tools or () if call.tool_choice != "none")
    return {
        function["name"]: Offer(
            name=function["name"],
            description=function.get("description") or "",
            schema=function.get("parameters") or {},
            has_effect=call.effects.get(function["name"], Effect.UNSAFE).policy.changes is not Changes.NEVER,
        )
        for function in functions
    }


def command_in(sentence: str, offers: Iterable[Offer]) -> Command | None:
    """Return the sentence as a command to the tool with effects whose name it begins with, the longest of several."""
    named = [(match, offer) for offer in offers if offer.has_effect and (match := _begins_with(sentence, offer))]
    if not named:
        return None
    match, offer = max(named, key=lambda found: found[0].end("name"))
    parts = [part.strip() for part in _PARTS.findall(match["rest"].rstrip(" .!"))]
    arguments = dict(stated for part in parts for stated in _stated(part, offer))
    is_plain = len(parts) == len(arguments) and bool(parts) == bool(match["colon"])
    return offer, arguments, is_plain and not offer.missing(*arguments)


def lookup_in(sentence: str, offers: Iterable[Offer]) -> Command | None:
    """Return the call of the ``pure`` tool that shares a word of its name, and most words, with the sentence."""
    said = _stems(sentence)
    found = [offer for offer in offers if not offer.has_effect and said & _stems(offer.words)]
    if not found:
        return None
    offer = max(found, key=lambda one: len(said & _stems(f"{one.words} {one.description}")))
    numbers = map(_FORMS["number"][1], re.findall(rf"(?<![\w.,-]){_NUMBER}", sentence))
    guessed = {name: next(numbers, None) if _NUMERIC & set(offer.kinds[name]) else sentence for name in offer.missing()}
    arguments = {name: value for name, value in guessed.items() if value is not None}
    return offer, arguments, arguments.keys() == guessed.keys()


def _begins_with(sentence: str, offer: Offer) -> re.Match[str] | None:
    name = r"[\s_-]*(?:(?:the|an?)\s+)?".join(offer.words.split())
    form = rf"(?P<name>(?:please\s+)?{name}\b)\s*(?P<colon>:?)(?P<rest>.*)"
    return re.fullmatch(form, sentence, re.IGNORECASE | re.DOTALL) if name else None


def _stated(part: str, offer: Offer) -> list[tuple[str, object]]:
    """Return the argument that ``part`` of a command states, as its name and the value behind it."""
    for name, kinds in offer.kinds.items():
        form, read = next((_FORMS[kind] for kind in kinds if kind in _FORMS), ("(?!)", str))
        if match := re.fullmatch(rf"{re.escape(name)}[\s:=#]+({form})", part, re.IGNORECASE):
            return [(name, read(match[1]))]
    return []


def _stems(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[^\W\d_]{3,}", text.lower())}
