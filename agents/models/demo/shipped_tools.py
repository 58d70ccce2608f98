"""The sentences that call the tools that ship."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agents.models.demo.own_tools import Offer

Arguments = Mapping[str, Any]
Rule = Callable[[str], Iterator[Arguments]]
"""Yields the arguments of each call of a tool that a sentence asks for."""
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
_NUMBER = r"\(*\d+(?:\.\d+)?%?\)*"
_SUM = re.compile(rf"(?<![\w.-]){_NUMBER}(?:\s*(?:\*\*|[-+*/^×÷]|of\b)\s*-?{_NUMBER})+(?![\w-])")
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
    may_have_effect = offer.name in ("write_file", "order_supplies")
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
}
"""A sentence that calls the tool, and the rule by which others do."""
