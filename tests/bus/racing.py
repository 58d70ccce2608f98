"""Calls that begin at the same moment, each on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def at_once(number: int, function: Callable[[int], Any]) -> list[Any]:
    """Return what ``number`` threads got that all began at the same moment; an error is returned too."""
    gate = threading.Barrier(number)

    def begin(index: int) -> Any:
        gate.wait(20)
        try:
            return function(index)
        except Exception as error:
            return error

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(begin, range(number)))
