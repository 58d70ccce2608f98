"""What a span says of a SQL statement: its text, never its parameters."""

from __future__ import annotations


def statement_name(statement: str) -> str:
    """Return the name of a statement's span: its first word."""
    words = statement[:2000].lstrip("( \t\r\n").split(None, 1)
    return words[0].upper()[:20] if words else "SQL"
