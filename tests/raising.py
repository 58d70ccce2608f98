"""``pytest.raises`` for the errors that are rows: it compares the code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from config.errors import CallboardError, ErrorKind, ErrorRow


@contextmanager
def raises(*kinds: ErrorKind, match: str | None = None) -> Iterator[pytest.ExceptionInfo[CallboardError]]:
    """Fail unless the block raises an error of one of the kinds, with a message that matches."""
    families = tuple(kind.family if isinstance(kind, ErrorRow) else kind for kind in kinds)
    with pytest.raises(families, match=match) as info:
        yield info
    assert info.value.code in {kind.code for kind in kinds}
