"""What is wrong with an expression; the reader of its file names the place."""

from __future__ import annotations


class ExpressionRefused(ValueError):
    """An expression cannot be used; the text says why, without naming the place."""


class ExpressionFailed(ValueError):
    """An expression could not be evaluated with these values; the text says why."""
