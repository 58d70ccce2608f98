"""The texts that callers give a run: its input and the name of its thread."""

from __future__ import annotations

from agents.errors import InputEmpty, InputTooLarge
from config.errors import BadRequest

MAX_THREAD_ID = 128


def check_thread_id(thread_id: str) -> str:
    """Return a text that can be the name of a thread.

    Raises:
        BadRequest: it cannot.
    """
    _check_text(thread_id, "the thread id")
    if not 0 < len(thread_id) <= MAX_THREAD_ID or not thread_id.isprintable() or thread_id != thread_id.strip():
        raise BadRequest(f"a thread id has 1 to {MAX_THREAD_ID} printable characters and no blanks around it.")
    if "/" in thread_id:
        raise BadRequest("a thread id has no '/', since it is part of URLs; use ':' or '-'.")
    if thread_id in (".", ".."):
        raise BadRequest(f"a thread id may not be '{thread_id}', which URLs leave out; choose a name.")
    return thread_id


def check_objective(objective: str, max_chars: int) -> None:
    """Check that a text can be the input of a run.

    Raises:
        InputEmpty, InputTooLarge, BadRequest: it cannot; ``max_chars`` is the limit.
    """
    if not isinstance(objective, str):
        raise BadRequest(f"the input has to be text, and this is {type(objective).__name__}.")
    if not objective.strip():
        raise InputEmpty
    if len(objective) > max_chars:
        raise InputTooLarge(size=len(objective), limit=max_chars)
    _check_text(objective, "the input")


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{what} has half a character at position {error.start} (a lone surrogate); send whole characters."
        ) from error
    if "\0" in text:
        raise BadRequest(f"{what} has the character NUL at position {text.index(chr(0))}; leave it out.")
