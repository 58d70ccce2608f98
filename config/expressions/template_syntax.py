"""What a template may contain: it is checked token by token before the library reads it.

The library (minijinja, docs/decisions) counts instructions, not what one does: a repetition or a function may take all
memory, and a long chain its stack. So a template has references, constants, the operators and filters below and
branches; it has no loops, calls, assignments and no other templates, and the work is bounded by the data that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from config.expressions.errors import ExpressionRefused
from config.expressions.references import (
    MAX_SHOWN,
    NAMES,
    Reference,
    Token,
    behind_blanks,
    reference_at,
    require_name,
    token_at,
)
from config.text.names import did_you_mean
from config.text.visible import one_line

MAX_SOURCE = 100_000
"""Characters of a template."""
MAX_TOKENS = 200
"""Of an expression: the library's compiler calls itself for each operator, and overruns a small stack after 500."""
MAX_FILTERS = 10
"""Of an expression: each may go through a whole text."""
MAX_BRANCHES = 100

FILTERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys("default first float int join last length lower replace round sum".split(), frozenset[str]()),
    **dict.fromkeys("tojson trim unique upper urlencode".split(), frozenset[str]()),
    "map": frozenset({"attribute"}),
    "sort": frozenset({"reverse"}),
}
"""The filters, each with the names of its arguments."""
TESTS = frozenset({"defined", "none", "undefined"})
CONSTANTS = frozenset({"true", "false", "null"})
OPERATORS = frozenset("and or not in is if else".split())
BRANCHES = ("if", "elif", "else", "endif")
_OPENING = re.compile(r"\{([{%#])")
_CLOSING = {"{": re.compile(r"[-+]?\}\}"), "%": re.compile(r"[-+]?%\}")}
_REFUSED_SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("*", "**"), "which also repeats texts and lists; compute it in an expression of CEL"),
    **dict.fromkeys(("<", ">", "<=", ">="), "which also orders text and numbers; compare in a condition"),
    **dict.fromkeys("{}", "a mapping; write it as data whose texts are templates, or a blank between two braces"),
    "~": "which joins values of any kind; write the parts one behind the other",
    "=": "an assignment; compare with `==`",
}
_SPELLINGS = {"none": "null", "None": "null", "True": "true", "False": "false"}
_OPENED = {")": "(", "]": "["}


@dataclass(frozen=True, slots=True)
class Segment:
    """An expression or a branch of a template."""

    is_expression: bool
    tokens: tuple[Token, ...]
    start: int
    end: int
    """Characters before its braces and before what stands behind them."""


def segments_of(source: str) -> Iterator[Segment]:
    """Yield the expressions and branches of a template, without its comments.

    Raises:
        ExpressionRefused: one is not closed, or has a character that none has.
    """
    at = 0
    while (opening := _OPENING.search(source, at)) is not None:
        if opening[1] == "#":
            end = source.find("#}", opening.end())
            if end < 0:
                raise ExpressionRefused(f"has a comment that is not closed, at character {opening.start() + 1}.")
            at = end + 2
        else:
            tokens, at = _tokens(source, opening)
            yield Segment(opening[1] == "{", tuple(tokens), opening.start(), at)


def _tokens(source: str, opening: re.Match[str]) -> tuple[list[Token], int]:
    """Return the tokens between two braces, and the place behind them."""
    tokens: list[Token] = []
    closing = _CLOSING[opening[1]]
    at = opening.end()
    if source[at : at + 1] in ("-", "+"):
        at += 1
    while True:
        at = behind_blanks(source, at)
        if at == len(source):
            raise ExpressionRefused(f"has `{opening[0]}` at character {opening.start() + 1} that is not closed.")
        if (end := closing.match(source, at)) is not None:
            return tokens, end.end()
        tokens.append(token_at(source, at))
        at += len(tokens[-1].source)
        if len(tokens) > MAX_TOKENS:
            raise ExpressionRefused(f"has an expression of more than {MAX_TOKENS} names, signs and texts; split it.")


def checked(segment: Segment, names: Sequence[str] = NAMES) -> list[Reference]:
    """Return the references of an expression or a branch; ``names``: to what it may refer.

    Raises:
        ExpressionRefused: it has what no template may have; the text says what to write instead.
    """
    tokens = segment.tokens
    if not segment.is_expression:
        tokens = _behind_keyword(tokens)
    return _Tokens(tokens, names).references()


def optional_keys(tokens: Sequence[Token]) -> frozenset[str | int] | None:
    """Return the keys whose values may be missing: `default` or `is defined` follows; None where a value decides."""
    keys: set[str | int] = set()
    for at in range(1, len(tokens)):
        behind = [token.source for token in tokens[at : at + 3]]
        is_optional = behind[:2] == ["|", "default"] or (
            behind[0] == "is" and not {"defined", "undefined"}.isdisjoint(behind)
        )
        if is_optional:
            key = _key_before(tokens, at)
            if key is None:
                return None
            keys.add(key)
    return frozenset(keys)


def _key_before(tokens: Sequence[Token], at: int) -> str | int | None:
    """Return the key with which a reference ends before a place."""
    if tokens[at - 1].kind == "name":
        return tokens[at - 1].source
    if at > 2 and (tokens[at - 3].source, tokens[at - 1].source) == ("[", "]"):
        return tokens[at - 2].constant
    return None


def _behind_keyword(tokens: Sequence[Token]) -> tuple[Token, ...]:
    keyword = tokens[0].source if tokens else ""
    if keyword in BRANCHES:
        return tuple(tokens[1:])
    remedies = {"for": "join the items with `| join`, or use a node that works on each item"}
    remedy = remedies.get(keyword, f"a template has {', '.join(BRANCHES)} alone")
    raise ExpressionRefused(f"has `{{% {one_line(keyword)[:MAX_SHOWN]} %}}`; {remedy}.")


@dataclass(slots=True)
class _Tokens:
    """One pass over the tokens of an expression."""

    tokens: Sequence[Token]
    names: Sequence[str]
    brackets: list[tuple[str, str]] = field(default_factory=list)
    """Those that are open, each with the filter whose arguments it has, or nothing."""

    def references(self) -> list[Reference]:
        references: list[Reference] = []
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "name" and self._is_reference(at):
                reference, at = reference_at(self.tokens, at)
                references.append(reference)
                continue
            if token.kind == "sign":
                self._check_sign(at)
            at += 1
        self._check_whole()
        return references

    def _check_whole(self) -> None:
        if self.brackets:
            raise ExpressionRefused(f"has a `{self.brackets[-1][0]}` that is not closed before the braces.")
        sources = [token.source for token in self.tokens if token.kind != "text"]
        if sources.count("|") > MAX_FILTERS:
            raise ExpressionRefused(f"has an expression with more than {MAX_FILTERS} filters; split it.")
        if sources.count("if") > sources.count("else"):
            raise ExpressionRefused("has a value with `if` that has no `else`; say what it is otherwise.")

    def _source(self, at: int) -> str:
        return self.tokens[at].source if 0 <= at < len(self.tokens) else ""

    def _is_reference(self, at: int) -> bool:
        """Return whether the name at a place begins a reference; check it where it is something else."""
        name, before = self._source(at), self._source(at - 1)
        if before == "|":
            self._require(name, FILTERS, "filter")
        elif before == "is" or (before == "not" and self._source(at - 2) == "is" and name != "not"):
            if name != "not":
                self._require(name, TESTS, "test")
        elif self._source(at + 1) == "=":
            self._require_argument(at)
        elif name in _SPELLINGS:
            raise ExpressionRefused(f"has `{name}`; write `{_SPELLINGS[name]}`.")
        elif before != "." and name not in OPERATORS and name not in CONSTANTS:
            if self._source(at + 1) == "(":
                raise ExpressionRefused(f"calls the function `{one_line(name)[:MAX_SHOWN]}`; a template has filters.")
            require_name(name, self.names)
            return True
        return False

    def _require(self, name: str, names: Mapping[str, object] | frozenset[str], what: str) -> None:
        if name not in names:
            listing = f"there are {', '.join(sorted(names))}"
            hint = did_you_mean(name, names)
            raise ExpressionRefused(f"has the {what} `{one_line(name)[:MAX_SHOWN]}`; {listing}.{hint}")

    def _require_argument(self, at: int) -> None:
        name, owner = self._source(at), self.brackets[-1][1] if self.brackets else ""
        if name not in FILTERS.get(owner, ()):
            raise ExpressionRefused(f"sets `{one_line(name)[:MAX_SHOWN]}`, which nothing takes; compare with `==`.")
        if name == "attribute" and self._source(at + 2)[:1] not in ("'", '"'):
            raise ExpressionRefused("has an `attribute` that is no text in quotes; write the key.")

    def _check_sign(self, at: int) -> None:
        sign = self._source(at)
        is_argument = (
            sign == "=" and self.tokens[at - 1].kind == "name" and bool(self.brackets and self.brackets[-1][1])
        )
        if sign in _REFUSED_SIGNS and not is_argument:
            raise ExpressionRefused(f"has `{sign}`, {_REFUSED_SIGNS[sign]}.")
        if sign in "!&?;":
            raise ExpressionRefused(f"has `{sign}`, which is no operator; there are and, or, not, ==, != and in.")
        if sign in "([":
            self.brackets.append((sign, self._owner(at) if sign == "(" else ""))
        elif sign in _OPENED and (not self.brackets or self.brackets.pop()[0] != _OPENED[sign]):
            raise ExpressionRefused(f"has a `{sign}` that closes nothing.")
        elif sign == "." and self.tokens[at + 1 :] and self.tokens[at + 1].kind == "number":
            raise ExpressionRefused(f"has `.{self._source(at + 1)}`; write `[{self._source(at + 1)}]`.")
        elif sign == "." and not self._is_path(at - 1):
            raise ExpressionRefused(
                "asks for an attribute; only what is referred to, or stands in brackets, has parts."
            )

    def _is_path(self, at: int) -> bool:
        """Return whether a value ends at a place that may have parts: a bracket, or a part of one."""
        return self._source(at) in (")", "]") or (self.tokens[at].kind == "name" and self._source(at - 1) == ".")

    def _owner(self, at: int) -> str:
        """Return the filter whose arguments begin at a place; nothing where an expression is put in brackets."""
        before = self.tokens[at - 1] if at else None
        if before is None or before.source in OPERATORS or (before.kind == "sign" and before.source not in ")]"):
            return ""
        if before.kind == "name" and self._source(at - 2) == "|":
            return before.source
        raise ExpressionRefused(f"calls `{one_line(before.source)[:MAX_SHOWN]}`; a template has filters, no calls.")
