"""Errors of an agent's definition and of the names in it."""

from __future__ import annotations

import errno
from pathlib import Path

from config.errors import ModelVisible, Permanent, Topic

_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EIO})
"""Errors of a system without room or with a failing disk: they say nothing about the code that meets them."""


class DefinitionInvalid(Permanent):
    """An agent's file cannot be used."""

    code = "definition_invalid"
    status = 422
    topic = Topic.CONFIGURATION
    remedy = "The sentence names file, line and field; `./callboard agents` shows all of them."

    def __init__(self, file: str, line: int | None, field: str | None, problem: str) -> None:
        file = file.encode("utf-8", "backslashreplace").decode()  # a file's name may be no text
        where = file if line is None else f"{file}:{line}"
        what = f" {field}:" if field else ""
        super().__init__(f"{where}:{what} {problem}", file=file, line=line, field=field)


class DefinitionUnreadable(DefinitionInvalid):
    """A file of the configuration cannot be read now: no free file, no permission, a disk that fails.

    Nothing is known about what it says, so nothing keeps this error: the next call reads the file again.
    """

    code = "definition_unreadable"
    status = 503
    retryable = True
    public_text = "a file of this server's configuration cannot be read now; its log names the file."
    remedy = "The message names the file and the system's reason; mend that, and the next call reads the file."

    @classmethod
    def of(cls, path: Path, error: OSError) -> DefinitionUnreadable:
        """Return the error of a file or folder that the system does not let this process read."""
        return cls(str(path), None, None, f"cannot be read now: {error.strerror or error}.")

    @classmethod
    def behind(cls, error: BaseException, path: Path) -> DefinitionUnreadable | None:
        """Return the error of foreign code at ``path`` that met such an error of the system; None where it met none."""
        seen: BaseException | None = error
        for _ in range(10):  # a chain may be a circle
            if isinstance(seen, cls):
                return seen
            if isinstance(seen, OSError) and seen.errno in _PASSING:
                return cls.of(path, seen)
            seen = seen.__cause__ or seen.__context__ if seen is not None else None
        return None


class ToolUnknown(Permanent):
    """A tool cannot be found, imported or described."""

    code = "tool_unknown"
    topic = Topic.CONFIGURATION
    over_http = False
    seed_name = "NOT_CONFIGURED"
    remedy = "`./callboard agents` says why."


class PluginUnknown(Permanent):
    """An observer cannot be found or imported."""

    code = "plugin_unknown"
    topic = Topic.CONFIGURATION
    over_http = False
    remedy = "`./callboard agents` says why."


SECRET_MISSING = ModelVisible.row(
    "secret_missing",
    "A secret that the tool refers to is not there, so the call was not made.",
    text="the secret {name} is not set for the worker: {reference} is missing or empty.",
    remedy="Set the variable, or write the file, for the workers.",
)
