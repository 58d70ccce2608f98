"""The texts that callers give a run: its input, the name of its thread, or the call that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agents.errors import INPUT_EMPTY, INPUT_TOO_LARGE
from config.errors import BadRequest
from config.text.stored_texts import stored_name

MAX_THREAD_ID = 128
MAX_TOOL_NAME = 128
MAX_ARGUMENTS_BYTES = 1024 * 1024
"""Largest arguments of a call, as JSON; as large as a model's may be."""
MAX_SHOWN = 400
"""Characters of the arguments in the readable form of a call."""


def check_thread_id(thread_id: str) -> str:
    """Return a text that can be the name of a thread.

    Raises:
        BadRequest: it cannot.
    """
    _check_text(thread_id, "the thread id")
    if not 0 < len(thread_id) <= MAX_THREAD_ID or not thread_id.isprintable() or thread_id != thread_id.strip():
        raise BadRequest(f"a thread id has 1 to {MAX_THREAD_ID} printable characters and no blanks around it.")
    stored_name(thread_id, "the thread id")
    if "/" in thread_id:
        raise BadRequest("a thread id has no '/', since it is part of URLs; use ':' or '-'.")
    if thread_id in (".", ".."):
        raise BadRequest(f"a thread id may not be '{thread_id}', which URLs leave out; choose a name.")
    return thread_id


def check_objective(objective: str, max_chars: int) -> None:
    """Check that a text can be the input of a run.

    Raises:
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest: it cannot; ``max_chars`` is the limit.
    """
    if not isinstance(objective, str):
        raise BadRequest(f"the input has to be text, and this is {type(objective).__name__}.")
    if not objective.strip():
        raise INPUT_EMPTY()
    if len(objective) > max_chars:
        raise INPUT_TOO_LARGE(size=len(objective), limit=max_chars)
    _check_text(objective, "the input")


def check_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the readable form of a call that a run can make.

    Raises:
        BadRequest: the name or the arguments are no text, or no JSON object.
        INPUT_TOO_LARGE: the arguments are larger than a model's may be.
    """
    if not 0 < len(name) <= MAX_TOOL_NAME or not name.isprintable():
        raise BadRequest(f"the name of a tool has 1 to {MAX_TOOL_NAME} printable characters.")
    stored_name(name, "the name of the tool")
    try:
        text = orjson.dumps(dict(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest("the arguments are no JSON data: use text, numbers, lists and objects.") from error
    if len(text) > MAX_ARGUMENTS_BYTES:
        raise INPUT_TOO_LARGE(size=len(text), limit=MAX_ARGUMENTS_BYTES)
    return readable_call(name, arguments)


def readable_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in readable form: ``calculator(expression="17 * 23")``."""
    argument_text = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in arguments.items())
    return f"{name}({argument_text if len(argument_text) <= MAX_SHOWN else argument_text[: MAX_SHOWN - 1] + '…'})"


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{what} has half a character at position {error.start} (a lone surrogate); send whole characters."
        ) from error
    if "\0" in text:
        raise BadRequest(f"{what} has the character NUL at position {text.index(chr(0))}; leave it out.")
