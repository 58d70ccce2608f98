"""Keeping the garbage collector out of the way of what streams."""

from __future__ import annotations

import gc

THRESHOLDS = (50_000, 20, 100)


def settle_heap() -> None:
    """Take what a process has loaded out of all later collections, and have those come seldom.

    A full collection over the heap of a worker, LiteLLM's 2700 modules, stops every stream for a tenth of a
    second and more; over what runs leave behind it takes milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
