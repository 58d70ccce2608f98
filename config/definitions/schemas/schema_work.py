"""How much work a JSON Schema may cause with some data, estimated from above before it is applied.

An engine without backtracking does at most one thing at each place of a pattern for each byte of a text; ``[ab]{100}``
has a hundred places. Only texts that meet a pattern count: a long text beside a short one with a pattern is no work.

The library looks at a value once for each subschema, but names what does not fit anew for each alternative that has
alternatives in it, as a union that refers to itself does: that doubles, or worse, at each level of the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from config.definitions.schemas.subschemas import in_place, inside

MAX_WORK = 1_500_000
"""Bytes times places: about 20 ms; to refuse, and to name the reason, takes several times that."""
MAX_STEPS = 10_000
"""Pairs of a value and a subschema that are looked at for it: about 20 ms."""
MAX_AGAIN = 2_000
"""Subschemas that are applied to a value to which they were applied already, where what does not fit is named: about
0.05 s."""
MAX_PLACES = 25_000
"""Most places of all patterns of a schema together: they are compiled in less than 0.1 s."""
PROPERTY_PLACES = 50
"""A Unicode property is a table of hundreds of ranges."""

_CLASSES = (r"\[\^?+(?:\\.|[^\]\\])*+(?:\]|\Z)", r"\[\^?+\]?+(?:\\.|[^\]\\])*+(?:\]|\Z)")
"""Where ``]`` stands first it ends the class for some readers and not for others."""
_ESCAPE = r"\\[pPxu]\{[^}\\]*+\}|\\."
_COUNT = r"\{[\s\d,]*+\}"
_MOST_DIGITS = 9
_TOKENS = tuple(re.compile(rf"({_COUNT})|{class_}|{_ESCAPE}|.", re.DOTALL) for class_ in _CLASSES)
_ONE_AT_A_TIME = re.compile(
    rf"\^(?:\[\^?+(?:\\.|[^\]\[\\])++\]|\\[dDwWsS]|[^\\\[\](){{}}|^$*+?])(?:[*+?]|{_COUNT})?+\$", re.DOTALL
)
"""From its beginning to its end one set of characters: however often it may stand there, one place is tried at once."""
Parts = dict[int, tuple[Any, int]]
"""Subschemas that apply to one value, each with how often."""


class SchemaWork:
    """What one schema costs, by the data that it is applied to."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._has_references = any("$ref" in part for part in _parts(schema))
        self._reaching = _reaching(schema)
        patterns = [pattern for part in _parts(schema) for pattern in _patterns_of(part)]
        self._of = {pattern: places(pattern) for pattern in patterns}
        self.places = sum(self._of[pattern] for pattern in patterns)
        """Of all patterns together."""
        self.weight = sum(
            self._of[pattern] * (PROPERTY_PLACES if r"\p" in pattern.lower() else 1) for pattern in patterns
        )
        """The same, with what makes compiling one costly."""
        self._has_names = any("patternProperties" in part or "propertyNames" in part for part in _parts(schema))

    def is_too_much(self, value: Any) -> bool:
        """Return whether applying the patterns to ``value`` may take long."""
        if not self.places or _bytes_of(value, names=self._has_names) * self.places <= MAX_WORK // 4:
            return False
        work, steps = 0.0, 0
        waiting: list[tuple[Any, Parts]] = [(value, {id(self._schema): (self._schema, 1)})]
        while waiting and work <= MAX_WORK:
            item, parts = waiting.pop()
            applied = self._applied(parts, is_counted=False)
            steps += len(applied)
            if steps > MAX_STEPS:
                return True
            # The reasons of a refusal are looked for in each alternative of an alternative anew.
            work += sum(self._met(part, item) for part, _ in applied) * (1 + len(applied) / 16)
            waiting += (
                (inner, inner_parts) for inner, inner_parts in _inside(applied, item, self._reaching) if inner_parts
            )
        return work > MAX_WORK

    def is_long_to_explain(self, value: Any) -> bool:
        """Return whether naming what of ``value`` does not fit may take long."""
        if not self._has_references:
            return False  # then each subschema stands at one place, and is applied as often as there are values
        again, steps = 0, 0
        waiting: list[tuple[Any, Parts]] = [(value, {id(self._schema): (self._schema, 1)})]
        while waiting and again <= MAX_AGAIN:
            item, parts = waiting.pop()
            applied = self._applied(parts, is_counted=True)
            steps += len(applied)
            if steps > MAX_STEPS:
                return True
            again += sum(count for _, count in applied) - len({id(part) for part, _ in applied})
            waiting += ((inner, inner_parts) for inner, inner_parts in _inside(applied, item) if inner_parts)
        return again > MAX_AGAIN

    def _applied(self, parts: Parts, *, is_counted: bool) -> list[tuple[Mapping[str, Any], int]]:
        """Return the subschemas that apply to a value to which ``parts`` do, each with how often.

        Uncounted: those once from which a pattern is reached.
        """
        applied: list[tuple[Mapping[str, Any], int]] = []
        seen: set[int] = set()
        waiting = list(parts.values())
        while waiting and len(applied) <= MAX_STEPS:
            part, count = waiting.pop()
            if not isinstance(part, Mapping) or (
                not is_counted and (id(part) in seen or id(part) not in self._reaching)
            ):
                continue
            seen.add(id(part))
            applied.append((part, count))
            waiting += ((inner, count) for inner in in_place(part, self._schema))
        return applied

    def _met(self, part: Mapping[str, Any], item: Any) -> int:
        """Return bytes times places for the patterns of a subschema itself."""
        if isinstance(item, str):
            return self._of[part["pattern"]] * _size(item) if isinstance(part.get("pattern"), str) else 0
        if isinstance(item, Mapping) and isinstance(part.get("patternProperties"), Mapping):
            return 2 * sum(self._of[pattern] for pattern in part["patternProperties"]) * sum(map(_size, item))
        return 0


def places(pattern: str) -> int:
    """Return at most how many places of a pattern can be tried at one byte of a text."""
    if _ONE_AT_A_TIME.fullmatch(pattern):
        return 2
    is_ambiguous = "[]" in pattern or "[^]" in pattern
    return max(_places(pattern, tokens) for tokens in (_TOKENS if is_ambiguous else _TOKENS[:1]))


def _places(pattern: str, tokens: re.Pattern[str]) -> int:
    """Return the number of characters, classes and groups, those that are counted as often as they are."""
    open_: list[int] = []
    here = last = 0
    for token in tokens.finditer(pattern):
        text = token[0]
        if token[1]:
            more = text.rstrip("} ").endswith(",")
            times = max([1, *(int(number[:_MOST_DIGITS]) + more for number in re.findall(r"\d+", text))])
            here, last = here + 1 + last * (times - 1), last * times
        elif text == "(":
            open_.append(here)
            here, last = 1, 0
        elif text == ")" and open_:
            last, here = here, here + open_.pop()
        elif text not in "*+?":
            here, last = here + 1, 0 if text == "|" else 1
    return here + sum(open_)


def _inside(
    applied: Sequence[tuple[Mapping[str, Any], int]], item: Any, part_ids: frozenset[int] | None = None
) -> Iterator[tuple[Any, Parts]]:
    """Yield what is inside a value, each with the subschemas that apply to it: all, or only ``wanted`` ones."""
    if isinstance(item, Mapping):
        for name, inner in item.items():
            yield inner, _joined(((_of_property(part, name), count) for part, count in applied), part_ids)
            yield name, _joined((((part.get("propertyNames"),), count) for part, count in applied), part_ids)
    elif isinstance(item, list | tuple):
        for number, inner in enumerate(item):
            yield inner, _joined(((_of_item(part, number), count) for part, count in applied), part_ids)


def _of_property(part: Mapping[str, Any], name: str) -> Iterator[Any]:
    own = part.get("properties") or {}
    yield from (own[name],) if name in own else (part.get("additionalProperties"), part.get("unevaluatedProperties"))
    yield from (part.get("patternProperties") or {}).values()


def _of_item(part: Mapping[str, Any], number: int) -> Iterator[Any]:
    yield from (part.get("prefixItems") or ())[number : number + 1]
    yield from (part.get(keyword) for keyword in ("items", "contains", "unevaluatedItems"))


def _joined(pairs: Iterable[tuple[Iterable[Any], int]], part_ids: frozenset[int] | None) -> Parts:
    parts: Parts = {}
    for subschemas, count in pairs:
        for part in subschemas:
            if isinstance(part, Mapping) and (part_ids is None or id(part) in part_ids):
                parts[id(part)] = part, count + parts.get(id(part), (part, 0))[1]
    return parts


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object within a schema, itself included."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield part
        waiting.extend(inside(part))


def _patterns_of(part: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(part.get("pattern"), str):
        yield part["pattern"]
    if isinstance(part.get("patternProperties"), Mapping):
        yield from part["patternProperties"]


def _reaching(schema: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids of the parts of a schema from which a pattern is reached."""
    above: dict[int, list[int]] = {}
    waiting, part_ids = [schema], []
    while waiting:
        part: Any = waiting.pop()
        targets = in_place(part, schema, only_references=True) if isinstance(part, Mapping) else ()
        for inner in (*inside(part), *targets):
            above.setdefault(id(inner), []).append(id(part))
        waiting.extend(inside(part))
        if isinstance(part, Mapping) and any(True for _ in _patterns_of(part)):
            part_ids.append(id(part))
    reaching: set[int] = set()
    while part_ids:
        part_id = part_ids.pop()
        if part_id not in reaching:
            reaching.add(part_id)
            part_ids.extend(above.get(part_id, ()))
    return frozenset(reaching)


def _bytes_of(value: Any, *, names: bool) -> int:
    """Return how many bytes the texts of the data have, with or without the names in it."""
    if isinstance(value, str):
        return _size(value)
    size, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if names and isinstance(item, Mapping):
            size += sum(map(_size, item))
        for inner in inside(item):
            if isinstance(inner, str):
                size += _size(inner)
            elif isinstance(inner, dict | list):
                waiting.append(inner)
    return size


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
