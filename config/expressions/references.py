"""References: paths such as ``nodes.charge.lines[0].price`` that lead from a name to a value within JSON data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.text.names import did_you_mean
from config.text.visible import one_line

NAMES = ("input", "nodes", "variables", "item", "items", "index", "total", "result")
"""What the expressions of a workflow may refer to."""
NODES = "nodes"
"""The name whose keys are the ids of nodes."""
MAX_LISTED = 12
"""Names that a sentence lists."""
MAX_SHOWN = 80
"""Characters of a name or an expression that a sentence shows."""

# --- tokens


@dataclass(frozen=True, slots=True)
class Token:
    """A part of an expression."""

    kind: str
    """``text``, ``number``, ``name`` or ``sign``."""
    source: str
    start: int
    """Characters before it."""

    @property
    def constant(self) -> str | int | None:
        """A key or the number of an item, where it is written out; None for others."""
        if self.kind == "text" and "\\" not in self.source:
            return self.source[1:-1]
        return int(self.source) if self.kind == "number" and self.source.isdigit() and len(self.source) < 10 else None


_BLANKS = re.compile(r"[ \t\r\n]*+")
_TOKEN = re.compile(
    r"""(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')"""
    r"""|(?P<number>[0-9]++(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*+)"""
    r"""|(?P<sign>==|!=|<=|>=|//|\*\*|[-+/%<>()\[\]{}.,:|=*~!&?;])""",
    re.DOTALL,
)


def token_at(source: str, at: int) -> Token:
    """Return the token that begins at a character.

    Raises:
        ExpressionRefused: none does.
    """
    match = _TOKEN.match(source, at)
    if match is None:
        if source[at : at + 1] in ("'", '"'):
            raise ExpressionRefused(f"has a text that is not closed, at character {at + 1}; add its second quote.")
        excerpt = one_line(source[at : at + 1])
        raise ExpressionRefused(f"has '{excerpt}' at character {at + 1}, which no expression has; put texts in quotes.")
    return Token(str(match.lastgroup), match[0], at)


def behind_blanks(source: str, at: int) -> int:
    """Return where the next token begins."""
    match = _BLANKS.match(source, at)
    return at if match is None else match.end()


# --- references


@dataclass(frozen=True, slots=True)
class Reference:
    """A path from a name to a value; it is read without attributes: mappings have keys, lists have numbers."""

    parts: tuple[str | int, ...]
    """The name, then keys of mappings and numbers of items."""
    start: int
    end: int
    """Characters before its begin and before what stands behind it."""
    is_whole: bool = True
    """False: a value decides how the path continues."""

    def __str__(self) -> str:
        return _shown(self.parts)

    def read(self, variables: Mapping[str, Any]) -> Any:
        """Return the value, not a copy.

        Raises:
            ExpressionFailed: a part is missing; the text says which, and what there is.
        """
        length, value = self._followed(variables)
        if length < len(self.parts):
            raise ExpressionFailed(_missing(self.parts[: length + 1], value))
        return value

    def missing(self, variables: Mapping[str, Any]) -> str | int | None:
        """Return the first part of the path that is missing; None where none is."""
        length, _ = self._followed(variables)
        return self.parts[length] if length < len(self.parts) else None

    def _followed(self, variables: Mapping[str, Any]) -> tuple[int, Any]:
        """Return how many parts are there, and the value to which they lead."""
        value: Any = variables
        for length, part in enumerate(self.parts):
            if not _has(value, part):
                return length, value
            value = value[part]
        return len(self.parts), value


def reference_of(source: str) -> Reference:
    """Return the one reference that a text is.

    Raises:
        ExpressionRefused: it is something else, or its name is none of ``NAMES``.
    """
    tokens: list[Token] = []
    at = behind_blanks(source, 0)
    while at < len(source):
        tokens.append(token_at(source, at))
        at = behind_blanks(source, at + len(tokens[-1].source))
    if not tokens or tokens[0].kind != "name":
        raise ExpressionRefused(f"has to be a path such as `input.lines[0].price`, not {_quoted(source)}.")
    require_name(tokens[0].source)
    reference, count = reference_at(tokens, 0)
    if count < len(tokens):
        raise ExpressionRefused(f"has to be a path such as `input.lines[0].price`, not {_quoted(source)}.")
    return reference


def require_name(name: str, names: Sequence[str] = NAMES) -> None:
    """Return if expressions may refer to a name.

    Raises:
        ExpressionRefused: it is none of ``names``.
    """
    if name not in names:
        there_are = f"there are {', '.join(names)}"
        raise ExpressionRefused(f"names {_quoted(name)}, which is not there; {there_are}.{did_you_mean(name, names)}")


def reference_at(tokens: Sequence[Token], at: int) -> tuple[Reference, int]:
    """Return the reference that begins with the name at a place among the tokens, and the place behind it."""
    parts: list[str | int] = [tokens[at].source]
    behind = at + 1
    while (step := _step_at(tokens, behind)) is not None:
        part, behind = step
        parts.append(part)
    last = tokens[behind - 1]
    continues = behind < len(tokens) and tokens[behind].source in (".", "[")
    end = last.start + len(last.source)
    return Reference(tuple(parts), tokens[at].start, end, is_whole=not continues), behind


def _step_at(tokens: Sequence[Token], at: int) -> tuple[str | int, int] | None:
    """Return the key or number that ``.key``, ``['key']`` or ``[0]`` at a place is, and the place behind it."""
    signs = [token.source for token in tokens[at : at + 3]]
    if signs[:1] == ["."] and len(signs) > 1 and tokens[at + 1].kind == "name":
        return signs[1], at + 2
    if len(signs) == 3 and (signs[0], signs[2]) == ("[", "]"):
        constant = tokens[at + 1].constant
        return None if constant is None else (constant, at + 3)
    return None


def nodes_of(references: Iterable[Reference]) -> frozenset[str] | None:
    """Return the ids of the nodes that references lead to; None where a value decides, or all are meant."""
    ids: set[str] = set()
    for reference in references:
        if reference.parts[0] != NODES:
            continue
        if len(reference.parts) == 1 or not isinstance(reference.parts[1], str):
            return None
        ids.add(reference.parts[1])
    return frozenset(ids)


def input_fields_of(references: Iterable[Reference]) -> frozenset[str]:
    """Return the fields at the top of the input to which references lead."""
    paths = (reference.parts for reference in references)
    return frozenset(part for name, *rest in paths for part in rest[:1] if name == "input" and isinstance(part, str))


# --- sentences


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)


def _missing(parts: Sequence[str | int], value: Any) -> str:
    if len(parts) == 1:
        return f"there is no `{parts[0]}` here; there are {listed(value)}"
    return f"`{_shown(parts)}` has no value: `{_shown(parts[:-1])}` {_contents(value, parts[-1])}"


def _contents(value: Any, part: str | int) -> str:
    """Return what a value has in place of a part that is missing, without its values."""
    if isinstance(value, Mapping):
        hint = did_you_mean(str(part), map(str, value))
        return f"{_fields_in(value)}.{hint}" if hint else _fields_in(value)
    if isinstance(value, list | tuple):
        return f"is a list of {len(value):,}"
    return f"is {kind_of(value)}"


def _fields_in(value: Mapping[Any, Any]) -> str:
    if not value:
        return "has no fields"
    return f"has only the field {listed(value)}" if len(value) == 1 else f"has the fields {listed(value)}"


def listed(names: Iterable[Any]) -> str:
    """Return names as a part of a sentence, the first few of many."""
    ordered = sorted(map(str, names))
    listing = ", ".join(one_line(name)[:MAX_SHOWN] for name in ordered[:MAX_LISTED])
    return (listing + (f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else "")) or "no names"


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value as a part of a sentence."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def _shown(parts: Sequence[str | int]) -> str:
    excerpt = str(parts[0])
    for part in parts[1:]:
        is_plain = isinstance(part, str) and part.isidentifier() and part.isascii()
        excerpt += f".{part}" if is_plain else f"[{part!r}]" if isinstance(part, str) else f"[{part}]"
    return one_line(excerpt)[: 2 * MAX_SHOWN]


def _quoted(source: str) -> str:
    return f"`{one_line(source)[:MAX_SHOWN]}`"
