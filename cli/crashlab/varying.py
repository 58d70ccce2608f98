"""Values that tools return anew each time, such as a time or an id: two runs differ in them by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from bus.journal.readers import RunRecord

Place = tuple[str, ...]
"""A call, as ``call_name`` writes it, and the way to a value in its result."""
VARIES = "<varies>"
MIN_CHARS = 4
"""A shorter value stands by chance in other texts, too; it is replaced only where it is a whole value."""


class Varying:
    """The places in the results of tools where two undisturbed runs differ."""

    def __init__(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        """``first``, ``second``: what each call of the two runs returned, by ``call_name``."""
        self._first, other = dict(_leaves(first.items())), dict(_leaves(second.items()))
        self._places = {path for path in self._first.keys() & other if self._first[path] != other[path]}

    def values(self, returned: Iterable[tuple[str, Any]]) -> list[str]:
        """Return what stands at these places in the first run, and in one whose calls returned this; longest first."""
        values = {str(self._first[path]) for path in self._places}
        values |= {str(value) for path, value in _leaves(returned) if path in self._places}
        return sorted(values - {""}, key=len, reverse=True)


def without(record: RunRecord, values: Iterable[str]) -> RunRecord:
    """Return the record with a mark in place of these values."""
    output, messages = (
        _marked(record.run.get("output"), values),
        [_marked(message, values) for message in record.messages],
    )
    return replace(record, run={**record.run, "output": output}, messages=messages)


def _leaves(results: Iterable[tuple[str, Any]]) -> Iterator[tuple[Place, Any]]:
    for call, result in results:
        for way, value in _inside(result):
            yield (call, *way), value


def _inside(data: Any) -> Iterator[tuple[Place, Any]]:
    if isinstance(data, dict | list):
        for name, value in data.items() if isinstance(data, dict) else enumerate(data):
            for way, leaf in _inside(value):
                yield (str(name), *way), leaf
    else:
        yield (), data


def _marked(data: Any, values: Iterable[str]) -> Any:
    if isinstance(data, dict):
        return {name: _marked(value, values) for name, value in data.items()}
    if isinstance(data, list):
        return [_marked(value, values) for value in data]
    if str(data) in values:
        return VARIES
    if isinstance(data, str):
        for value in values:
            data = data.replace(value, VARIES) if len(value) >= MIN_CHARS else data
    return data
