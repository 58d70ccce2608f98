"""Patterns derived from a pattern: of each prefix of its matches, of a superset of them, of their first characters.

A stream must hold back an end that is the prefix of a match, and nothing else. ``prefix_pattern`` matches these
prefixes, for RE2 and the bytes of ``checks.flat``; ``superset_pattern`` matches each match and perhaps more, for one
search of many patterns; ``first_characters`` is what a match may begin with, for a fast test of the text by ``re``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from importlib import import_module
from typing import Any

Node = tuple[Any, Any]
Start = tuple[str, ...]
"""The first characters of a match, each as a regular expression."""

MOST_REPEATS = 64
"""Repeats that are counted: each takes room in RE2's automaton, and a longer match may as well be of any length."""
_FLAGS = {2: "i", 8: "m", 16: "s"}
_CLASSES = {"CATEGORY_DIGIT": "0-9", "CATEGORY_SPACE": r"\s\v\x1c-\x1f", "CATEGORY_WORD": "0-9A-Za-z_"}
_LAST_ASCII = 127
_OTHER = "?"
"""What stands for every character outside ASCII."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_SINGLE = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_WITHOUT_WIDTH = ("AT", "ASSERT", "ASSERT_NOT")


class NotLinear(ValueError):
    """A pattern has what cannot be matched in linear time: a back-reference, or an atomic group."""


@lru_cache(maxsize=64)
def parsed(pattern: str) -> Sequence[Node]:
    """Return a pattern's syntax tree, each ``x(?<=\\bx)`` as ``\\bx``.

    Raises:
        re.error: it is no regular expression.
    """
    tree = import_module("re._parser").parse(pattern)  # the module has no public name
    nodes = _hoisted(tree)
    flags = tree.state.flags & sum(_FLAGS)
    return [("SUBPATTERN", (None, flags, 0, nodes))] if flags else nodes


def prefix_pattern(pattern: str) -> str:
    """Return, for RE2, a pattern of every beginning of a match, from the empty one to the whole.

    It matches more than these only by repeats, of any number above 64, and where the pattern says what follows a match
    (``(?=x)``).

    Raises:
        NotLinear: see there.
    """
    return _prefix_pattern(parsed(pattern))


def superset_pattern(pattern: str) -> str:
    """Return, for RE2, a pattern that matches all that this one matches; and more, as ``prefix_pattern`` does.

    Raises:
        NotLinear: see there.
    """
    return _sequence(parsed(pattern))


def first_characters(pattern: str, most: int) -> Iterator[Start]:
    """Yield the first characters, at most so many, of each kind of match, for Python's ``re``.

    The repeats of a character, where they are few, count as one.
    """
    for start, _ in _starts(parsed(pattern), most):
        yield start


def first_characters_pattern(prefixes: Sequence[Start]) -> str:
    """Return, for ``re``, a pattern of all starts, whole or cut off by the text's end."""
    return _trie(prefixes)


# --- the tree --------------------------------------------------------------------------------------


def _hoisted(nodes: Sequence[Node]) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if result and _name(node) == "ASSERT" and _is_boundary_before(node, result[-1]):
            result.insert(-1, node[1][1][0])
        else:
            result.append(node)
    return result


def _is_boundary_before(node: Node, previous: Node) -> bool:
    direction, inside = node[1]
    return direction == -1 and len(inside) == 2 and _name(inside[0]) == "AT" and inside[1] == previous


def _name(node: Node) -> str:
    return str(node[0])


def _prefix_pattern(nodes: Sequence[Node]) -> str:
    return reduce(lambda rest, node: _opened(node, rest), reversed(nodes), "")


def _opened(node: Node, rest: str) -> str:
    """Return the beginnings of what matches this node and then continues with ``rest``."""
    whole, name = _emitted(node), _name(node)
    if name in _WITHOUT_WIDTH:
        return f"(?:{whole}{rest})?" if whole else rest
    if name in _SINGLE:
        return f"(?:{whole}{rest})?"
    if name in _REPEATS and _is_single(node[1][2]):
        least, most, inner = node[1]
        some = f"{_sequence(inner)}{_times(0, most)}"
        return f"(?:{some}|{whole}{rest})" if least and rest else f"{some}{rest}"
    return f"(?:{_inside(node)}|{whole}{rest})"


def _is_single(nodes: Sequence[Node]) -> bool:
    return len(nodes) == 1 and _name(nodes[0]) in _SINGLE


def _inside(node: Node) -> str:
    """Return the beginnings of what matches this node alone."""
    kind, value = _name(node), node[1]
    if kind == "BRANCH":
        return "|".join(_prefix_pattern(_hoisted(branch)) for branch in value[1])
    if kind == "SUBPATTERN":
        return f"(?{_flags(value)}:{_prefix_pattern(_hoisted(value[3]))})"
    _, most, inner = value
    return f"(?:{_sequence(inner)}){_times(0, most)}{_prefix_pattern(_hoisted(inner))}"


def _sequence(nodes: Sequence[Node]) -> str:
    return "".join(_emitted(node) for node in _hoisted(nodes))


def _emitted(node: Node) -> str:
    """Return a node in RE2's syntax."""
    kind, value = _name(node), node[1]
    if kind in _SINGLE:
        return _single(kind, value)
    if kind in _WITHOUT_WIDTH:
        return r"\b" if str(value) == "AT_BOUNDARY" else ""
    if kind == "BRANCH":
        return f"(?:{'|'.join(_sequence(branch) for branch in value[1])})"
    if kind == "SUBPATTERN":
        return f"(?{_flags(value)}:{_sequence(value[3])})"
    if kind in _REPEATS:
        least, most, inner = value
        return f"(?:{_sequence(inner)}){_times(least, most)}"
    raise NotLinear(f"it uses {kind.lower().replace('_', ' ')}, which cannot be matched in linear time")


def _times(least: int, most: Any) -> str:
    upper = "" if int(most) > MOST_REPEATS else int(most)
    return f"{{{min(int(least), MOST_REPEATS)},{upper}}}"


def _flags(value: Any) -> str:
    return "".join(letter for bit, letter in _FLAGS.items() if value[1] & bit)


def _single(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return _char(value)
    if kind == "ANY":
        return "."
    if kind == "NOT_LITERAL" and value > _LAST_ASCII:
        return "(?s:.)"
    if kind == "NOT_LITERAL":
        return _all_but(_char(value))
    is_negated = _name(value[0]) == "NEGATE"
    members = "".join(_member(item, is_negated) for item in value[is_negated:])
    if is_negated:
        return _all_but(members) if members else "(?s:.)"
    return f"[{members}]"


def _all_but(members: str) -> str:
    """Return a pattern of all other characters; of what stands for those outside ASCII too, if it is a member."""
    return rf"(?:[^{members}]|\{_OTHER})"


def _member(item: Node, is_negated: bool) -> str:
    """Return a member of a class, so that the class never has less than Python's, which knows more than ASCII."""
    kind, value = _name(item), item[1]
    if kind == "CATEGORY":
        name = str(value)
        if "NOT_" in name:  # as if the others were in it, too
            return "" if is_negated else r"\x00-\x7f"
        return _CLASSES[name] + ("" if is_negated else _OTHER)
    first, last = value if kind == "RANGE" else (value, value)
    has_others = last > _LAST_ASCII and not is_negated
    others = _OTHER if has_others else ""
    if first > _LAST_ASCII:
        return others
    return f"{_char(first)}-{_char(min(last, _LAST_ASCII))}{others}"


def _char(code: int) -> str:
    return rf"\x{{{code:x}}}" if code <= _LAST_ASCII else r"\?"


# --- the first characters --------------------------------------------------------------------------


def _starts(nodes: Sequence[Node], most: int, flags: str = "") -> list[tuple[Start, bool]]:
    """Return the starts, each with whether what follows may add to it."""
    pairs: list[tuple[Start, bool]] = [((), True)]
    zero = ""
    for node in nodes:
        kind = _name(node)
        if kind == "AT":
            zero = r"\b" if str(node[1]) == "AT_BOUNDARY" else ""
        elif kind not in _WITHOUT_WIDTH:
            continued = [_after(zero, start) for start in _starts_of(node, most, flags)]
            pairs = [ended for pair in pairs for ended in _joined(pair, continued, most)]
            zero = ""
    return pairs


def _after(zero: str, start: tuple[Start, bool]) -> tuple[Start, bool]:
    """Return the start with the boundary before its first character, behind that: so ``re`` skips other characters."""
    chars, is_open = start
    if not zero or not chars:
        return start
    return (f"{chars[0]}(?<={zero}{chars[0]})", *chars[1:]), is_open


def _joined(pair: tuple[Start, bool], others: Sequence[tuple[Start, bool]], most: int) -> Iterator[tuple[Start, bool]]:
    start, is_open = pair
    if not is_open or len(start) >= most:
        yield start, False
        return
    for more, continues in others:
        whole = (*start, *more)
        yield whole[:most], continues and len(whole) < most


def _starts_of(node: Node, most: int, flags: str) -> list[tuple[Start, bool]]:
    kind, value = _name(node), node[1]
    if kind == "BRANCH":
        return [start for branch in value[1] for start in _starts(_hoisted(branch), most, flags)]
    if kind == "SUBPATTERN":
        return _starts(_hoisted(value[3]), most, flags + _flags(value))
    if kind in _REPEATS:
        least, upper, inner = value
        if not least:
            return [((), False)]
        if int(upper) <= MOST_REPEATS and _is_single(inner):
            char = _python_char(_name(inner[0]), inner[0][1])
            return [(_repeated(f"(?{flags}:{char})" if flags else char, int(least), int(upper)), True)]
        repeated = [*_hoisted(inner)] * min(int(least), most)
        return [(start, is_open and least == upper) for start, is_open in _starts(repeated, most, flags)]
    char = _python_char(kind, value)
    return [((f"(?{flags}:{char})" if flags else char,), True)]


def _repeated(char: str, least: int, most: int) -> Start:
    """Return a character, and behind it the others: so many, or fewer at the text's end."""
    if most == 1:
        return (char,)
    others = f"{char}{{{least - 1},{most - 1}}}"
    return (char, f"(?:{others}|{char}{{0,{least - 2}}}\\Z)" if least > 2 else others)


def _python_char(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return _python_code(value)
    if kind == "NOT_LITERAL":
        return f"[^{_python_code(value)}]"
    if kind == "ANY":
        return r"[\s\S]"
    is_negated = _name(value[0]) == "NEGATE"
    return f"[{'^' if is_negated else ''}{''.join(_python_member(item) for item in value[is_negated:])}]"


def _python_member(item: Node) -> str:
    kind, value = _name(item), item[1]
    if kind == "LITERAL":
        return _python_code(value)
    if kind == "RANGE":
        return f"{_python_code(value[0])}-{_python_code(value[1])}"
    name = str(value)
    letter = name.removeprefix("CATEGORY_").removeprefix("NOT_")[0].lower()
    return "\\" + (letter.upper() if "NOT_" in name else letter)


def _python_code(code: int) -> str:
    return rf"\U{code:08x}"


def _trie(prefixes: Sequence[Start]) -> str:
    """Return one pattern of all starts that tries a character once, however many starts share it."""
    if any(not start for start in prefixes):
        return ""
    heads: dict[str, list[Start]] = {}
    for start in prefixes:
        heads.setdefault(start[0], []).append(start[1:])
    branches = []
    for head, rests in heads.items():
        rest = _trie(rests)
        branches.append(f"{head}(?:\\Z|{rest})" if rest else head)
    return "|".join(branches)
