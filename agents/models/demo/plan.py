"""From a sentence to the tool calls it asks for, in rounds: what needs an earlier result comes later."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agents.models.demo.arithmetic import expression_in, number_in
from agents.models.demo.conversation import Conversation
from agents.models.demo.filling import fill
from agents.models.demo.geography import question_in
from agents.models.demo.saying import NOTE


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A tool to call, and why."""

    name: str
    arguments: Mapping[str, Any]
    why: str
    stage: int = 0
    """Which round it belongs to; a later one needs the results of an earlier one."""


_WRITING = ("write_file", "order_supplies")
_READING = ("read_file", "list_files")
Rule = Callable[[str, Conversation, Mapping[str, Any]], list[Call]]
_SPLIT = re.compile(r"(,?\s+(?:and then|and also|then|and|also)\s+|[?;!]\s+|(?<=[^.\s]{2})\.\s+|,\s+)", re.IGNORECASE)
_FILE = r"[\"'`“]?((?:\.{0,2}/)*[\w-][\w.-]*(?:/[\w.-]+)*\.[A-Za-z]\w{0,7}|(?:\.{0,2}/)+[\w./-]+)[\"'`”]?"

_NAMED = r"(?:file )?(?:called |named )?"
_WRITE_TO = re.compile(
    rf"\b(?:write|save|put|store|note(?: down)?|add)\s+(.+?)\s+(?:in|into|to|as)\s+(?:the |a |my )?{_NAMED}{_FILE}",
    re.IGNORECASE | re.DOTALL,
)
_WRITE_WITH = re.compile(
    rf"\b(?:write|create|make|save)\s+(?:a |the |to )?(?:new )?{_NAMED}{_FILE}"
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


def plan(conversation: Conversation, tools: Mapping[str, Mapping[str, Any]]) -> list[list[Call]]:
    """Return the calls of the sentence, round by round; empty when it asks for none of the ``tools``.

    Reading comes after writing, and what is the same is called once.
    """
    calls: list[Call] = []
    for call in _calls(conversation, tools):
        if call not in calls:
            calls.append(call)
    last = max((call.stage for call in calls if call.name in _WRITING), default=-1)
    calls = [replace(call, stage=last + 1) if call.name in _READING and last >= 0 else call for call in calls]
    stages = sorted({call.stage for call in calls})
    return [[call for call in calls if call.stage == stage] for stage in stages]


def _calls(conversation: Conversation, tools: Mapping[str, Mapping[str, Any]]) -> list[Call]:
    """Match clause by clause; one that means nothing alone is taken together with its neighbours."""
    pieces = _SPLIT.split(conversation.sentence)
    found: list[tuple[str, list[Call]]] = []
    waiting = ""
    for position in range(0, len(pieces), 2):
        joint = pieces[position - 1] if position else ""
        waiting = f"{waiting}{joint}{pieces[position]}" if waiting else pieces[position]
        calls = _match(waiting.strip(" ,"), conversation, tools)
        # "... and Lima" says more about the clause before than it says alone.
        longer = f"{found[-1][0]}{joint}{waiting}" if found else ""
        together = _match(longer, conversation, tools) if longer and not calls else []
        if calls:
            found.append((waiting, calls))
            waiting = ""
        elif together:
            found[-1] = (longer, together)
            waiting = ""
    return [call for _, calls in found for call in calls]


def _match(clause: str, conversation: Conversation, tools: Mapping[str, Mapping[str, Any]]) -> list[Call]:
    for name, rule in _RULES.items():
        if name in tools:
            calls = rule(clause, conversation, tools[name])
            if calls:
                return calls
    for name, parameters in tools.items():
        if name not in _RULES:
            calls = _by_name(name, clause, parameters)
            if calls:
                return calls
    return []


def _write(clause: str, conversation: Conversation, _: Mapping[str, Any]) -> list[Call]:
    said = _WRITE_TO.search(clause)
    if said:
        text, path = said[1], said[2]
    else:
        said = _WRITE_WITH.search(clause)
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


def _read(clause: str, conversation: Conversation, _: Mapping[str, Any]) -> list[Call]:
    match = _READ_FILE.search(clause)
    path = match[1] if match else None
    if path is None and _READ_IT.fullmatch(clause.strip(" .?!").lower()):
        named = re.findall(_FILE, conversation.sentence) or re.findall(_FILE, conversation.said)
        path = named[-1] if named else None
    if path is None:
        return []
    return [Call(name="read_file", arguments={"path": path}, why=f"The answer stands in {path}.")]


def _list(clause: str, _conversation: Conversation, _: Mapping[str, Any]) -> list[Call]:
    if not re.search(
        r"\b(?:list|show|which|what|see|any|my)\b.*\b(?:files|folder|sandbox|directory)\b", clause, re.IGNORECASE
    ):
        return []
    return [Call(name="list_files", arguments={}, why="I have to look into the sandbox folder.")]


def _order(clause: str, _conversation: Conversation, parameters: Mapping[str, Any]) -> list[Call]:
    if not re.search(r"\b(?:order|buy|get|need|restock|reorder)\b", clause, re.IGNORECASE):
        return []
    known = parameters.get("properties", {}).get("item", {}).get("enum", [])
    lower = clause.lower()
    items = [item for item in known if re.search(rf"\b{re.escape(item.rstrip('s'))}(?:s|es)?\b", lower)]
    items.sort(key=lambda item: lower.index(item.rstrip("s")))
    calls, start = [], 0
    for item in items:
        end = lower.index(item.rstrip("s"))
        boxes = number_in(lower[min(start, end) : end]) or 1
        arguments = {"item": item, "boxes": boxes}
        calls.append(Call(name="order_supplies", arguments=arguments, why=f"It is an order: {boxes} × {item}."))
        start = end
    return calls


def _clock(clause: str, _conversation: Conversation, _: Mapping[str, Any]) -> list[Call]:
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


def _calculate(clause: str, conversation: Conversation, _: Mapping[str, Any]) -> list[Call]:
    expression = expression_in(clause, conversation.number)
    if expression is None:
        return []
    return [Call(name="calculator", arguments={"expression": expression}, why=f"That is arithmetic: {expression}.")]


def _countries(clause: str, _conversation: Conversation, _: Mapping[str, Any]) -> list[Call]:
    question = question_in(clause)
    if question is None:
        return []
    why = f"The data set knows that: {question.about}."
    return [Call(name="query_countries", arguments={"sql": question.sql}, why=why)]


def _by_name(name: str, clause: str, parameters: Mapping[str, Any]) -> list[Call]:
    """Call a tool nobody told us about when the sentence names it: "look up order 42" for ``lookup_order``."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    words = re.sub(r"[^a-z]", "", clause.lower())
    if len(letters) < 4 or letters not in words:
        return []
    return [
        Call(
            name=name,
            arguments=fill(parameters, clause, only_required=True),
            why=f"The sentence names the tool {name}.",
        )
    ]


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
