"""Reads a sentence as a command to one tool, strictly: a call that changes something is never guessed.

A command begins with the tool's name and then says each argument: ``refund: order 1043, cents 250`` or "please refund
250 cents of order 1043". A value counts only beside its argument's name, or where it can be no other's; no word is
read twice; and a word that is neither a name, a value nor a filler makes the sentence unclear: it may be "not", "if"
or "tomorrow".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models.demo.filling import kinds_of
from agents.models.demo.offer import Offer, stem, words_of

_POLITE = frozenset(["please", "now", "then", "and", "also", "ok", "okay", "hi", "hello", "hey", "can", "could", "you"])
_FILLERS = frozenset(["a", "an", "the", "my", "this", "of", "for", "to", "with", "by", "and", "please", "from", "is"])
_GENERIC = frozenset(["id", "number", "nr", "key", "code", "reference", "ref"])
"""Words of an argument's name that do not say what it is the number of."""
_MAIL = frozenset(["email", "mail", "to", "recipient", "address", "sender"])
_YES_NO = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_TOKEN = re.compile(
    r"""(?P<quoted>"[^"]*"|“[^”]*”|`[^`]*`|(?<!\w)'[^']*'(?!\w))"""
    r"|(?P<email>(?<![\w.+-])[\w+-][\w.+-]{0,63}@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<date>(?<![\w-])\d{4}-\d{2}-\d{2}(?![\w-]))"
    r"|(?P<number>(?<![\w.,/%-])-?\d+(?:\.\d+)?(?![\w/%-]|[.,:]\d))"
    r"|(?P<word>\d[\w.,:/%-]*\w|[^\W\d]\w*(?:['’-]\w+)*|\w)|(?P<sign>\S)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A piece of the sentence."""

    kind: str
    """quoted, email, date, number, word or sign."""
    text: str
    start: int
    end: int

    @property
    def letters(self) -> str:
        """Its letters and digits, in lower case."""
        return re.sub(r"[\W_]+", "", self.text).lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """A value the sentence states, and the tokens that state it, by position."""

    value: Any
    tokens: frozenset[int]
    is_named_whole: bool = True
    """Whether the argument's whole name stands beside it: "order id 7" for ``order_id``, not just "order 7"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A sentence that addresses a tool."""

    offer: Offer
    arguments: Mapping[str, Any]
    """What it states plainly."""
    missing: Sequence[str]
    """Required arguments that it does not state, or not plainly."""
    is_plain: bool
    """Whether it says this and nothing else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Label:
    tokens: frozenset[int]
    behind: int
    """Position of the first token behind it."""
    has_sign: bool
    """Whether ``:`` or ``=`` stands between."""
    is_whole: bool


def command_in(sentence: str, offers: Mapping[str, Offer]) -> Command | None:
    """Return the sentence as a command to the tool whose name it begins with; None where that is none, or two."""
    tokens = tokens_of(sentence)
    found = [(end, offer) for offer in offers.values() if (end := _end_of_name(tokens, offer))]
    longest = max((end for end, _ in found), default=0)
    addressed = [offer for end, offer in found if end == longest]
    return _read(sentence, tokens, longest, addressed[0]) if len(addressed) == 1 else None


def stated_in(sentence: str, offer: Offer) -> dict[str, Stated]:
    """Return what a sentence states of each argument: once, beside its name, and with no word that is another's."""
    tokens = tokens_of(sentence)
    found = {name: _candidates(sentence, tokens, offer, name) for name in offer.arguments}
    return {
        name: stated[0]
        for name, stated in found.items()
        if len(stated) == 1
        and not any(stated[0].tokens & other.tokens for key in found if key != name for other in found[key])
    }


def tokens_of(sentence: str) -> list[Token]:
    """Return the pieces of a sentence."""
    return [
        Token(kind=match.lastgroup or "sign", text=match[0], start=match.start(), end=match.end())
        for match in _TOKEN.finditer(sentence)
    ]


def number_of(token: Token, *, is_whole: bool) -> int | float | None:
    """Return the number a token is; None where it is none, or is no whole one and that is wanted."""
    if token.kind != "number" or (is_whole and "." in token.text) or len(token.text) > 15:
        return None
    return float(token.text) if "." in token.text else int(token.text)


def _end_of_name(tokens: Sequence[Token], offer: Offer) -> int:
    """Return how many tokens the tool's name takes at the beginning, politeness included; 0: it is not there."""
    wanted, said = "".join(offer.words), ""
    for position, token in enumerate(tokens):
        if token.letters and wanted.startswith(said + token.letters):
            said += token.letters
            if said == wanted:
                return position + 1
        elif token.text != "," and token.letters not in (_FILLERS if said else _POLITE):
            return 0
    return 0


def _read(sentence: str, tokens: Sequence[Token], named_to: int, offer: Offer) -> Command:
    stated = stated_in(sentence, offer)
    read = frozenset(range(named_to)).union(*(found.tokens for found in stated.values()))
    rest = [token for position, token in enumerate(tokens) if position not in read]
    signs = ":=#,;.!?" if [token.letters for token in tokens[1:2]] == ["you"] else ":=#,;.!"  # "can you refund …?"
    return Command(
        offer=offer,
        arguments={name: found.value for name, found in stated.items()},
        missing=[name for name in offer.required if name not in stated],
        is_plain=all(token.text in signs or token.letters in _FILLERS for token in rest),
    )


# --- what states one argument


def _candidates(sentence: str, tokens: Sequence[Token], offer: Offer, name: str) -> list[Stated]:
    """Return each place that states the argument; where its whole name stands, those places only."""
    schema = offer.arguments[name]
    kinds = kinds_of(schema)
    if isinstance(schema.get("enum"), list):
        found = _options(tokens, schema["enum"])
    elif "integer" in kinds or "number" in kinds:
        found = _numbers(tokens, offer, name, is_whole="number" not in kinds)
    elif "boolean" in kinds:
        found = _yes_or_no(tokens, offer, name)
    elif "string" in kinds:
        found = _texts(sentence, tokens, offer, name)
    else:
        return []
    places = list(found)
    return [place for place in places if place.is_named_whole] or places


def _labels(tokens: Sequence[Token], offer: Offer, name: str) -> Iterator[_Label]:
    """Yield each place where the argument is named; one called just ``number`` has the name of what the tool is for."""
    words = [stem(word) for word in words_of(name)]
    own = frozenset(words) - _GENERIC or frozenset(map(stem, offer.words)) | _GENERIC
    stems = [stem(token.letters) for token in tokens]
    for at in range(len(tokens)):
        is_whole = stems[at : at + len(words)] == words
        if not is_whole and stems[at] not in own:
            continue
        behind = at + (len(words) if is_whole else 1)
        while behind < len(tokens) and stems[behind] in _GENERIC:
            behind += 1
        named = frozenset(range(at, behind))
        has_sign = behind < len(tokens) and tokens[behind].text in ":="
        if has_sign or (behind < len(tokens) and tokens[behind].text in ("#", "is")):
            behind += 1
        yield _Label(tokens=named, behind=behind, has_sign=has_sign, is_whole=is_whole)


def _options(tokens: Sequence[Token], options: Sequence[Any]) -> Iterator[Stated]:
    """Yield each place where one of the allowed words stands."""
    said = [token.letters for token in tokens]
    for option in options:
        words = re.findall(r"[^\W_]+", option.lower()) if isinstance(option, str) else []
        for at in range(len(said) - len(words) + 1 if words else 0):
            if said[at : at + len(words)] == words:
                yield Stated(value=option, tokens=frozenset(range(at, at + len(words))))


def _numbers(tokens: Sequence[Token], offer: Offer, name: str, *, is_whole: bool) -> Iterator[Stated]:
    """Yield numbers that are named before ("order 1043") or behind ("250 cents")."""
    for label in _labels(tokens, offer, name):
        value = number_of(tokens[label.behind], is_whole=is_whole) if label.behind < len(tokens) else None
        if value is not None:
            yield Stated(value=value, tokens=label.tokens | {label.behind}, is_named_whole=label.is_whole)
    own = frozenset(map(stem, words_of(name))) - _GENERIC
    for at, token in enumerate(tokens[:-1]):
        value = number_of(token, is_whole=is_whole)
        if value is not None and stem(tokens[at + 1].letters) in own:
            yield Stated(value=value, tokens=frozenset([at, at + 1]), is_named_whole=len(own) == 1)


def _yes_or_no(tokens: Sequence[Token], offer: Offer, name: str) -> Iterator[Stated]:
    for label in _labels(tokens, offer, name):
        word = tokens[label.behind].letters if label.behind < len(tokens) else ""
        if word in _YES_NO:
            yield Stated(value=_YES_NO[word], tokens=label.tokens | {label.behind}, is_named_whole=label.is_whole)


def _texts(sentence: str, tokens: Sequence[Token], offer: Offer, name: str) -> Iterator[Stated]:
    """Yield what stands behind the argument's name, has a form that only this argument takes, or is quoted."""
    form, words = str(offer.arguments[name].get("format", "")), frozenset(words_of(name))
    for at, token in enumerate(tokens):
        is_mail = token.kind == "email" and (form == "email" or words & _MAIL)
        if is_mail or (token.kind == "date" and (form == "date" or words & {"date", "day"})):
            yield Stated(value=token.text, tokens=frozenset([at]))
    if form in ("date", "email"):
        return
    named: set[int] = set()
    for label in _labels(tokens, offer, name):
        behind = _value_behind(tokens, label)
        if behind:
            named.update(behind)
            value = sentence[tokens[behind[0]].start : tokens[behind[-1]].end]
            yield Stated(value=_unquoted(value), tokens=label.tokens.union(behind), is_named_whole=label.is_whole)
    if _is_only_text(offer):
        quoted = [at for at, token in enumerate(tokens) if token.kind == "quoted" and at not in named]
        yield from (Stated(value=_unquoted(tokens[at].text), tokens=frozenset([at])) for at in quoted)


def _value_behind(tokens: Sequence[Token], label: _Label) -> range:
    """Return what stands behind a label: a quoted text; behind a colon all up to a comma; else names and codes."""
    end = label.behind
    if end < len(tokens) and tokens[end].kind == "quoted":
        return range(end, end + 1)
    while end < len(tokens) and (
        tokens[end].text not in ",;" if label.has_sign else tokens[end].kind != "sign" and _is_name(tokens[end].text)
    ):
        end += 1
    while end > label.behind and tokens[end - 1].text in (".", "!"):
        end -= 1
    return range(label.behind, end)


def _is_name(text: str) -> bool:
    return text[:1].isupper() or any(letter.isdigit() for letter in text) or "@" in text


def _is_only_text(offer: Offer) -> bool:
    kinds = (kinds_of(schema) for schema in offer.arguments.values() if "enum" not in schema)
    return sum("string" in kind for kind in kinds) == 1


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"“`'" and text[-1] in "\"”`'" else text
