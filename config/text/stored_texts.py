"""Texts from outside as they are stored: every text of a client, a tool or a model that becomes a title, a name, a key
or a question passes one of these functions.

A text that people read loses its secrets, and its hidden characters become visible. A name, by which something is
found again, cannot be changed: it is kept as it is, or refused.
"""

from __future__ import annotations

import re
from itertools import islice

from config.errors import BadRequest
from config.redaction import own_redactor, redact, redact_start
from config.text.visible import first_hidden, visible

TITLE_CHARS = 120
"""Most characters of a title."""
CALLED_NAME_CHARS = 128
"""Most characters of a name by which a model calls a tool; a tool's own has 64."""
_WORDS = 16
"""Words of such a name before which a secret is looked for: each takes a search."""
_EXAMINED = 4
"""Characters examined for each one that a line keeps: blanks and secrets shorten the text."""


def stored_text(text: str) -> str:
    """Return a text of several lines without secrets, and with its hidden characters shown by their number."""
    return visible(redact(text.replace("\r\n", "\n")))


def stored_line(text: str, max_chars: int = TITLE_CHARS) -> str:
    """Return the beginning of a text as one line: no secrets, no unprintable characters, at most ``max_chars``."""
    words = " ".join(redact_start(text, max_chars * _EXAMINED).split())
    line = "".join(character if character.isprintable() else "\ufffd" for character in words)
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def stored_called_name(name: str) -> str:
    """Return the name by which a model called a tool: a tool's name as it is, others as one line without secrets.

    ``_`` ends a word in names, so a secret may follow it, as in ``get_sk-live-…``.
    """
    line = stored_line(name, CALLED_NAME_CHARS)
    if not line or (line != name and line == name.strip()):
        line += "\ufffd"  # or else `note ` would become the tool `note`
    for at in [match.start() for match in islice(re.finditer("_", line), _WORDS)]:
        parted = f"{line[:at]} {line[at + 1 :]}"
        if redact(parted) != parted:
            return redact(parted)
    return line


def has_secret(text: str) -> bool:
    """Return whether a text has a known secret, or what looks like one."""
    return own_redactor().likely(text) != text


def stored_name(text: str, what: str) -> str:
    """Return a text that names something, unchanged.

    Raises:
        BadRequest: it has a secret or a hidden character; the message does not repeat it.
    """
    if has_secret(text):
        raise BadRequest(
            f"{what} has an API key or a token, and it is stored and shown; revoke that credential, and choose another "
            "text."
        )
    hidden = first_hidden(text)
    if hidden is not None:
        raise BadRequest(f"{what} has the hidden character {hidden}; leave it out.")
    return text
