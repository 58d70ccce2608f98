"""The data of one rendering as the library sees it: no attributes, no methods, and no more work than is allowed.

The library (minijinja) reads attributes of Python's objects and calls their methods: `input.items` would be a method
of a mapping. So it gets views of mappings and lists, which have no public names, and count each value that it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson

from config.expressions.errors import ExpressionFailed
from config.expressions.references import MAX_SHOWN, kind_of, listed
from config.expressions.work import OVERHEAD
from config.text.visible import one_line

MAX_CHARS = 1_000_000
"""Characters that a rendering makes."""
MAX_WORK = 2_000_000
"""Characters and values that a rendering may read, as an upper bound: about 150 ms."""
MAX_DEPTH = 64
MISSING = "a value is missing"
TOO_LONG = f"it would run long: it reads more than {MAX_WORK:,} characters and values"
MAX_NUMBER = 2**63
"""Beyond it the library would round."""


class Rendering:
    """What one rendering may still read and make."""

    def __init__(self, optional: frozenset[str | int] | None = None, unread: int = MAX_WORK) -> None:
        """``optional``: the keys that may be missing; None: all. ``unread``: characters and values it may read."""
        self._optional = optional
        self.problem = ""
        """Why it fails; the library takes some exceptions for a value that is not equal, or not there."""
        self.unread = unread
        self._unmade = MAX_CHARS

    def failure(self, problem: str) -> ExpressionFailed:
        """Return the error to raise, and keep the first problem."""
        self.problem = self.problem or problem
        return ExpressionFailed(problem)

    def view(self, value: Any, depth: int = 0) -> Any:
        """Return a value as the library may see it.

        Raises:
            ExpressionFailed: it is no JSON data, or this is more than a rendering may read.
        """
        kind = type(value)
        self._count(OVERHEAD + (len(value) if kind is str or kind is dict else 0))
        if kind is dict or kind is list:
            self._require_flat(depth)
            if kind is dict:
                self._require_keys(value)
            return (MappingView if kind is dict else ListView)(value, self, depth)
        if value is None:
            return NULL
        self._require_scalar(value)
        return value

    def plain(self, value: Any) -> Any:
        """Return JSON data for a value of the library.

        Raises:
            ExpressionFailed: it is missing or no JSON data, or this is more than a rendering may read.
        """
        self._count(OVERHEAD)
        if value is NULL:
            return None
        if value is None:  # null is another object, so the value is undefined
            raise self.failure(MISSING)
        if isinstance(value, View):
            self._require_json(value._data)
            return value._data
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        self._require_scalar(value)
        return value

    def text(self, value: Any) -> str:
        """Return a value of the library as text; what is no text is written as JSON."""
        data = self.plain(value)
        return data if isinstance(data, str) else orjson.dumps(data).decode()

    def add(self, chars: int) -> None:
        """Count characters of the result.

        Raises:
            ExpressionFailed: it is too large.
        """
        self._unmade -= chars
        self.limit(MAX_CHARS - self._unmade)

    def limit(self, chars: int) -> None:
        """Return if a filter, or the whole rendering, may make so many characters."""
        if chars > MAX_CHARS:
            raise self.failure(f"it makes more than {MAX_CHARS:,} characters; take less of the data")

    def require(self, key: Any) -> None:
        """Return if a key that is missing may be."""
        if self._optional is not None and not (isinstance(key, str | int) and key in self._optional):
            raise self.failure(MISSING)

    def items(self, data: Sized) -> int:
        """Return how many items a list has; none where going through them would be too much."""
        if len(data) * OVERHEAD > self.unread:
            self.failure(TOO_LONG)
        return 0 if self.problem else len(data)

    def _require_json(self, data: Any) -> None:
        """Return if a value and all that it has is JSON data."""
        waiting: list[tuple[Any, int]] = [(data, 0)]
        while waiting:
            value, depth = waiting.pop()
            kind = type(value)
            if kind is dict or kind is list:
                self._require_flat(depth)
                self._count(OVERHEAD * len(value))
                if kind is dict:
                    self._require_keys(value)
                    self._count(sum(map(len, value)))
                waiting.extend((item, depth + 1) for item in (value.values() if kind is dict else value))
            elif value is not None:
                self._count(len(value) if kind is str else 0)
                self._require_scalar(value)

    def _require_flat(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise self.failure(f"a value is nested more than {MAX_DEPTH} levels deep")

    def _require_keys(self, data: dict[Any, Any]) -> None:
        try:
            "".join(data).encode()
        except (TypeError, UnicodeEncodeError):
            raise self.failure("a mapping has a key that is no text") from None

    def _require_scalar(self, value: Any) -> None:
        kind = type(value)
        if kind is str:
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self.failure("a text has half a character (a lone surrogate)") from None
        elif kind is int:
            if not -MAX_NUMBER <= value < MAX_NUMBER:
                raise self.failure("a number has more than 64 bits")
        elif kind is float:
            if not math.isfinite(value):
                raise self.failure("a number is infinite, or no number")
        elif kind is not bool:
            raise self.failure("a value is no JSON data")

    def _count(self, work: int) -> None:
        self.unread -= work
        if self.unread < 0:
            raise self.failure(TOO_LONG)


class View:
    """A mapping or list without public names, which the library would take for values."""

    __slots__ = ("_data", "_depth", "_rendering")
    __hash__ = None  # type: ignore[assignment] # it is equal to others

    def __init__(self, data: Any, rendering: Rendering, depth: int) -> None:
        self._data = data
        self._rendering = rendering
        self._depth = depth

    def __len__(self) -> int:
        return self._rendering.items(self._data)

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal data; the library takes no exception here."""
        try:
            return isinstance(other, View) and bool(self._rendering.plain(self) == self._rendering.plain(other))
        except ExpressionFailed:
            return False

    def __lt__(self, other: object) -> bool:
        """Return whether it comes first in a sorted list, which has some order at least."""
        return str(self) < str(other)

    def __str__(self) -> str:
        """Return it as JSON, with the keys in order; the library takes no exception here."""
        try:
            return orjson.dumps(self._rendering.plain(self), option=orjson.OPT_SORT_KEYS).decode()
        except ExpressionFailed:
            return ""


class MappingView(View):
    """A mapping."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str) or key not in self._data:
            self._rendering.require(key)
            raise KeyError
        return self._rendering.view(self._data[key], self._depth + 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)


class ListView(View):
    """A list."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int or not -len(self._data) <= index < len(self._data):
            self._rendering.require(index)
            raise IndexError
        return self._rendering.view(self._data[index], self._depth + 1)


Sequence.register(ListView)


class Null:
    """JSON's null: the library gives None in place of an undefined value too."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "null"


NULL = Null()


# --- filters


def filters_of(rendering: Rendering) -> dict[str, Callable[..., Any]]:
    """Return the filters that the library has not, or not with these limits."""
    of_rendering: dict[str, Callable[..., Any]] = {
        "join": join,
        "length": length,
        "map": values_of,
        "replace": replace,
        "tojson": to_json,
        "urlencode": url_encode,
    }
    return {name: partial(function, rendering) for name, function in of_rendering.items()}


def length(rendering: Rendering, value: Any) -> int:
    """Return how many items a list or mapping has, or characters a text."""
    if not isinstance(value, str | View | list | tuple):
        raise rendering.failure("`length` takes a text, a list or a mapping")
    return len(value)


def to_json(rendering: Rendering, value: Any) -> str:
    """Return a value as JSON, so that quotes and line ends of a text stay data."""
    json = orjson.dumps(rendering.plain(value)).decode()
    rendering.limit(len(json))
    return json


def join(rendering: Rendering, value: Any, separator: str = "") -> str:
    """Return the items of a list as one text."""
    texts = [rendering.text(item) for item in _items(rendering, value, "join")]
    rendering.limit(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def replace(rendering: Rendering, value: Any, old: Any, new: Any) -> str:
    """Return a text with another in the place of each ``old``."""
    if not (isinstance(value, str) and isinstance(old, str) and isinstance(new, str) and old):
        raise rendering.failure("`replace` takes texts, of which the one to replace is not empty")
    rendering.limit(len(value) + value.count(old) * len(new))
    return value.replace(old, new)


def url_encode(rendering: Rendering, value: Any) -> str:
    """Return a text or number as a part of an address; `/` is escaped too."""
    if not isinstance(value, str | int | float):
        raise rendering.failure("`urlencode` takes a text or a number")
    text = rendering.text(value)
    rendering.limit(3 * len(text.encode()))
    return quote(text, safe="")


def values_of(rendering: Rendering, value: Any, *, attribute: str) -> ListView:
    """Return what the mappings of a list have for a key."""
    values = []
    for item in _items(rendering, value, "map"):
        data = rendering.plain(item) if not isinstance(item, View) else item._data
        if not isinstance(data, dict) or attribute not in data:
            has = f"has {listed(data)}" if isinstance(data, dict) else f"is {kind_of(data)}"
            raise rendering.failure(f"`map` looks for '{one_line(str(attribute))[:MAX_SHOWN]}', and an item {has}")
        values.append(data[attribute])
    return ListView(values, rendering, 0)


def is_null(rendering: Rendering, value: Any) -> bool:
    """Return whether a value that is there is null."""
    if value is None:
        raise rendering.failure(MISSING)
    return value is NULL


def _items(rendering: Rendering, value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        return iter(value)
    if not isinstance(value, ListView):
        raise rendering.failure(f"`{name}` takes a list")
    return (value[index] for index in range(len(value)))
