"""What no database keeps and no two readers of JSON read alike is refused before a call, in linear time."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import BadRequest
from web.mcp.arguments import require_plain


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parity
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": "b\0"}, "NUL"),
        ({"a\0": 1}, "NUL"),
        ({"a": ["\ud800"]}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ({"a": float("nan")}, "not finite"),
        ({"a": [float("-inf")]}, "not finite"),
        ({"a": 2**64}, "64 bits"),
        ({"a": 10**5000}, "64 bits"),
        ({"a": _nested(64)}, "64 levels"),
        ({"a": _nested(100_000)}, "64 levels"),
        ({"a": [1] * 200_000}, "50,000 values"),
        ({str(number): 1 for number in range(100_000)}, "50,000 values"),
    ],
    ids="NUL name surrogate half NaN infinite large digits deep deeper many names".split(),
)
def test_what_cannot_be_kept_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        require_plain(value)


@pytest.mark.parametrize(
    "value", [{}, {"a": _nested(60)}, {"a": ["é", "😀", 1.5, True, None, 2**63]}, {"a": [1] * 50_000}]
)
def test_everything_else_is_kept(value: Any) -> None:
    require_plain(value)
