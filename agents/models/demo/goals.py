"""Sentences that call the tools of the goals that ship, and those with which an agent hands over.

What a sentence does not say is left out of the call: the agents of these goals ask a person for it.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agents.models.demo.schema_filler import date_in
from config.clock import utc_now

Arguments = Mapping[str, Any]
Rule = Callable[[str], Iterator[Arguments]]
"""Yields the arguments of each call of a tool that a sentence asks for."""
HANDED_OVER = "continues the conversation from here"
"""What the result of a hand-over says."""
WITH_EFFECT = frozenset({"move_money", "submit_loan_application", "book_pto"})

_MONEY = r"(?:€|\$|EUR\s)?\s?(\d{1,7}(?:\.\d{1,2})?)\s?(?:€|\$|euros?\b|EUR\b|dollars?\b)?"
_AMOUNT = re.compile(rf"\b(?:move|transfer|send|of|for)\s(?:a loan of\s)?{_MONEY}", re.IGNORECASE)
_FROM = re.compile(r"\bfrom (?:my |the )?([A-Za-z]{1,40})", re.IGNORECASE)
_TO = re.compile(r"\bto (?:my |the )?([A-Za-z]{1,40})", re.IGNORECASE)
_PURPOSE = re.compile(r"\bfor (?:a |an |the |my )?(?!loan\b)([A-Za-z][A-Za-z ]{0,60})", re.IGNORECASE)
_ROUTE = re.compile(r"\bfrom ([A-Z]\w{1,40}) to ([A-Z]\w{1,40})")
_CITY = re.compile(r"\bin ([A-Z]\w{1,40})")
_DATES = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_ORDER = re.compile(r"\border\s?#?(\d{3,10})\b", re.IGNORECASE)
_PACKAGE = re.compile(r"\b(CBX-\d{1,10})\b", re.IGNORECASE)
_CHANGE = re.compile(
    r"(?:please )?(?:switch|change|hand over|talk|connect me)(?: the)?(?: goal)? to (?:the )?([\w-]{1,64})"
    r"(?: agent| goal)?\b",
    re.IGNORECASE,
)


def _balances(sentence: str) -> Iterator[Arguments]:
    if re.search(r"\bbalances?\b", sentence, re.IGNORECASE):
        yield {}


def _move(sentence: str) -> Iterator[Arguments]:
    """Move what is said; an amount or an account is never guessed."""
    if re.match(r"(?:please )?(?:move|transfer)\b", sentence, re.IGNORECASE):
        parts = {"from_account": _FROM.search(sentence), "to_account": _TO.search(sentence)}
        yield {name: match[1].lower() for name, match in parts.items() if match} | _amount(sentence)


def _loan(sentence: str) -> Iterator[Arguments]:
    if re.match(r"(?:please )?(?:apply|submit)\b[^.]{0,40}\bloan\b", sentence, re.IGNORECASE):
        match = _PURPOSE.search(sentence, sentence.lower().index("loan"))
        yield _amount(sentence) | ({"purpose": match[1].strip()} if match else {})


def _amount(sentence: str) -> dict[str, float]:
    match = _AMOUNT.search(sentence)
    return {"amount_eur": float(match[1])} if match else {}


def _journeys(word: str) -> Rule:
    """Return the rule by which a sentence with the word searches connections."""

    def rule(sentence: str) -> Iterator[Arguments]:
        if re.search(rf"\b{word}s?\b", sentence, re.IGNORECASE):
            match, day = _ROUTE.search(sentence), date_in(sentence, utc_now().date())
            route = {"origin": match[1], "destination": match[2]} if match else {}
            yield route | ({"date": day.isoformat()} if day else {})

    return rule


def _events(sentence: str) -> Iterator[Arguments]:
    lower = sentence.lower()
    if re.search(r"\bevents?\b|\bwhat is on\b", lower):
        match = _CITY.search(sentence)
        months = [number for name, number in _MONTHS.items() if re.search(rf"\b{name}\b", lower)]
        yield ({"city": match[1]} if match else {}) | ({"month": months[0]} if months else {})


def _pto(sentence: str) -> Iterator[Arguments]:
    if re.search(r"\b(?:pto|days off|time off)\b", sentence, re.IGNORECASE) and not _is_booking(sentence):
        yield {}


def _book(sentence: str) -> Iterator[Arguments]:
    if _is_booking(sentence):
        yield dict(zip(("start_date", "end_date"), _DATES.findall(sentence), strict=False))


def _is_booking(sentence: str) -> bool:
    return re.match(r"(?:please )?book\b[^.]{0,40}\b(?:pto|off)\b", sentence, re.IGNORECASE) is not None


def _named(pattern: re.Pattern[str], name: str) -> Rule:
    return lambda sentence: ({name: match} for match in dict.fromkeys(pattern.findall(sentence)))


def _list(sentence: str) -> Iterator[Arguments]:
    if re.search(r"\b(?:list|which|what)\b[^.?!]{0,60}\b(?:agents|goals)\b", sentence, re.IGNORECASE):
        yield {}


def _change(sentence: str) -> Iterator[Arguments]:
    if match := _CHANGE.match(sentence):
        yield {"goal": match[1].lower()}


def left_of(sentence: str) -> str:
    """Return what a sentence that changes the agent says to the other one; a greeting where it says nothing."""
    match = _CHANGE.match(sentence)
    return sentence[match.end() :].lstrip(" .:,!") or "Hello" if match else sentence


GOAL_RULES: Mapping[str, tuple[str, Rule]] = {
    "ListAgents": ("Which agents are there?", _list),
    "ChangeGoal": ("Switch to finance", _change),
    "get_account_balances": ("What are my account balances?", _balances),
    "move_money": ("Move 100 euros from checking to savings", _move),
    "submit_loan_application": ("Apply for a loan of 5000 euros for a car", _loan),
    "search_flights": ("Find flights from Berlin to Lisbon on 2026-06-12", _journeys("flight")),
    "search_trains": ("Find trains from London to Paris tomorrow", _journeys("train")),
    "find_events": ("Which events are in Lisbon in June?", _events),
    "current_pto": ("How much PTO do I have left?", _pto),
    "book_pto": ("Book PTO from 2026-07-06 to 2026-07-10", _book),
    "get_order": ("Where is order 1042?", _named(_ORDER, "order_id")),
    "track_package": ("Track package CBX-7781", _named(_PACKAGE, "tracking_id")),
}
"""A sentence that calls the tool, and the rule by which others do."""
