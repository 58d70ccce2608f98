"""A message of a server that has many values is refused before it is parsed, in whatever pieces it arrives."""

from __future__ import annotations

import pytest

from agents.tools.mcp.connection import traffic as values
from agents.tools.mcp.connection.traffic import MAX_LEVELS, MAX_VALUES, EventValues, TooMuch, require_flat

MIB = 1024 * 1024
FEW, FEW_LINES = 1000, 100
"""The bounds of a message's values and lines here: streams arrive byte by byte."""
MANY = b"[" + b"1," * (FEW + 1) + b"1]"
TEXT = b'{"a":"' + b"," * (FEW + 1) + b'"}'


def _arrive(stream: bytes, size: int) -> None:
    arriving = EventValues(4 * MIB)
    for at in range(0, len(stream), size):
        arriving.arrived(stream[at : at + size])
    arriving.ended()


@pytest.mark.parametrize("size", [1, 7, 65536])
@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize(
    ("lines", "is_refused"),
    [
        ([b"data: " + MANY], True),
        ([b'data: "x"', b"", b"data:" + MANY], True),
        ([b': a comment with "', b'event: "', b"data: " + MANY], True),
        ([b"data: " + MANY[:FEW], b"data: " + MANY[FEW:]], True),
        ([b"data: 1"] + [b"data: " + b"1," * 11] * (FEW_LINES + 1), True),
        ([b"data: " + TEXT], False),
        ([b"data: " + MANY[: FEW // 2], b"", b"", b"data: " + MANY[: 3 * FEW // 2], b""], False),
        ([b": " + MANY, b"data: 1"], False),
    ],
    ids=["one", "second", "comment", "two lines", "many lines", "text", "two events", "in a comment"],
)
def test_the_values_of_each_event_are_counted(
    monkeypatch: pytest.MonkeyPatch, lines: list[bytes], line_end: bytes, size: int, is_refused: bool
) -> None:
    monkeypatch.setattr(values, "MAX_VALUES", FEW)
    monkeypatch.setattr(values, "MAX_LINES", FEW_LINES)
    stream = line_end.join([*lines, b"", b""])

    if is_refused:
        with pytest.raises(TooMuch):
            _arrive(stream, size)
    else:
        _arrive(stream, size)


def test_an_event_at_the_end_of_the_stream_is_looked_at() -> None:
    with pytest.raises(TooMuch, match="more than 100,000 values"):
        _arrive(b"data: [" + b"1," * (MAX_VALUES + 1) + b"1]\n\r", 65536)


def test_what_is_nested_too_deeply_is_said_and_other_garbage_is_none() -> None:
    require_flat(b"{" + b"[" * (MAX_LEVELS - 1))
    require_flat(b'{"a":"' + b"[" * 1000 + b'"')
    require_flat(b"{" + b"[]" * 1000)
    with pytest.raises(TooMuch, match="nested more than 200 levels"):
        require_flat(b'{"a":' + b"[" * 100_000)
