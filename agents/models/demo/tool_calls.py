"""Which tool a sentence calls, of the user's own and, by a command, of all others.

A command calls any tool, ``refund: order 1043, cents 250``: its name, a colon, and each argument behind its own name.
A tool that may change something is called by nothing else. A ``pure`` tool takes what stands behind the colon without
names as well, and is found by the words that it shares with the sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.models.demo.goals import GOAL_RULES, WITH_EFFECT, Arguments, Rule
from agents.models.demo.schema_filler import shape_of, types_of
from config.effects import Changes, Effect

if TYPE_CHECKING:
    from agents.models.call import ModelCall

_PARTS = re.compile(r"(?:\"[^\"]*\"|\[[^\[\]]{0,200}\]|\{[^{}]{0,200}\}|[^,\"])+")
_NUMBER = r"-?\d{1,15}(?:\.\d{1,9})?"
_NUMERIC = {"integer", "number"}
_FORMS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "integer": (r"-?\d{1,15}", int),
    "number": (_NUMBER, lambda text: float(text) if "." in text else int(text)),
    "boolean": ("yes|no", lambda text: text.lower() == "yes"),
    "string": (r"\"[^\"]*\"|[\w.@:+'/-]+", lambda text: text.strip('"')),
    "array": (r"\[.*\]", json.loads),
    "object": (r"\{.*\}", json.loads),
}
"""How a value of each type is written, and what reads it; a text of several words stands in quotes."""
_ANY_TEXT = r"\"[^\"]*\"|[^\s\"][^\"]*"
"""How a text is written for a tool that changes nothing."""


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
        quoted = (f"{name} {_written(value)}" for name, value in values.items())
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


def command_in(sentence: str, offers: Iterable[Offer], shipped: Container[str] = ()) -> Command | None:
    """Return the sentence as a command to the tool whose name it begins with, the longest of several.

    The colon may be missing where nothing else stands or has to stand there, and behind the name of an own tool with
    effects; other names also begin questions.
    """
    matches = [(match, offer) for offer in offers if (match := _begins_with(sentence, offer))]
    named = [
        (match, offer)
        for match, offer in matches
        if match["colon"] or _is_own(offer, shipped) or not (match["rest"].strip(" .!") or offer.missing())
    ]
    if not named:
        return None
    match, offer = max(named, key=lambda pair: pair[0].end("name"))
    rest = match["rest"].strip().rstrip(" .!")
    parts = [part.strip() for part in _PARTS.findall(rest)]
    arguments = dict(stated for part in parts for stated in _stated(part, offer))
    if rest and not (arguments or offer.has_effect or any(_begins_with_word(rest, name) for name in offer.kinds)):
        arguments = _guessed(rest, offer)
        return offer, arguments, not offer.missing(*arguments)
    is_plain = len(parts) == len(arguments) and bool(parts) == bool(match["colon"])
    return offer, arguments, is_plain and not offer.missing(*arguments)


def lookup_in(sentence: str, offers: Iterable[Offer]) -> Command | None:
    """Return the call of the ``pure`` tool that shares a word of its name, and most words, with the sentence."""
    stems = _stems(sentence)
    matches = [offer for offer in offers if not offer.has_effect and stems & _stems(offer.words)]
    if not matches:
        return None
    offer = max(matches, key=lambda match: len(stems & _stems(f"{match.words} {match.description}")))
    arguments = _guessed(sentence, offer)
    return offer, arguments, not offer.missing(*arguments)


def _is_own(offer: Offer, shipped: Container[str]) -> bool:
    return offer.has_effect and offer.name not in shipped


def _guessed(text: str, offer: Offer) -> dict[str, Any]:
    """Return the required arguments that ``text`` may mean: its numbers in order, and the whole as each text."""
    numbers = map(_FORMS["number"][1], re.findall(rf"(?<![\w.,-]){_NUMBER}", text))
    guesses = {name: next(numbers, None) if _NUMERIC & set(offer.kinds[name]) else text for name in offer.missing()}
    return {name: value for name, value in guesses.items() if value is not None}


def _begins_with(sentence: str, offer: Offer) -> re.Match[str] | None:
    name = r"[\s_-]*(?:(?:the|an?)\s+)?".join(offer.words.split())
    form = rf"(?P<name>(?:please\s+)?{name}\b)\s*(?P<colon>:?)(?P<rest>.*)"
    return re.fullmatch(form, sentence, re.IGNORECASE | re.DOTALL) if name else None


def _written(value: object) -> str:
    """Return a value as it stands in a command."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return f'"{value}"' if " " in str(value) else str(value)


def _begins_with_word(text: str, word: str) -> bool:
    return re.match(rf"{re.escape(word)}\b", text, re.IGNORECASE) is not None


def _stated(part: str, offer: Offer) -> list[tuple[str, object]]:
    """Return the argument that ``part`` of a command states, as its name and the value behind it."""
    for name, kinds in offer.kinds.items():
        kind = next((kind for kind in kinds if kind in _FORMS), "")
        form, read = _FORMS.get(kind, ("(?!)", str))
        form = _ANY_TEXT if kind == "string" and not offer.has_effect else form
        if match := re.fullmatch(rf"{re.escape(name)}[\s:=#]+({form})", part, re.IGNORECASE):
            with suppress(ValueError):  # brackets around something else than JSON
                return [(name, read(match[1]))]
    return []


def _stems(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[^\W\d_]{3,}", text.lower())}


# --- the tools that Callboard ships


_COUNTS = {word: str(number) for number, word in enumerate(("one", "two", "three", "four", "five", "six"), 1)}
_COUNT = rf"\d{{1,3}}|{'|'.join(_COUNTS)}"
_BOXES = rf"({_COUNT}) (?:box(?:es)? )?(?:of )?(paper|pens|coffee|envelopes|toner|notebooks)"
_ORDER = re.compile(rf"(?:please )?order {_BOXES}(?:(?:, | and ){_BOXES})*[.!]?", re.IGNORECASE)
_FILE = r"(?P<path>[\w./-]+\.[A-Za-z]\w{0,7})"
_READ = re.compile(rf"\b(?i:read|show) {_FILE}")
_LIST = re.compile(r"\b(?:list|show|which)\b[^.?!]*\bfiles\b", re.IGNORECASE)
_WRITE = re.compile(
    rf"(?:please )?(?:write|put) (.+?) (?:in|to) {_FILE}(?:,? (?:and|then) (read it|list my files))?[.!]?",
    re.IGNORECASE | re.DOTALL,
)
_CLOCK = re.compile(r"\bwhat\b[^?]*?\b(?:time|date)\b(?: is it)?(?: in ([^?.!]+)| today)?[?.!]?", re.IGNORECASE)
_OPERAND = r"\(*\d+(?:\.\d+)?%?\)*"
_SUM = re.compile(rf"(?<![\w.-]){_OPERAND}(?:\s*(?:\*\*|[-+*/^×÷]|of\b)\s*-?{_OPERAND})+(?![\w-])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST = re.compile(r"\b(?:largest|most|(smallest|fewest))\b")
_PLACE = r"[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*)*"
_PLACES = re.compile(rf"(?:[Cc]ompare|capital of|population of) ({_PLACE}(?:(?:, | and |, and ){_PLACE})*)")
_COLUMNS = "name, capital, continent, population, area_km2, round(population / area_km2, 1) AS people_per_km2"


def calls_in(sentence: str, offers: Mapping[str, Offer], results: Mapping[str, Any]) -> list[tuple[str, Arguments]]:
    """Return the calls to make next; ``results`` has what the tools called since the sentence returned."""
    if written := _WRITE.fullmatch(sentence):
        calls = [step for step in _writing(written, results) if step[0] not in results][:1]
    else:
        calls = (
            [] if results else [(name, arguments) for name, (_, rule) in RULES.items() for arguments in rule(sentence)]
        )
    return [(name, arguments) for name, arguments in calls if name in offers and _is_shipped(offers[name], arguments)]


def _is_shipped(offer: Offer, arguments: Arguments) -> bool:
    """Return whether this is the tool that ships, and not another one of its name or with another effect."""
    may_have_effect = offer.name in ("write_file", "order_supplies", *WITH_EFFECT)
    return set(arguments) <= set(offer.kinds) and may_have_effect >= offer.has_effect


def _writing(written: re.Match[str], results: Mapping[str, Any]) -> Iterator[tuple[str, Arguments]]:
    text, path, then = written.groups("")
    if calculated := re.fullmatch("the result of (.+)", text, re.IGNORECASE):
        yield "calculator", {"expression": calculated[1]}
        text = str(results.get("calculator", text))
    yield "write_file", {"path": path, "text": text.strip("'\"")}
    if then:
        yield ("read_file", {"path": path}) if then.startswith("read") else ("list_files", {})


def _order(sentence: str) -> Iterator[Arguments]:
    """Order what is said with its number of boxes; how many is never guessed."""
    if _ORDER.fullmatch(sentence):
        for count, item in re.findall(_BOXES, sentence, re.IGNORECASE):
            yield {"item": item.lower(), "boxes": _count(count)}


def _clock(sentence: str) -> Iterator[Arguments]:
    if match := _CLOCK.search(sentence):
        yield from ({"timezone": word} for word in re.split(r", | and ", match[1] or "UTC"))


def _each(pattern: re.Pattern[str]) -> Rule:
    """Return the rule by which each match is a call, and each named part of it an argument."""
    return lambda sentence: (match.groupdict() for match in pattern.finditer(sentence))


def _query(sentence: str) -> Iterator[Arguments]:
    """Yield SQL for a ranking, for the continents or for the countries that are named."""
    lower = sentence.lower()
    if (most := _MOST.search(lower)) and "countr" in lower:
        by = "population" if "population" in lower else "neighbours" if "neighbours" in lower else "area_km2"
        match = re.search(rf"\b({_COUNT})\b", lower)
        order = f"ORDER BY {by} {'ASC' if most[1] else 'DESC'} LIMIT {_count(match[1]) if match else 1}"
        joined = "countries JOIN borders ON country = code GROUP BY code"
        table = f"count(*) AS neighbours FROM {joined}" if by == "neighbours" else f"{by} FROM countries"
        yield {"sql": f"SELECT name, {table} {order}"}
    elif "by continent" in lower:
        sums = "count(*) AS countries, sum(population) AS population"
        yield {"sql": f"SELECT continent, {sums} FROM countries GROUP BY continent ORDER BY population DESC"}
    elif places := _PLACES.search(sentence):
        names = ["'" + name.replace("'", "''") + "'" for name in re.split(r", and |, | and ", places[1])]
        yield {"sql": f"SELECT {_COLUMNS} FROM countries WHERE name IN ({', '.join(names)})"}


def _calculate(sentence: str) -> Iterator[Arguments]:
    yield from ({"expression": match[0]} for match in _SUM.finditer(_DATE.sub(";", sentence)))


def _count(text: str) -> int:
    return int(_COUNTS.get(text.lower(), text))


RULES: Mapping[str, tuple[str, Rule]] = {
    "read_file": ("Read notes.txt", _each(_READ)),
    "list_files": ("List my files", _each(_LIST)),
    "write_file": ("Write buy milk to notes.txt", lambda _: iter(())),  # see _writing
    "order_supplies": ("Order 3 boxes of paper", _order),
    "calculator": ("What is 17 * 23?", _calculate),
    "clock": ("What time is it in Tokyo and Lima?", _clock),
    "query_countries": ("Which five countries have the largest population?", _query),
    **GOAL_RULES,
}
"""A sentence that calls the tool, and the rule by which others do."""
