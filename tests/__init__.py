"""Tests mirror the rooms. A regular package, so that a stranger's installed `tests` is never taken for it."""
