"""From a sentence to the tool calls it asks for, in rounds: what needs an earlier result comes later.

The tools that ship have rules of their own. Any other tool is called where the sentence is a command to it
(``command.py``), or is about it and the call changes nothing (``lookup.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.models.demo.arithmetic import expression_in, number_in
from agents.models.demo.command import command_in
from agents.models.demo.conversation import Conversation
from agents.models.demo.geography import question_in
from agents.models.demo.lookup import lookup_in
from agents.models.demo.offer import Offer
from agents.models.demo.saying import NOTE


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A tool to call, and why."""

    name: str
    arguments: Mapping[str, Any]
    why: str
    stage: int = 0
    """Which round it belongs to; a later one needs the results of an earlier one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A call that is not made before the user has said more."""

    offer: Offer
    arguments: Mapping[str, Any]
    """What was said plainly."""
    missing: Sequence[str]
    """What was not; empty where the sentence says something else besides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a sentence asks for: calls, round by round, or a question; neither where it asks for no tool."""

    rounds: Sequence[Sequence[Call]] = ()
    question: Question | None = None


_WRITING = ("write_file", "order_supplies")
_READING = ("read_file", "list_files")
Rule = Callable[[str, Conversation, Offer], list[Call]]
_SPLIT = re.compile(r"(,?\s+(?:and then|and also|then|and|also)\s+|[?;!]\s+|(?<=[^.\s]{2})\.\s+|,\s+)", re.IGNORECASE)
_FILE = r"[\"'`“]?((?:\.{0,2}/)*[\w-][\w.-]*(?:/[\w.-]+)*\.[A-Za-z]\w{0,7}|(?:\.{0,2}/)+[\w./-]+)[\"'`”]?"

_PLEASE = r"(?:(?:hi|hello|hey|ok|okay|please|now|then|and|also|(?:can|could) you)[,\s]+)*"
"""What may precede a command. Anything else makes it a question, a condition or a refusal."""
_ORDERING = r"(?:order|reorder|buy|get|restock)\s+(?:me\s+|us\s+)?"
_DOUBT = re.compile(
    r"\b(?:not|no|never|don['’]?t|nothing|if|unless|only|but|maybe|later|wait|stop|when|instead|should|would)\b", re.I
)
_NAMED = r"(?:the |a |my )?(?:file )?(?:called |named )?"
_WRITE_TO = re.compile(
    rf"{_PLEASE}(?:write|save|put|store|note(?: down)?|add)\s+(.+?)\s+(?:in|into|to|as)\s+{_NAMED}{_FILE}",
    re.IGNORECASE | re.DOTALL,
)
_WRITE_WITH = re.compile(
    rf"{_PLEASE}(?:write|create|make|save)\s+(?:to )?(?:a new |the new |new )?{_NAMED}{_FILE}"
    r"(?:\s*:\s*|\s+(?:with|saying|containing|that says):?\s+)(.+)",
    re.IGNORECASE | re.DOTALL,
)
_READ_FILE = re.compile(
    r"\b(?:read|open|show|print|cat|display|see|check|what(?:'s| is| does| stands)?(?: in| inside)?)\b[^.?!]*?"
    rf"(?<![\w.]){_FILE}",
    re.IGNORECASE,
)
_READ_IT = re.compile(r"(?:please )?(?:read|show|open|print)(?: me)? (?:it|that|this)(?: back| again| to me)*")
_ASKS_TIME = re.compile(
    r"\b(?:what(?:'s| is)? (?:the )?(?:current )?(?:time|date|day)|which day|time is it|time now"
    r"|current (?:time|date)|the (?:time|date|day)(?! after| before)|today'?s date|how late|what day)\b",
    re.IGNORECASE,
)


def plan(conversation: Conversation, offers: Mapping[str, Offer]) -> Plan:
    """Return what to do about the sentence with the tools on offer."""
    others = {name: offer for name, offer in offers.items() if not has_rule(offer)}
    command = command_in(conversation.sentence, others)
    if command is not None and (command.offer.has_effect or (command.is_plain and not command.missing)):
        if command.missing or not command.is_plain:
            question = Question(offer=command.offer, arguments=command.arguments, missing=command.missing)
            return Plan(question=question)
        why = f"The sentence is a command to the tool {command.offer.name}, and says everything it needs."
        return Plan(rounds=[[Call(name=command.offer.name, arguments=command.arguments, why=why)]])
    rounds = _rounds(_calls(conversation, offers))
    about = lookup_in(conversation.sentence, others.values()) if not rounds else None
    if about is not None:
        return Plan(question=Question(offer=about.offer, arguments={}, missing=about.missing))
    return Plan(rounds=rounds)


def _rounds(found: Sequence[Call]) -> list[list[Call]]:
    """Return the calls in rounds: reading comes after writing, and what is the same is called once."""
    calls: list[Call] = []
    for call in found:
        if call not in calls:
            calls.append(call)
    last = max((call.stage for call in calls if call.name in _WRITING), default=-1)
    calls = [replace(call, stage=last + 1) if call.name in _READING and last >= 0 else call for call in calls]
    stages = sorted({call.stage for call in calls})
    return [[call for call in calls if call.stage == stage] for stage in stages]


def _calls(conversation: Conversation, offers: Mapping[str, Offer]) -> list[Call]:
    """Match clause by clause; one that means nothing alone is taken together with its neighbours."""
    pieces = _SPLIT.split(conversation.sentence)
    found: list[tuple[str, list[Call]]] = []
    waiting = ""
    for position in range(0, len(pieces), 2):
        joint = pieces[position - 1] if position else ""
        waiting = f"{waiting}{joint}{pieces[position]}" if waiting else pieces[position]
        calls = _match(waiting.strip(" ,"), conversation, offers)
        # "... and Lima" says more about the clause before than it says alone.
        longer = f"{found[-1][0]}{joint}{waiting}" if found else ""
        together = _match(longer, conversation, offers) if longer and not calls else []
        if calls:
            found.append((waiting, calls))
            waiting = ""
        elif together:
            found[-1] = (longer, together)
            waiting = ""
    calls = [call for _, calls in found for call in calls]
    is_doubtful = bool(_DOUBT.search(waiting))  # "order 3 boxes of paper, but only if they are cheap"
    return [call for call in calls if not (is_doubtful and call.name in _WRITING)]


def _match(clause: str, conversation: Conversation, offers: Mapping[str, Offer]) -> list[Call]:
    for name, rule in _RULES.items():
        if name in offers and has_rule(offers[name]):
            calls = rule(clause, conversation, offers[name])
            if calls:
                return calls
    about = lookup_in(clause, (offer for offer in offers.values() if not has_rule(offer)))
    if about is None or about.missing:
        return []
    why = f"The sentence is about what {about.offer.name} does, and asking it changes nothing."
    return [Call(name=about.offer.name, arguments=about.arguments, why=why)]


def has_rule(offer: Offer) -> bool:
    """Return whether this is a tool that ships, and not another one of its name or with another effect."""
    needed = _ARGUMENTS.get(offer.name)
    return needed is not None and needed <= set(offer.arguments) and (not offer.has_effect or offer.name in _WRITING)


def _write(clause: str, conversation: Conversation, _: Offer) -> list[Call]:
    said = _WRITE_TO.match(clause)
    if said:
        text, path = said[1], said[2]
    else:
        said = _WRITE_WITH.match(clause)
        if not said:
            return []
        path, text = said[1], said[2]
    text = text.strip()
    expression = (
        expression_in(text, conversation.number)
        if re.match(r"(?:the )?(?:result|answer|value|product|sum)\b", text)
        else None
    )
    if expression:
        return _calculated(expression, path, conversation)
    if text.lower() in ("that", "it", "this", "your answer", "the answer", "the result", "the last answer"):
        text = _without_marks(conversation.said) or text
    elif len(text) > 1 and text[0] in "\"'“`" and text[-1] in "\"'”`":
        text = text[1:-1]
    return [Call(name="write_file", arguments={"path": path, "text": text}, why=f"It wants something kept in {path}.")]


def _calculated(expression: str, path: str, conversation: Conversation) -> list[Call]:
    """Return the calls that write the result of ``expression``: first the calculator, then the file."""
    known = [item.result for item in conversation.done if item.arguments.get("expression") == expression]
    return [
        Call(name="calculator", arguments={"expression": expression}, why=f"First the number: {expression}."),
        Call(
            name="write_file",
            arguments={"path": path, "text": str(known[0]) if known else ""},
            why=f"Now I can write it into {path}.",
            stage=1,
        ),
    ]


def _without_marks(text: str) -> str:
    return text.replace(NOTE, "").replace("**", "").replace("`", "").strip()


def _read(clause: str, conversation: Conversation, _: Offer) -> list[Call]:
    match = _READ_FILE.search(clause)
    path = match[1] if match else None
    if path is None and _READ_IT.fullmatch(clause.strip(" .?!").lower()):
        named = re.findall(_FILE, conversation.sentence) or re.findall(_FILE, conversation.said)
        path = named[-1] if named else None
    if path is None:
        return []
    return [Call(name="read_file", arguments={"path": path}, why=f"The answer stands in {path}.")]


def _list(clause: str, _conversation: Conversation, _: Offer) -> list[Call]:
    if not re.search(
        r"\b(?:list|show|which|what|see|any|my)\b.*\b(?:files|folder|sandbox|directory)\b", clause, re.IGNORECASE
    ):
        return []
    return [Call(name="list_files", arguments={}, why="I have to look into the sandbox folder.")]


def _order(clause: str, _conversation: Conversation, offer: Offer) -> list[Call]:
    """Order what is said with its number of boxes; how many is never guessed."""
    known = [str(item) for item in offer.arguments["item"].get("enum", [])]
    names = "|".join(re.escape(item.rstrip("s")) for item in known)
    one = rf"(\w+)\s+(?:more\s+)?(?:box(?:es)?\s+)?(?:of\s+)?({names})(?:s|es)?"
    if not names or not re.fullmatch(
        rf"{_PLEASE}{_ORDERING}{one}(?:(?:,\s*(?:and\s+)?|\s+and\s+){one})*[.!]?", clause, re.I
    ):
        return []
    said = [(number_in(count), item.lower()) for count, item in re.findall(one, clause, re.IGNORECASE)]
    return [
        Call(
            name="order_supplies",
            arguments={"item": next(name for name in known if name.startswith(item)), "boxes": boxes},
            why=f"It is an order: {boxes} × {item}.",
        )
        for boxes, item in said
        if boxes
    ]


def _clock(clause: str, _conversation: Conversation, _: Offer) -> list[Call]:
    if not _ASKS_TIME.search(clause):
        return []
    match = re.search(
        r"\b(?:in|for|at)\s+(.+?)\s*(?:right now|now|today|at the moment)?\s*[?.!]*$", clause, re.IGNORECASE
    )
    places = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+(?:in\s+)?", match[1]) if match else []
    named = [place.removeprefix("the ").strip() for place in places if place.strip() and len(place) < 40]
    if not named:
        return [Call(name="clock", arguments={}, why="The clock knows the time; no place is named, so UTC.")]
    return [
        Call(name="clock", arguments={"timezone": place}, why=f"The clock knows the time in {place}.")
        for place in named
    ]


def _calculate(clause: str, conversation: Conversation, _: Offer) -> list[Call]:
    expression = expression_in(clause, conversation.number)
    if expression is None:
        return []
    return [Call(name="calculator", arguments={"expression": expression}, why=f"That is arithmetic: {expression}.")]


def _countries(clause: str, _conversation: Conversation, _: Offer) -> list[Call]:
    question = question_in(clause)
    if question is None:
        return []
    why = f"The data set knows that: {question.about}."
    return [Call(name="query_countries", arguments={"sql": question.sql}, why=why)]


_RULES: Mapping[str, Rule] = {
    "write_file": _write,
    "read_file": _read,
    "list_files": _list,
    "order_supplies": _order,
    "clock": _clock,
    "query_countries": _countries,
    "calculator": _calculate,
}
"""In the order they are tried: the ones that need the most words first."""

_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "write_file": frozenset(["path", "text"]), "read_file": frozenset(["path"]), "list_files": frozenset(),
    "order_supplies": frozenset(["item", "boxes"]), "clock": frozenset(["timezone"]),
    "query_countries": frozenset(["sql"]), "calculator": frozenset(["expression"]),
}  # fmt: skip
"""What each rule fills."""
